#include "tenet/graph/place.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("a place is an arena, a type of numbers and an offset", "[place]") {
  constexpr Place place{Arena::per_sample, 32, DType::bfloat16};
  CHECK(place == Place{Arena::per_sample, 32, DType::bfloat16});
  CHECK(place != Place{Arena::per_sample, 32});
  CHECK(place != Place{Arena::per_sample, 48, DType::bfloat16});
  CHECK(place != Place{Arena::fixed, 32, DType::bfloat16});
}

TEST_CASE("parameters, statistics and states were there before a run", "[place]") {
  for (const Arena arena : {Arena::parameters, Arena::buffers, Arena::states}) CHECK(holds_old_values(arena));
  for (const Arena arena : {Arena::per_sample, Arena::fixed, Arena::gradients, Arena::inputs, Arena::numbers})
    CHECK(!holds_old_values(arena));
}
