#include "tenet/device/known_region.hpp"

#include <catch2/catch.hpp>

namespace {

using namespace tenet;

constexpr KnownRegion reading(const TensorInfo& to, const TensorInfo& from) {
  KnownRegion region;
  region.total = to.size();
  region.inputs[0] = access_of(to, from);
  return region;
}

// Whole values and single numbers are read in vectors; rows only where a vector never crosses the end of one.
static_assert(reading(Batched<5, 7>::info, Batched<5, 7>::info).in_vectors(1, 16));
static_assert(reading(Batched<5, 7>::info, Scalar::info).in_vectors(1, 16));
static_assert(reading(Batched<5, 7>::info, Scalar::info).is_number(0));
static_assert(reading(Batched<7>::info, Fixed<7>::info).in_vectors(1, 16));
static_assert(reading(Batched<5, 32>::info, Fixed<32>::info).in_vectors(1, 16));
static_assert(!reading(Batched<5, 7>::info, Fixed<7>::info).in_vectors(1, 16));
// A column is one number throughout each row, if rows are whole vectors.
static_assert(reading(Batched<5, 32>::info, Fixed<5, 1>::info).in_vectors(1, 16));
static_assert(reading(Batched<5, 32>::info, Fixed<5, 1>::info).row(1) == 32);
static_assert(reading(Batched<5, 32>::info, Scalar::info).row(1) == 160);
static_assert(!reading(Batched<5, 33>::info, Fixed<5, 1>::info).in_vectors(1, 16));
static_assert(reading(Batched<3, 2, 4, 8>::info, Fixed<2, 1, 1>::info).row(1) == 32);

/// Two columns, one of which changes less often.
constexpr KnownRegion two_columns(const TensorInfo& to, const TensorInfo& first, const TensorInfo& second) {
  KnownRegion region = reading(to, first);
  region.inputs[1] = access_of(to, second);
  return region;
}
static_assert(two_columns(Batched<3, 4, 8>::info, Fixed<3, 1, 1>::info, Fixed<4, 1>::info).row(2) == 8);
static_assert(two_columns(Batched<3, 4, 8>::info, Fixed<3, 1, 1>::info, Fixed<4, 1>::info).in_vectors(2, 8));

}  // namespace

TEST_CASE("rows that are read again start at their beginning", "[known_region]") {
  const KnownRegion rows = reading(Batched<5, 32>::info, Fixed<32>::info);
  CHECK(rows.index(0, 160, 0, 16) == 16);
  CHECK(rows.index(0, 160, 0, 32) == 0);
  CHECK(rows.index(0, 160, 0, 144) == 16);
  CHECK(rows.index(0, 32, 96, 16) == 16);  // in rows of its length
  CHECK(rows.index(0, 16, 48, 8) == 24);   // in shorter ones
  CHECK(reading(Batched<6, 32>::info, Fixed<32>::info).index(0, 96, 96, 40) == 8);
  const KnownRegion columns = reading(Batched<5, 32>::info, Fixed<5, 1>::info);
  CHECK(columns.index(0, 32, 0, 0) == 0);
  CHECK(columns.index(0, 32, 96, 16) == 3);
  CHECK(reading(Batched<3, 2, 4, 8>::info, Fixed<2, 1, 1>::info).index(0, 32, 96, 0) == 1);
  const KnownRegion whole = reading(Batched<5, 7>::info, Batched<5, 7>::info);
  CHECK(whole.index(0, 35, 0, 32) == 32);
}
