#include "tenet/data/sampler.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

template <Sampler S>
std::vector<long> order_of(const S& sampler, long epoch) {
  std::vector<long> indices(static_cast<std::size_t>(sampler.size()), -1);
  sampler.order(epoch, indices);
  return indices;
}

std::vector<long> sorted(std::vector<long> indices) {
  std::sort(indices.begin(), indices.end());
  return indices;
}

const std::vector<long> counting = [] {
  std::vector<long> indices(100);
  std::iota(indices.begin(), indices.end(), 0L);
  return indices;
}();

}  // namespace

TEST_CASE("the sequential sampler counts") {
  CHECK(order_of(SequentialSampler(100), 0) == counting);
  CHECK(order_of(SequentialSampler(100), 9) == counting);
  CHECK_THROWS_WITH(SequentialSampler(0), Contains("SequentialSampler"));
}

TEST_CASE("the random sampler gives every sample once, in an order of seed and epoch") {
  const RandomSampler sampler(100, 7);
  const std::vector<long> first = order_of(sampler, 0);
  CHECK(first != counting);
  CHECK(sorted(first) == counting);
  CHECK(first == order_of(RandomSampler(100, 7), 0));
  CHECK(first != order_of(sampler, 1));
  CHECK(first != order_of(RandomSampler(100, 8), 0));
  CHECK(order_of(RandomSampler(1), 0) == std::vector<long>{0});
  CHECK_THROWS_AS(RandomSampler(-1), Error);
  CHECK_THROWS_AS(RandomSampler(1L << 32), Error);
  std::vector<long> small(99);
  CHECK_THROWS_WITH(sampler.order(0, small), Contains("expected 100, found 99"));
}

TEST_CASE("all orders of four samples are equally likely") {
  const RandomSampler sampler(4, 3);
  std::vector<std::vector<long>> orders;
  std::vector<int> counts;
  const int draws = 24000;
  for (long epoch = 0; epoch < draws; ++epoch) {
    const std::vector<long> order = order_of(sampler, epoch);
    const auto found = std::find(orders.begin(), orders.end(), order);
    const auto at = static_cast<std::size_t>(found - orders.begin());
    if (found == orders.end()) {
      orders.push_back(order);
      counts.push_back(0);
    }
    ++counts[at];
  }
  REQUIRE(orders.size() == 24);
  double chi_squared = 0;
  for (int count : counts) chi_squared += std::pow(count - draws / 24.0, 2) / (draws / 24.0);
  CHECK(chi_squared < 49.7);  // 23 degrees of freedom: more happens once in a thousand, and the seed is fixed
}

TEST_CASE("the weighted sampler draws by weight") {
  const WeightedSampler sampler({0, 1, 0, 3, 0}, 40000, 5);
  const std::vector<long> order = order_of(sampler, 2);
  CHECK(order == order_of(sampler, 2));
  CHECK(order != order_of(sampler, 3));
  const auto ones = std::count(order.begin(), order.end(), 1L), threes = std::count(order.begin(), order.end(), 3L);
  CHECK(ones + threes == 40000);
  CHECK(std::abs(static_cast<double>(ones) - 10000) < 350);  // four standard deviations of 87
}

TEST_CASE("a sample of weight zero is never chosen, not even at the ends") {
  const std::vector<double> sums = {0, 1, 1, 4, 4};  // weights 0, 1, 0, 3, 0
  CHECK(detail::weighted_choice(sums, 0) == 1);
  CHECK(detail::weighted_choice(sums, 0.999) == 1);
  CHECK(detail::weighted_choice(sums, 1) == 3);
  CHECK(detail::weighted_choice(sums, 4) == 3);
}

TEST_CASE("the weighted sampler refuses weights that are none") {
  CHECK_THROWS_WITH(WeightedSampler({1, -1}, 3), Contains("weight 1"));
  CHECK_THROWS_AS(WeightedSampler({1, std::nan("")}, 3), Error);
  CHECK_THROWS_AS(WeightedSampler({1, std::numeric_limits<double>::infinity()}, 3), Error);
  CHECK_THROWS_WITH(WeightedSampler({0, 0}, 3), Contains("sum of the weights"));
  CHECK_THROWS_AS(WeightedSampler({}, 3), Error);
  CHECK_THROWS_AS(WeightedSampler({1}, 0), Error);
}

TEST_CASE("ranks share another sampler's order, all with the same number of samples", "[data][sampler]") {
  for (const long samples : {1L, 7L, 12L}) {
    for (const int ranks : {1, 2, 3, 5}) {
      CAPTURE(samples, ranks);
      const tenet::RandomSampler all(samples, 5);
      std::vector<long> expected(static_cast<std::size_t>(samples));
      for (const long epoch : {0L, 3L}) {
        all.order(epoch, expected);
        const long share = (samples + ranks - 1) / ranks;
        std::vector<long> found(static_cast<std::size_t>(share * ranks));
        for (int rank = 0; rank < ranks; ++rank) {
          const tenet::DistributedSampler sampler(all, rank, ranks);
          REQUIRE(sampler.size() == share);
          std::vector<long> part(static_cast<std::size_t>(share));
          sampler.order(epoch, part);
          for (long i = 0; i < share; ++i)
            found[static_cast<std::size_t>(i * ranks + rank)] = part[static_cast<std::size_t>(i)];
        }
        // Together they are the order, with its first samples again at the end.
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == expected[i % expected.size()]);
      }
    }
  }
  CHECK_THROWS_AS(tenet::DistributedSampler(tenet::SequentialSampler(4), 2, 2), tenet::Error);
  CHECK_THROWS_AS(tenet::DistributedSampler(tenet::SequentialSampler(4), -1, 2), tenet::Error);
  CHECK_THROWS_AS(tenet::DistributedSampler(tenet::SequentialSampler(4), 0, 0), tenet::Error);
  CHECK_THROWS_AS(tenet::DistributedSampler(tenet::SequentialSampler(4), 0, 2, 0), tenet::Error);
}

TEST_CASE("ranks' batches one after the other are the batches of one process") {
  for (const int ranks : {1, 2, 3, 4})
    for (const long batch : {1L, 2L, 5L})
      for (const long samples : {1L, 7L, 24L, 41L, 60L}) {
        CAPTURE(ranks, batch, samples);
        const tenet::RandomSampler all(samples, 3);
        std::vector<long> expected(static_cast<std::size_t>(samples)), found;
        all.order(2, expected);
        std::vector<std::vector<long>> parts;
        for (int rank = 0; rank < ranks; ++rank) {
          const tenet::DistributedSampler sampler(all, rank, ranks, batch);
          parts.emplace_back(static_cast<std::size_t>(sampler.size()));
          sampler.order(2, parts.back());
        }
        const auto share = static_cast<long>(parts[0].size());
        for (long first = 0; first < share; first += batch)
          for (const auto& part : parts)
            for (long i = first; i < std::min(first + batch, share); ++i)
              found.push_back(part[static_cast<std::size_t>(i)]);
        REQUIRE(found.size() < expected.size() + static_cast<std::size_t>(ranks));
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == expected[i % expected.size()]);
      }
}
