// A program of its own, which is compiled with -fsanitize=undefined: whoever looks for mistakes in his program so has
// the library's headers in it. For GCC addresses are no constants then: see core/same_address.hpp. (The tests under the
// sanitizers are another compiler's.)
#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/tenet.hpp>
#include <type_traits>

using namespace tenet;

namespace {

template <class T>
struct Anywhere {
  static constexpr int value = 0;
};
template <class T>
concept IsKnownNotNull = requires { typename std::bool_constant<(&Anywhere<T>::value != nullptr)>; };

struct Block : Sequential<Conv2d<4, 4, 3, Padding<1>>, BatchNorm2d<4>, ReLU> {};
struct Net : Sequential<Conv2d<1, 4, 3, Padding<1>>, BatchNorm2d<4>, ReLU, Residual<Block>, MaxPool2d<2>, Flatten,
                        Linear<64, 16>, LayerNorm<16>, Dropout<10>, Linear<16, 3>> {};
struct SmallNet : Sequential<Linear<4, 8>, ReLU, Linear<8, 8>, Sigmoid, Linear<8, 2>> {};

}  // namespace

TEST_CASE("a network trains in a program with -fsanitize=undefined") {
#if defined __GNUC__ && !defined __clang__
  CHECK_FALSE(IsKnownNotNull<int>);  // else the option is missing
#endif
  Trainer<Net, CrossEntropy, ClipGradNorm<AdamW>, Image<1, 8, 8>, DataParallel<2>, AllReduce> trainer{
      {{.learning_rate = 0.01f}, 1.0f}};
  constexpr int batch = 6;
  float images[batch * 64];
  std::int32_t labels[batch];
  for (int i = 0; i < batch; ++i) {
    labels[i] = i % 3;
    for (int p = 0; p < 64; ++p) images[64 * i + p] = static_cast<float>((p * (labels[i] + 2)) % 7) - 3;
  }
  const float before = trainer.step(images, labels, batch).loss;
  for (int step = 0; step < 30; ++step) trainer.step(images, labels, batch);
  CHECK(trainer.step(images, labels, batch).loss < 0.5f * before);
  CHECK(trainer.summary().find("all-reduce") != std::string::npos);
}

TEST_CASE("so does one whose step for one sample is a single function") {
  Trainer<SmallNet, MeanSquaredError, Sgd, Features<4>> trainer{{.learning_rate = 0.1f}};
  const float input[]{1, -1, 0.5f, 2}, target[]{0.5f, -1};
  const float before = trainer.step(input, target, 1).loss;
  for (int step = 0; step < 30; ++step) trainer.step(input, target, 1);
  CHECK(trainer.step(input, target, 1).loss < 0.1f * before);
  CHECK(trainer.predict(input, 1)[1] == Approx(-1).margin(0.3));
}
