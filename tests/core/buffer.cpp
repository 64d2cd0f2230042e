#include "tenet/core/buffer.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>

using tenet::Buffer;

namespace {

bool all_zero(const Buffer& buffer) {
  for (long i = 0; i < buffer.size(); ++i)
    if (buffer.data()[i] != 0) return false;
  return true;
}

}  // namespace

TEST_CASE("a buffer is aligned to cache lines and zero", "[buffer]") {
  for (long floats : {1L, 3L, 16L, 17L, 100000L}) {
    CAPTURE(floats);
    const Buffer buffer(floats);
    CHECK(buffer.size() == floats);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64 == 0);
    CHECK(all_zero(buffer));
  }
}

TEST_CASE("an empty buffer holds nothing", "[buffer]") {
  Buffer buffer;
  CHECK(buffer.size() == 0);
  CHECK(buffer.data() == nullptr);
  buffer.grow(0);
  CHECK(buffer.data() == nullptr);
}

TEST_CASE("a buffer grows only, and is zero when it has grown", "[buffer]") {
  Buffer buffer(10);
  buffer.data()[9] = 5;
  float* const before = buffer.data();
  for (long smaller : {10L, 9L, 0L}) {
    buffer.grow(smaller);
    CHECK(buffer.size() == 10);
    CHECK(buffer.data() == before);
    CHECK(buffer.data()[9] == 5);
  }
  buffer.grow(5000);
  CHECK(buffer.size() == 5000);
  CHECK(all_zero(buffer));
}

TEST_CASE("a moved buffer takes its memory along", "[buffer]") {
  Buffer from(4);
  from.data()[3] = 2;
  float* const place = from.data();
  const Buffer to = std::move(from);
  CHECK(to.data() == place);
  CHECK(to.data()[3] == 2);
  CHECK(to.size() == 4);
}
