#include "tenet/ops/embedding.hpp"

#include "../support/gradient_check.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
constexpr auto look_up = [](auto tokens, auto table) { return embedding(tokens, table); };
static_assert(std::is_same_v<traced::ResultOf<decltype(look_up), Tokens<7>, Fixed<10, 3>>, Batched<7, 3>>);
static_assert(std::is_same_v<traced::ResultOf<decltype(look_up), BatchedInt<>, Fixed<10, 3>>, Batched<3>>);

struct Words {
  Parameter<Fixed<6, 3>, Constant<1>> table;
  Parameter<Fixed<6, 3>, Constant<1>> unused;
  Linear<3, 2> after;
  constexpr auto forward(auto tokens) const { return after(tanh(embedding(tokens, table.in(tokens)*2))); }
};
}  // namespace

TEST_CASE("gradients of an embedding: rows used twice get both parts") {
  law::check_gradients<Words, Tokens<7>>({.step = 5e-3f, .token_limit = 6});
}

TEST_CASE("rows that no token chose have no gradient") {
  Trainer<Words, law::WeightedSum, law::Nothing, Tokens<7>, Reference> trainer;
  const std::int32_t tokens[] = {1, 1, 4, 1, 4, 4, 4};
  const std::vector<float> targets(14, 1.0f);
  trainer.step(tokens, targets.data(), 1);
  const float* const gradient = trainer.gradients() + slot_table<Words>.slots[0].offset;
  for (int row = 0; row < 6; ++row) CHECK((gradient[3 * row] != 0) == (row == 1 || row == 4));
}
