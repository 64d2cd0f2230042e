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

// One kernel, whose gradient is one, too; values of another width go the long way.
constexpr auto attend_to_shared = [](auto x) {
  const auto shared = constant(reshape<6, 4>(x), 0.5f);
  return scaled_dot_product_attention(reshape<6, 4>(x), reshape<6, 4>(x) + shared, narrow<2, 0, 3>(reshape<6, 4>(x)));
};
static_assert(traced::operations<traced::Inference<traced::Function<attend_to_shared>, Batched<24>>>("attention") == 0);
static_assert(traced::operations<traced::Inference<traced::Function<attend_to_shared>, Batched<24>>>("matmul") == 2);
static_assert(std::is_same_v<traced::ResultOf<decltype(attend_to_shared), Batched<24>>, Batched<6, 3>>);

constexpr auto of_projection = [](auto x) { return self_attention<2>(x); };
static_assert(std::is_same_v<traced::ResultOf<decltype(of_projection), Batched<5, 24>>, Batched<5, 8>>);

template <bool causal>
struct Attend {
  Parameter<Fixed<2, 3, 4>, Constant<1>> query, key, value;
  constexpr auto forward(auto x) const {
    return tanh(scaled_dot_product_attention<causal>(x * query.in(x), x + key.in(x), x * value.in(x)));
  }
};
template <bool causal>
struct AttendToAll {  // other keys than queries, no batch
  Parameter<Fixed<2, 3, 4>, Constant<1>> query;
  Parameter<Fixed<2, 5, 4>, Constant<1>> key, value;
  constexpr auto forward(auto x) const {
    return x * scaled_dot_product_attention<causal>(query.in(x), key.in(x), value.in(x));
  }
};

template <bool causal>
struct NarrowValues {  // zero: one kernel, narrowed, and the long way
  constexpr auto forward(auto x) const {
    return narrow<2, 0, 3>(scaled_dot_product_attention<causal>(x, x, x)) -
           scaled_dot_product_attention<causal>(x, x, narrow<2, 0, 3>(x));
  }
};

template <bool causal>
struct AttendToSelf {
  Parameter<Fixed<3, 12>, Constant<1>> scale, shift;
  constexpr auto forward(auto x) const { return tanh(self_attention<2, causal>(x * scale.in(x) + shift.in(x))); }
};

static_assert(traced::operations<traced::Training<AttendToSelf<true>, Batched<3, 12>>>("self_attention_gradient") == 1);
static_assert(traced::operations<traced::Training<Attend<true>, Batched<2, 3, 4>>>("attention_gradient") == 1);
static_assert(traced::operations<traced::Training<Attend<true>, Batched<2, 3, 4>>>("matmul") == 0);
}  // namespace

TEST_CASE("gradients of attention") {
  law::check_gradients<AttendToAll<false>, Batched<2, 3, 4>>({.low = -2, .high = 2, .step = 5e-3f});
  law::check_gradients<AttendToAll<true>, Batched<2, 3, 4>>({.low = -2, .high = 2, .step = 5e-3f});
  law::check_gradients<AttendToSelf<false>, Batched<3, 12>>({.low = -2, .high = 2, .step = 5e-3f});
  law::check_gradients<AttendToSelf<true>, Batched<3, 12>>({.low = -2, .high = 2, .step = 5e-3f});
  law::check_gradients<AttendToSelf<true>, Batched<3, 12>, law::WeightedSum, Cpu<>>(
      {.low = -2, .high = 2, .step = 5e-3f});
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

TEST_CASE("attention to values of another width is that to as many columns of wider ones") {
  const auto check = [](auto model) {
    for (const float found : model(law::sample<float>(24, 5, {.low = -2, .high = 2}).data()))
      CHECK(found == Approx(0).margin(1e-6));
  };
  check(Model<NarrowValues<false>, Batched<6, 4>, Reference>());
  check(Model<NarrowValues<true>, Batched<6, 4>, Reference>());
}
