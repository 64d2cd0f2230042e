#include "../attention_cases.hpp"
#include "agreement.hpp"
#include "tenet/device/cuda/attention.hpp"
#include "tenet/device/reference/attention.hpp"

namespace {

void check_forward(const AttentionCase& shape, const std::vector<float>& x, double tolerance) {
  check_agreement(shape.results, tolerance,
                  [&](auto& place, float* to) { shape.forward(place.executor, place.in(x), to); });
}
void check_backward(const AttentionCase& shape, const std::vector<float>& x, double tolerance) {
  const auto upstream = random_floats(shape.results, 2);
  check_agreement(shape.gradients, tolerance,
                  [&](auto& place, float* to) { shape.backward(place.executor, place.in(x), place.in(upstream), to); });
}

void check_attention(const AttentionCase& shape) {
  CAPTURE(shape.batch, shape.g.heads, shape.g.queries, shape.g.keys, shape.g.width, shape.g.causal);
  const auto x = random_floats(shape.operands, 1);
  check_forward(shape, x, 2e-6);
  if (shape.g.keys > 1) check_backward(shape, x, 1e-5);  // else the gradients of queries and keys are zero
}

}  // namespace

TEST_CASE("attention agrees with the reference", "[cuda][attention]") {
  for (const bool causal : {false, true}) {
    for (const int length : {1, 2, 3, 4, 5, 16, 17, 32, 63}) {
      check_attention(AttentionCase::of_projection(1, 1, length, 4, causal));
      check_attention(AttentionCase::of_projection(3, 2, length, 16, causal));
      check_attention(AttentionCase::of_parts(2, 3, length, length, 11, causal));
    }
    for (const int width : {1, 3, 8, 31, 32, 33, 64, 65, 100, 128, 129, 256})
      check_attention(AttentionCase::of_projection(2, 2, 21, width, causal));
    check_attention(AttentionCase::of_projection(17, 2, 10, 24, causal));
    check_attention(AttentionCase::of_parts(1, 1, 260, 260, 20, causal));
    check_attention(AttentionCase::of_parts(2, 3, 50, 7, 12, causal));  // other keys than queries
    check_attention(AttentionCase::of_parts(2, 3, 7, 70, 12, false));
  }
}

TEST_CASE("attention of many rows agrees with the reference", "[cuda][attention]") {
  check_attention(AttentionCase::of_projection(1, 1, 400, 3, true));
}

TEST_CASE("keys behind the last query of causal attention get no gradient", "[cuda][attention]") {
  const AttentionCase shape = AttentionCase::of_parts(1, 1, 5, 70, 4, true);
  check_attention(shape);
  const auto x = random_floats(shape.operands, 1), upstream = random_floats(shape.results, 2);
  std::vector<float> gradient(static_cast<std::size_t>(shape.gradients), 1);
  tenet::gpu::SerialHost host;
  shape.backward(host, x.data(), upstream.data(), gradient.data());
  for (long i = 5 * 4; i < 70 * 4; ++i) {
    CHECK(gradient[static_cast<std::size_t>(shape.dkey + i)] == 0);
    CHECK(gradient[static_cast<std::size_t>(shape.dvalue + i)] == 0);
  }
}

TEST_CASE("attention bears scores that are far apart, and reports those that are no numbers", "[cuda][attention]") {
  for (const bool causal : {false, true}) {
    const AttentionCase shape = AttentionCase::of_projection(2, 2, 40, 8, causal);
    auto x = random_floats(shape.operands, 1);
    for (float& number : x) number *= 8;
    check_forward(shape, x, 5e-5);
    x = random_floats(shape.operands, 1);
    x[static_cast<std::size_t>(shape.query)] = __builtin_nanf("");
    x[static_cast<std::size_t>(shape.key + 3 * shape.g.key.row)] = __builtin_inff();
    check_forward(shape, x, 2e-6);
    check_backward(shape, x, 1e-5);
  }
}

TEST_CASE("attention bears values that have much in common", "[cuda][attention]") {
  const AttentionCase shape = AttentionCase::of_parts(1, 2, 40, 40, 8, true);
  auto x = random_floats(shape.operands, 1);
  for (long i = shape.value; i < shape.operands; ++i) x[static_cast<std::size_t>(i)] += 100;
  check_backward(shape, x, 1e-4);
}

namespace {
/// The host with a workspace for the statistics of a hundred queries.
struct NarrowHost : tenet::gpu::SerialHost {
  static constexpr long workspace_bytes = 100 * 12;
};
}  // namespace

TEST_CASE("attention takes heads in turns whose statistics do not fit the workspace", "[cuda][attention]") {
  NarrowHost host;
  tenet::reference::Serial serial;
  for (const int queries : {20, 33, 100}) {  // 5 heads at once, 3, and one
    const AttentionCase shape = AttentionCase::of_parts(3, 4, queries, 9, 5, true);
    const auto x = random_floats(shape.operands, 1), upstream = random_floats(shape.results, 2);
    std::vector<float> gradient(static_cast<std::size_t>(shape.gradients)), expected = gradient;
    shape.backward(host, x.data(), upstream.data(), gradient.data());
    shape.backward(serial, x.data(), upstream.data(), expected.data());
    for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(std::fabs(gradient[i] - expected[i]) < 1e-5);
    const tenet::gpu::FarMemory::Open open;  // for a look at the workspace
    const char* const memory = static_cast<const char*>(host.workspace());
    CHECK(std::count(memory + NarrowHost::workspace_bytes, memory + 4096, 0) == 4096 - NarrowHost::workspace_bytes);
  }
  const AttentionCase shape = AttentionCase::of_parts(1, 1, 101, 2, 2, true);
  std::vector<float> x(static_cast<std::size_t>(shape.operands));
  CHECK_THROWS_WITH(shape.backward(host, x.data(), x.data(), x.data()),
                    "Cuda: attention over many queries, whose statistics the workspace holds; expected at most 100 "
                    "queries, found 101");
}

TEST_CASE("attention refuses what its kernels cannot hold", "[cuda][attention]") {
  const AttentionCase shape = AttentionCase::of_parts(1, 1, 2, 2, 257, false);
  const auto x = random_floats(shape.operands, 1);
  std::vector<float> y(static_cast<std::size_t>(shape.results));
  tenet::gpu::SerialHost host;
  CHECK_THROWS_WITH(shape.forward(host, x.data(), y.data()),
                    "Cuda: attention with wide heads; expected at most 256 columns a head, found 257");
}
