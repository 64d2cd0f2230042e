#include "tenet/core/layout.hpp"

#include <catch2/catch.hpp>

#include "tenet/core/vector.hpp"

using namespace tenet;

namespace {

constexpr TensorInfo image = Batched<6, 4, 5>::info, channel = Fixed<6, 1, 1>::info, row = Fixed<5>::info;
constexpr TensorInfo number = TensorInfo{};

static_assert(sample_lanes % vector_width == 0, "a row of samples is whole vectors");
static_assert(in_layout(image, Layout::standard) == image);
static_assert(in_layout(image, Layout::channels_last) == Batched<4, 5, 6>::info);
static_assert(in_layout(image, Layout::samples_last) == Batched<6, 4, 5, 16>::info);

// What is broadcast is found by the same arithmetic, of the types in that order.
constexpr Access read(const TensorInfo& operand, Layout layout) {
  return access_of(in_layout(image, layout), in_layout(operand, layout));
}
static_assert(read(channel, Layout::samples_last).inner == 4 * 5 * 16 &&
              read(channel, Layout::samples_last).count == 6);
static_assert(read(row, Layout::samples_last).inner == 16 && read(row, Layout::samples_last).count == 5);
static_assert(read(number, Layout::samples_last).count == 1 && read(number, Layout::samples_last).uniform());
static_assert(read(image, Layout::samples_last).full);
static_assert(read(channel, Layout::channels_last).inner == 1 && read(channel, Layout::channels_last).count == 6);
static_assert(has_one_order(channel) && has_one_order(row) && !has_one_order(Fixed<6, 1, 5>::info));

// A copy between layouts goes by the channels only where they come last.
static_assert(relayout_of(image, Layout::standard, Layout::samples_last).planes.channels == 120);
static_assert(relayout_of(image, Layout::samples_last, Layout::standard).planes.positions == 1);
static_assert(relayout_of(image, Layout::channels_last, Layout::samples_last).planes.channels == 6);
static_assert(relayout_of(image, Layout::samples_last, Layout::channels_last).size() == 120);
static_assert(!Relayout{}.is_needed());

}  // namespace

TEST_CASE("samples lie in whole groups, or one by one where they are few", "[layout]") {
  CHECK(whole_groups(0) == 0);
  CHECK(whole_groups(1) == 1);
  CHECK(whole_groups(least_batch_in_lanes - 1) == least_batch_in_lanes - 1);
  CHECK(whole_groups(least_batch_in_lanes) == 16);
  CHECK(whole_groups(16) == 16);
  CHECK(whole_groups(17) == 32);
  CHECK(sample_groups(17) == 2);
}
