#include "tenet/device/cpu/attention.hpp"

#include "../agreement.hpp"
#include "../attention_cases.hpp"
#include "tenet/device/reference/attention.hpp"

namespace {

void check_attention(const AttentionCase& shape) {
  CAPTURE(shape.batch, shape.g.heads, shape.g.queries, shape.g.keys, shape.g.width, shape.g.causal);
  const auto x = random_floats(shape.operands, 1), upstream = random_floats(shape.results, 2);
  check_agreement(shape.results, 2e-6, [&](auto& executor, float* to) { shape.forward(executor, x.data(), to); });
  if (shape.g.keys == 1) return;  // the gradients of queries and keys are zero
  check_agreement(shape.gradients, 1e-5,
                  [&](auto& executor, float* to) { shape.backward(executor, x.data(), upstream.data(), to); });
}

}  // namespace

TEST_CASE("attention agrees with the reference", "[cpu][attention]") {
  for (const bool causal : {false, true}) {
    for (const int length : {1, 2, 5, 16, 17, 48, 49, 63, 128, 150}) {
      check_attention(AttentionCase::of_projection(1, 1, length, 4, causal));
      check_attention(AttentionCase::of_projection(3, 2, length, 16, causal));
      check_attention(AttentionCase::of_parts(2, 3, length, length, 11, causal));
    }
    for (const int width : {1, 3, 8, 24, 32, 33, 64, 100})
      check_attention(AttentionCase::of_projection(17, 2, 33, width, causal));
    check_attention(AttentionCase::of_projection(33, 4, 20, 8, causal));
    check_attention(AttentionCase::of_parts(2, 2, 400, 400, 20, causal));
    check_attention(AttentionCase::of_parts(2, 3, 50, 7, 12, causal));  // other keys than queries
    check_attention(AttentionCase::of_parts(2, 3, 7, 70, 12, false));
  }
}

TEST_CASE("keys behind the last query of causal attention get no gradient", "[cpu][attention]") {
  const AttentionCase shape = AttentionCase::of_parts(1, 1, 5, 70, 4, true);
  check_attention(shape);
  const auto x = random_floats(shape.operands, 1), upstream = random_floats(shape.results, 2);
  std::vector<float> gradient(static_cast<std::size_t>(shape.gradients), 1);
  shape.backward(pool(1), x.data(), upstream.data(), gradient.data());
  for (long i = 5 * 4; i < 70 * 4; ++i) {
    CHECK(gradient[static_cast<std::size_t>(shape.dkey + i)] == 0);
    CHECK(gradient[static_cast<std::size_t>(shape.dvalue + i)] == 0);
  }
}

TEST_CASE("attention bears scores that are far apart, and reports those that are no numbers", "[cpu][attention]") {
  for (const bool causal : {false, true}) {
    const AttentionCase shape = AttentionCase::of_projection(2, 2, 40, 8, causal);
    auto x = random_floats(shape.operands, 1);
    for (float& number : x) number *= 8;
    check_agreement(shape.results, 5e-5, [&](auto& executor, float* to) { shape.forward(executor, x.data(), to); });
    x[static_cast<std::size_t>(shape.query)] = __builtin_nanf("");
    std::vector<float> y(static_cast<std::size_t>(shape.results));
    shape.forward(pool(1), x.data(), y.data());
    for (int c = 0; c < shape.g.width; ++c) CHECK(std::isnan(y[static_cast<std::size_t>(c)]));
    CHECK_FALSE(std::isnan(y[static_cast<std::size_t>(shape.g.result.row)]));
  }
}

TEST_CASE("attention needs scratch memory for a block of scores, not for all of them", "[cpu][attention]") {
  constexpr const tenet::cpu::Workers* none = nullptr;
  constexpr tenet::AttentionGeometry::Steps steps{0, 0, 64};
  constexpr tenet::AttentionGeometry g{8, 4096, 4096, 64, true, 1, steps, steps, steps, steps, steps, steps, steps};
  static_assert(scratch_attention(none, g) < 4096 * 4096 / 8);
  static_assert(scratch_attention_gradient(none, g) < 4096 * 4096 / 8);
}
