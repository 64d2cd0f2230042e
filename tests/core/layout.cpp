#include "tenet/core/layout.hpp"

#include <catch2/catch.hpp>
#include <type_traits>

#include "tenet/core/vector.hpp"

using tenet::In;
using tenet::Layout;

static_assert(tenet::sample_lanes % tenet::vector_width == 0, "a row of samples is whole vectors");
static_assert(!std::is_same_v<In<Layout::standard>, In<Layout::samples_last>>);

TEST_CASE("layouts are told apart as types", "[layout]") {
  const auto name = [](auto in) { return std::is_same_v<decltype(in), In<Layout::samples_last>>; };
  CHECK(name(In<Layout::samples_last>{}));
  CHECK_FALSE(name(In<Layout::standard>{}));
}
