#include "tenet/data/byte_images.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

ByteImages make(std::vector<unsigned char> pixels, std::vector<unsigned char> labels, float mean = 0,
                float deviation = 1) {
  return {"some images", std::move(pixels), std::move(labels), {1, 1, 2}, 3, mean, deviation};
}

}  // namespace

static_assert(Dataset<ByteImages>);

TEST_CASE("images of bytes are read as floats") {
  const ByteImages images = make({0, 255, 51, 102}, {2, 1});
  CHECK(images.size() == 2);
  CHECK(images.classes() == 3);
  CHECK(images.label(0) == 2);
  CHECK(images.layout() == SampleLayout{{1, 1, 2}});
  float input[2];
  std::int32_t target;
  images.read(0, input, &target);
  CHECK(input[0] == 0);
  CHECK(input[1] == 1);
  CHECK(target == 2);
  images.read(1, input, &target);
  CHECK(input[0] == 51 / 255.0f);
  CHECK(target == 1);
  CHECK_THROWS_WITH(images.read(2, input, &target), Contains("ByteImages::read") && Contains("found 2"));
  CHECK_THROWS_AS(images.label(-1), Error);

  make({0, 255}, {0}, 0.5f, 0.25f).read(0, input, &target);
  CHECK(input[0] == -2);
  CHECK(input[1] == 2);
}

TEST_CASE("images that do not match their labels are refused") {
  CHECK_THROWS_WITH(make({0, 1, 2}, {0, 0}),
                    Contains("some images: number of pixels") && Contains("2 labels x 2, found 3"));
  CHECK_THROWS_WITH(make({0, 1, 2, 3}, {0, 3}), Contains("label 1") && Contains("0 to 2, found 3"));
}

TEST_CASE("images are there as bytes, with what each byte means") {
  const ByteImages images = make({0, 255, 51, 102}, {2, 1}, 0.5f, 0.25f);
  CHECK(images.bytes(1)[0] == 51);
  CHECK(images.values()[255] == 2);
  CHECK_THROWS_WITH(images.bytes(2), Contains("ByteImages::bytes") && Contains("found 2"));
}
