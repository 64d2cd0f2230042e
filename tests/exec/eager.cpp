#include "tenet/exec/eager.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "../support/message.hpp"
#include "tenet/tenet.hpp"

namespace {

using namespace tenet;

/// A tape with its executor.
template <class Device>
struct Tape {
  std::unique_ptr<typename Device::Kernels::Executor> executor = make_executor<Device>();
  Eager<Device> context{*executor};

  template <class Type>
  auto tensor(const std::vector<typename Type::Element>& values, int batch = 1, bool requires_grad = false) {
    return context.template tensor<Type>(values.data(), batch, requires_grad);
  }
};
using Devices = std::tuple<Reference, Cpu<0, 2>>;

std::vector<float> copy(std::span<const float> values) { return {values.begin(), values.end()}; }

}  // namespace

TEMPLATE_LIST_TEST_CASE("eager operations run at once", "[eager]", Devices) {
  Tape<TestType> tape;
  auto x = tape.template tensor<Batched<3>>({1, -2, 3, -4, 5, -6}, 2);
  const auto weight = tape.template tensor<Fixed<3>>({1, 10, 100});
  CHECK(copy(x.values()) == std::vector<float>{1, -2, 3, -4, 5, -6});
  CHECK(copy(relu(x).values()) == std::vector<float>{1, 0, 3, 0, 5, 0});
  CHECK(copy((x * weight + 1.0f).values()) == std::vector<float>{2, -19, 301, -3, 51, -599});
  CHECK(copy(sum<1>(x).values()) == std::vector<float>{2, -5});
  CHECK(copy(sum<0>(x).values()) == std::vector<float>{-3, 3, -3});
  CHECK(sum(x).item() == -3);
  CHECK(mean(x).item() == -0.5f);
  // Views are the same memory.
  CHECK(reshape<3, 1>(x).values().data() == x.values().data());
}

TEST_CASE("eager values may be branched on and looped over", "[eager]") {
  Tape<Reference> tape;
  // Newton's iteration for the square root of 2, until it stands still.
  auto root = tape.tensor<Scalar>({1});
  int steps = 0;
  for (float before = 0; root.item() != before && steps < 20; ++steps) {
    before = root.item();
    root = 0.5f * (root + 2.0f / root);
  }
  CHECK(root.item() == Approx(std::sqrt(2.0)).epsilon(1e-6));
  CHECK(steps < 10);
  // The gradient follows the branch that was taken.
  for (const float sign : {1.0f, -1.0f}) {
    auto x = tape.context.template tensor<Scalar>(&sign, 1, true);
    const auto y = x.item() > 0 ? 3.0f * x : 5.0f * square(x);
    tape.context.backward(y);
    CHECK(tape.context.gradient(x)[0] == (sign > 0 ? 3 : -10));
  }
}

TEST_CASE("eager tensors print their shape and their values", "[eager]") {
  Tape<Reference> tape;
  CHECK(to_string(tape.tensor<Scalar>({2.5})) == "tensor(2.5)");
  CHECK(to_string(tape.tensor<Batched<2, 2>>({1, 2, 3, 4, 5, 6, 7, -0.125}, 2)) ==
        "tensor(2 x 2 x 2; 1, 2, 3, 4, 5, 6, 7, -0.125)");
  CHECK(to_string(tape.tensor<Fixed<3>>({1, 2, 3})) == "tensor(3; 1, 2, 3)");
  CHECK(to_string(tape.tensor<Batched<>>({7, 8}, 2)) == "tensor(2; 7, 8)");
  CHECK(to_string(tape.tensor<BatchedInt<>>({4, -1}, 2)) == "tensor(2; 4, -1)");
  std::vector<float> twelve, twenty;
  for (int i = 0; i < 20; ++i) (i < 12 ? twelve : twenty).push_back(static_cast<float>(i));
  CHECK(to_string(tape.tensor<Fixed<12>>(twelve)) == "tensor(12; 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)");
  twelve.insert(twelve.end(), twenty.begin(), twenty.end());
  CHECK(to_string(tape.tensor<Fixed<20>>(twelve)) == "tensor(20; 0, 1, 2, 3, 4, 5, …, 17, 18, 19)");
  std::ostringstream stream;
  stream << "x = " << tape.tensor<Scalar>({1}) << '\n';
  CHECK(stream.str() == "x = tensor(1)\n");
}

TEST_CASE("batches of one eager tape are equal", "[eager]") {
  Tape<Reference> tape;
  tape.tensor<Batched<1>>({1, 2, 3}, 3);
  tape.tensor<Fixed<2>>({1, 2});  // what has no batch fits every batch
  CHECK(message_of([&] {
          tape.tensor<Batched<1>>({1, 2}, 2);
        }) == "tensor: batch differs from that of the other tensors; expected 3 (or clear() first), found 2");
  CHECK(tape.tensor<Batched<2>>({1, 2, 3, 4, 5, 6}, 3).values().size() == 6);  // the tape is as it was
  tape.context.clear();
  CHECK(tape.tensor<Batched<1>>({1, 2}, 2).values().size() == 2);
  for (const int batch : {0, -1})
    CHECK(message_of([&] { tape.tensor<Batched<1>>({1}, batch); }) ==
          "tensor: batch; expected at least one sample, found " + std::to_string(batch));
}

TEMPLATE_LIST_TEST_CASE("eager gradients of tensors that require them", "[eager]", Devices) {
  Tape<TestType> tape;
  const auto x = tape.template tensor<Batched<2>>({1, 2, 3, 4}, 2, true);
  const auto weight = tape.template tensor<Fixed<2>>({5, 6}, 1, true);
  const auto other = tape.template tensor<Batched<2>>({1, 1, 2, 2}, 2);
  CHECK(tape.context.gradient(x).empty());
  const auto y = square(x) * weight + x * other;  // x is used twice
  tape.context.backward(sum(y));
  // dy / dx = 2 x weight + other, dy / dweight = the sum over the batch of x².
  CHECK(copy(tape.context.gradient(x)) == std::vector<float>{11, 25, 32, 50});
  CHECK(copy(tape.context.gradient(weight)) == std::vector<float>{10, 20});
  CHECK(tape.context.gradient(other).empty());
  CHECK(copy(tape.context.gradient(y)) == std::vector<float>{1, 1, 1, 1});  // of values on the way, too
  tape.context.backward(mean(weight));                                      // another loss on the same tape
  CHECK(copy(tape.context.gradient(weight)) == std::vector<float>{0.5, 0.5});
  CHECK(tape.context.gradient(x).empty());
}

TEMPLATE_LIST_TEST_CASE("eager gradients pass through kernels", "[eager]", Devices) {
  Tape<TestType> tape;
  const auto x = tape.template tensor<Image<1, 2, 2>>({1, 7, 3, 4, 5, 6, 9, 8}, 2, true);
  const auto filter = tape.template tensor<Fixed<1, 1, 1, 1>>({3}, 1, true);
  tape.context.backward(sum(max_pool2d<2>(conv2d<1, 0>(x, filter))));
  CHECK(copy(tape.context.gradient(x)) == std::vector<float>{0, 3, 0, 0, 0, 0, 3, 0});
  CHECK(copy(tape.context.gradient(filter)) == std::vector<float>{16});
}

TEST_CASE("a cleared eager tape uses its memory again", "[eager]") {
  Tape<Reference> tape;
  const std::vector<float> small{1, 2, 3}, large(100000, 0.5f);
  std::vector<const float*> first;
  for (int round = 0; round < 3; ++round) {
    std::vector<const float*> places;
    const auto a = tape.tensor<Fixed<3>>(small, 1, true), b = 2.0f * a;
    const auto c = tape.tensor<Fixed<100000>>(large), d = exp(c);  // more than the first piece of memory
    tape.context.backward(sum(b));
    for (const float* place :
         {a.values().data(), b.values().data(), c.values().data(), d.values().data(), tape.context.gradient(a).data()})
      places.push_back(place);
    CHECK(copy(tape.context.gradient(a)) == std::vector<float>{2, 2, 2});
    if (round == 0) first = places;
    CHECK(places == first);
    tape.context.clear();
    CHECK(tape.context.gradient(a).empty());
  }
  for (const float* place : first) CHECK(reinterpret_cast<std::uintptr_t>(place) % 64 == 0);
}
