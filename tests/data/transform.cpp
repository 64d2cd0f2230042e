#include "tenet/data/transform.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

TensorDataset<> images(std::vector<int> extents, int count = 3) {
  long size = 1;
  for (int extent : extents) size *= extent;
  std::vector<float> inputs(static_cast<std::size_t>(size * count));
  std::iota(inputs.begin(), inputs.end(), 1.0f);
  return {inputs, extents, std::vector<std::int32_t>(static_cast<std::size_t>(count))};
}

template <class D>
std::vector<float> input_of(const D& dataset, long index, long epoch = 0) {
  std::vector<float> input(static_cast<std::size_t>(dataset.layout().input_size()));
  std::vector<float> target(static_cast<std::size_t>(dataset.layout().target_size()));
  read_sample(dataset, index, epoch, input.data(), target.data());
  return input;
}

}  // namespace

TEST_CASE("a map changes input and target in place") {
  const Map doubled(images({2}), [](const SampleView& sample) {
    for (float& x : sample.input()) x *= 2;
    sample.target()[0] = 5;
  });
  static_assert(Dataset<decltype(doubled)>);
  CHECK(doubled.size() == 3);
  float input[2];
  std::int32_t target = 0;
  doubled.read(1, input, &target);
  CHECK(input[0] == 6);
  CHECK(input[1] == 8);
  CHECK(target == 5);
}

TEST_CASE("a sample's view refuses another element type") {
  const Map wrong(images({2}), [](const SampleView& sample) { sample.input<std::int32_t>()[0] = 1; });
  CHECK_THROWS_WITH(input_of(wrong, 0), Contains("SampleView::input") && Contains("float32") && Contains("int32"));
}

TEST_CASE("a map's random numbers depend on seed, epoch and index, and on nothing else") {
  const auto draw = [](const SampleView& sample, Random& random) { sample.input()[0] = random.uniform(); };
  const Map a(images({1}), draw, 1), same(images({1}), draw, 1), other(images({1}), draw, 2);
  CHECK(input_of(a, 1, 4) == input_of(same, 1, 4));
  std::set<float> values;
  for (long epoch = 0; epoch < 3; ++epoch) {
    for (long index = 0; index < 3; ++index) {
      values.insert(input_of(a, index, epoch)[0]);
      values.insert(input_of(other, index, epoch)[0]);
    }
  }
  CHECK(values.size() == 18);
  // Through a subset the epoch arrives, and the index is that of the whole set.
  CHECK(input_of(Subset(a, 1, 3), 0, 4) == input_of(a, 1, 4));
}

TEST_CASE("a map over a map draws other numbers, also through a subset") {
  const auto add = [](const SampleView& sample, Random& random) { sample.input()[0] = random.uniform(); };
  const auto subtract = [](const SampleView& sample, Random& random) { sample.input()[0] -= random.uniform(); };
  const Map once(images({1}), add);
  CHECK(input_of(Map(once, subtract), 0)[0] != 0);
  CHECK(input_of(Map(Subset(once, 0, 2), subtract), 0)[0] != 0);
}

TEST_CASE("normalise subtracts the mean and divides by the deviation of each channel") {
  const Map one(images({2, 2}), Normalize{{2}, {4}});
  CHECK(input_of(one, 0) == std::vector<float>{-0.25f, 0, 0.25f, 0.5f});
  const Map each(images({2, 1, 2}), Normalize{{0, 1}, {1, 2}});
  CHECK(input_of(each, 0) == std::vector<float>{1, 2, 1, 1.5f});
  CHECK_THROWS_WITH(input_of(Map(images({2, 2}), Normalize{{0, 0, 0}, {1, 1, 1}}), 0), Contains("Normalize"));
  CHECK_THROWS_AS(input_of(Map(images({2, 2}), Normalize{{0}, {}}), 0), Error);
}

TEST_CASE("a flip mirrors rows, with its probability") {
  const TensorDataset dataset = images({1, 2, 3}, 1000);
  CHECK(input_of(Map(dataset, RandomFlip{1}), 0) == std::vector<float>{3, 2, 1, 6, 5, 4});
  CHECK(input_of(Map(dataset, RandomFlip{0}), 0) == input_of(dataset, 0));
  CHECK(input_of(Map(images({2, 2, 2}), RandomFlip{1}), 0) == std::vector<float>{2, 1, 4, 3, 6, 5, 8, 7});
  const Map half(dataset, RandomFlip{});
  int flipped = 0;
  for (long i = 0; i < 1000; ++i) flipped += input_of(half, i) != input_of(dataset, i);
  CHECK(flipped > 400);
  CHECK(flipped < 600);
  CHECK_THROWS_WITH(input_of(Map(images({4}), RandomFlip{1}), 0), Contains("RandomFlip"));
}

TEST_CASE("a random crop is a shift, checked against cutting from a padded copy") {
  const int rows = 4, columns = 5, padding = 3;
  const TensorDataset dataset = images({2, rows, columns}, 1);
  const std::vector<float> before = input_of(dataset, 0);
  const auto shifted = [&](int down, int right) {
    std::vector<float> result;
    for (int c = 0; c < 2; ++c) {
      for (int r = 0; r < rows; ++r) {
        for (int k = 0; k < columns; ++k) {
          const int from_row = r - down, from_column = k - right;
          const bool inside = from_row >= 0 && from_row < rows && from_column >= 0 && from_column < columns;
          result.push_back(inside ? before[static_cast<std::size_t>((c * rows + from_row) * columns + from_column)]
                                  : -1);
        }
      }
    }
    return result;
  };
  std::set<std::vector<float>> possible, seen;
  for (int down = -padding; down <= padding; ++down) {
    for (int right = -padding; right <= padding; ++right) possible.insert(shifted(down, right));
  }
  REQUIRE(possible.size() == 49);
  const Map crop(dataset, RandomCrop{padding, -1});
  for (long epoch = 0; epoch < 600; ++epoch) seen.insert(input_of(crop, 0, epoch));
  CHECK(seen == possible);
  // A padding larger than the image leaves nothing or something, never a read outside.
  const Map wide(dataset, RandomCrop{20, -1});
  for (long epoch = 0; epoch < 200; ++epoch) CHECK(input_of(wide, 0, epoch).size() == before.size());
}

TEST_CASE("transforms do element by element what they do to samples") {
  const TensorDataset dataset = images({2, 3, 4}, 40);
  const auto check = [&](const auto& transform) {
    const Map map(dataset, transform, 3);
    const auto elements = transform.elements(dataset.layout());
    for (long index = 0; index < 40; ++index) {
      CAPTURE(index);
      const std::vector<float> before = input_of(dataset, index), after = input_of(map, index, 5);
      const auto below = [&](std::uint32_t element) { return before.at(element); };  // throws outside
      Random random(map.seed_of(5), static_cast<std::uint64_t>(index));
      std::vector<float> found;
      if constexpr (map.draws) {
        const auto drawn = elements.draw(random);
        for (std::uint32_t i = 0; i < 24; ++i) found.push_back(elements(drawn, below, i));
      } else {
        for (std::uint32_t i = 0; i < 24; ++i) found.push_back(elements(below, i));
      }
      CHECK(found == after);
    }
  };
  check(Normalize{{2}, {3}});
  check(Normalize{{0, 1}, {1, 7}});
  check(RandomFlip{0.3f});
  check(RandomCrop{0, 9});
  check(RandomCrop{2, 9});
  check(RandomCrop{6, -1});
  CHECK_THROWS_WITH((Normalize{{0, 0, 0}, {1, 1, 1}}.elements(dataset.layout())), Contains("Normalize"));
  CHECK_THROWS_WITH(RandomFlip{}.elements(SampleLayout{{4}}), Contains("RandomFlip"));
  CHECK_THROWS_WITH(RandomCrop{}.elements(SampleLayout{{4}}), Contains("RandomCrop"));
}
