#include "tenet/ops/attention.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
constexpr auto attend = [](auto q, auto k, auto v) { return scaled_dot_product_attention(q, k, v); };
static_assert(std::is_same_v<traced::ResultOf<decltype(attend), Batched<2, 5, 4>, Batched<2, 7, 4>, Batched<2, 7, 4>>,
                             Batched<2, 5, 4>>);
static_assert(detail::reciprocal_square_root(1) == 1.0f && detail::reciprocal_square_root(64) == 0.125f);
static_assert(detail::reciprocal_square_root(1 << 20) == 0x1p-10f);

template <bool causal>
struct Attend {
  Parameter<Fixed<2, 3, 4>, Constant<1>> query, key, value;
  constexpr auto forward(auto x) const {
    return tanh(scaled_dot_product_attention<causal>(x * query.in(x), x + key.in(x), x * value.in(x)));
  }
};
}  // namespace

TEST_CASE("gradients of attention") {
  law::check_gradients<Attend<false>, Batched<2, 3, 4>>({.low = -2, .high = 2, .step = 5e-3f});
  law::check_gradients<Attend<true>, Batched<2, 3, 4>>({.low = -2, .high = 2, .step = 5e-3f});
}

TEST_CASE("a causal result does not depend on later positions") {
  Model<Attend<true>, Batched<2, 3, 4>, Reference> model;
  std::vector<float> x = law::sample<float>(24, 5, {});
  const auto before = model(x.data());
  const std::vector<float> kept(before.begin(), before.end());
  for (std::size_t head = 0; head < 2; ++head) x[12 * head + 11] += 1;  // the last position
  const auto after = model(x.data());
  for (std::size_t i = 0; i < 24; ++i)
    if (i % 12 < 8) CHECK(after[i] == kept[i]);
  CHECK(after[11] != kept[11]);
}
