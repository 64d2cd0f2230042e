#include "tenet/device/cpu/spans.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace tenet::cpu::detail;

namespace {

bool holds(Span span, long index) { return span.first <= index && index < span.last; }

}  // namespace

TEST_CASE("taps inside are those that reach the image", "[cpu][spans]") {
  for (long position = -7; position < 9; ++position) {
    for (long taps = 1; taps < 6; ++taps) {
      for (long size = 1; size < 7; ++size) {
        CAPTURE(position, taps, size);
        const Span found = taps_inside(position, taps, size);
        for (long tap = 0; tap < taps; ++tap) {
          CHECK(holds(found, tap) == (position + tap >= 0 && position + tap < size));
        }
        CHECK((found.first >= 0 && found.first <= found.last && found.last <= taps));
      }
    }
  }
}

TEST_CASE("the interior are the positions all of whose taps are inside", "[cpu][spans]") {
  for (long offset = -5; offset < 4; ++offset) {
    for (long stride = 1; stride < 4; ++stride) {
      for (long taps = 1; taps < 5; ++taps) {
        for (long size = 1; size < 9; ++size) {
          for (long count = 0; count < 7; ++count) {
            CAPTURE(offset, stride, taps, size, count);
            const Span found = interior(offset, stride, taps, size, count);
            long wrong = 0;
            for (long i = 0; i < count; ++i) {
              const long first = i * stride + offset;
              wrong += holds(found, i) != (first >= 0 && first + taps <= size);
            }
            CHECK(wrong == 0);
            CHECK((found.first >= 0 && found.first <= found.last && found.last <= count));
          }
        }
      }
    }
  }
}

TEST_CASE("what is outside a span is visited in order", "[cpu][spans]") {
  const auto outside = [](Span part, Span inner) {
    std::vector<long> visited;
    for_each_outside(part, inner, [&](long i) { visited.push_back(i); });
    return visited;
  };
  CHECK(outside({0, 6}, {2, 4}) == std::vector<long>{0, 1, 4, 5});
  CHECK(outside({3, 6}, {2, 4}) == std::vector<long>{4, 5});
  CHECK(outside({0, 3}, {3, 3}) == std::vector<long>{0, 1, 2});
  CHECK(outside({1, 3}, {0, 9}).empty());
}
