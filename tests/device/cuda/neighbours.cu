#include <catch2/catch.hpp>

#include "tenet/core/bfloat16.hpp"
#include "tenet/device/cuda/neighbours.hpp"

static_assert(alignof(tenet::gpu::detail::Neighbours<float, 1>) == 4 &&
              alignof(tenet::gpu::detail::Neighbours<float, 8>) == 16);
static_assert(alignof(tenet::gpu::detail::Neighbours<float, 3>) == 4);
static_assert(alignof(tenet::gpu::detail::Neighbours<tenet::bfloat16, 2>) == 4 &&
              sizeof(tenet::gpu::detail::Neighbours<tenet::bfloat16, 8>) == 16);

TEST_CASE("neighbours are stored and loaded where they are aligned", "[cuda][neighbours]") {
  alignas(16) tenet::bfloat16 memory[16]{};
  CHECK(tenet::gpu::detail::is_aligned<tenet::bfloat16, 8>(memory));
  CHECK(!tenet::gpu::detail::is_aligned<tenet::bfloat16, 8>(memory + 4));
  CHECK(tenet::gpu::detail::is_aligned<tenet::bfloat16, 4>(memory + 4));
  CHECK(tenet::gpu::detail::rows_are_aligned<4>(memory + 4, 12));
  CHECK(!tenet::gpu::detail::rows_are_aligned<4>(memory + 4, 6));  // the second row is not
  CHECK(!tenet::gpu::detail::rows_are_aligned<4>(memory + 2, 12));
  const float given[]{1, -2, 3, 0.5f};
  tenet::gpu::detail::store_neighbours<4>(memory + 4, given);
  float loaded[4]{};
  tenet::gpu::detail::load_neighbours<4>(memory + 4, loaded);
  for (int k = 0; k < 4; ++k) CHECK(loaded[k] == given[k]);
  CHECK(float{memory[3]} == 0);
  CHECK(float{memory[8]} == 0);
}
