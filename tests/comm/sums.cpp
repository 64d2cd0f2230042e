#include "tenet/comm/sums.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace tenet;

namespace {

/// Whole vectors, some numbers less or more, none, and more than a block of the first cache.
constexpr long counts[]{0, 1, vector_width - 1, vector_width, 3 * vector_width + 1, 5000};

std::vector<float> numbers(long count, float first) {
  std::vector<float> result;
  for (long i = 0; i < count; ++i) result.push_back(first + 0.37f * static_cast<float>(i % 101));
  return result;
}

}  // namespace

TEST_CASE("sums are those of single numbers, whatever their count", "[sums]") {
  for (const long count : counts) {
    CAPTURE(count);
    const std::vector<float> a = numbers(count + 1, 1), b = numbers(count + 1, -2);  // one is not theirs
    std::vector<float> scaled = a, rounded = a, added = a, both = a, other = b, weighed = a;
    detail::scale_and_add(scaled.data(), 0.3f, b.data(), count);
    detail::add_to_scaled(rounded.data(), 0.3f, b.data(), count);
    detail::add_floats(added.data(), a.data(), b.data(), count);
    detail::add_to_both(both.data(), other.data(), count);
    detail::scale_floats(weighed.data(), 0.3f, count);
    for (std::size_t i = 0; i <= static_cast<std::size_t>(count); ++i) {
      const bool theirs = i < static_cast<std::size_t>(count);
      const volatile float product = 0.3f * a[i];  // rounded, whatever the processor can do in one
      const float sum = a[i] + b[i];
      CHECK(scaled[i] == (theirs ? Approx(product + b[i]).margin(1e-5) : Approx(a[i])));
      CHECK(rounded[i] == (theirs ? product + b[i] : a[i]));
      CHECK(added[i] == (theirs ? sum : a[i]));
      CHECK(both[i] == (theirs ? sum : a[i]));
      CHECK(other[i] == (theirs ? sum : b[i]));
      CHECK(weighed[i] == (theirs ? product : a[i]));
    }
  }
}
