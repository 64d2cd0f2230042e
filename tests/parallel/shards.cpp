#include "tenet/parallel/shards.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <tenet/data/dataset.hpp>
#include <tenet/parallel/micro_batches.hpp>

#include "../support/network.hpp"

using namespace tenet;

TEST_CASE("shards are a batch in order, of equal size or one sample less", "[shards]") {
  for (const int batch : {0, 1, 7, 8, 9, 64, 1000})
    for (const int shards : {1, 2, 3, 8, 64}) {
      CAPTURE(batch, shards);
      int next = 0;
      for (int v = 0; v < shards; ++v) {
        const Shard shard = shard_of(batch, v, shards, 5);
        CHECK(shard.number == 5 + v);
        CHECK(shard.first_sample == next);
        CHECK(shard.samples >= batch / shards);
        CHECK(shard.samples <= batch / shards + 1);
        next += shard.samples;
      }
      CHECK(next == batch);
    }
  // A worker with an equal part of the batch cuts it at the same places as one that has all of it.
  for (int v = 0; v < 8; ++v)
    CHECK(shard_of(100, v, 8).first_sample == v / 4 * 50 + shard_of(50, v % 4, 4).first_sample);
  // The first one, of which running statistics are, is not empty as long as there is a sample.
  static_assert(shard_of(1, 0, 8).samples == 1 && shard_of(2, 0, 3).samples == 1);
  static_assert(detail::shards_of_worker<Reproducible>(4) == 2 && detail::shards_of_worker<MicroBatches<3>>(4) == 3);
  static_assert(!detail::is_cut<WholeBatch> && !detail::is_cut<MicroBatches<1>> && detail::is_cut<Reproducible>);
}

TEST_CASE("a weighted sum is in the order of its terms, and leaves out those of weight 0", "[shards]") {
  constexpr long count = 37;
  const auto a = network::numbers(count, 1), b = network::numbers(count, 2);
  const float* const from[]{a.data(), nullptr, b.data()};
  const float weight[]{0.25f, 0, 0.75f};
  for (const long first : {0L, 3L, 16L, 37L}) {
    for (const long last : {first, 37L, first + (37 - first) / 2}) {
      std::vector<float> found(static_cast<std::size_t>(count), 7.0f);
      detail::weighted_sum(from, weight, 3, found.data(), first, last);
      for (long i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const float sum = 0.25f * a[at] + 0.75f * b[at];
        CHECK(found[at] == (i >= first && i < last ? Approx(sum).margin(1e-7) : Approx(7.0f)));
      }
    }
  }
}

TEST_CASE("terms are added up in the order of a tree, whoever has which of them", "[shards]") {
  constexpr long floats = 5000;
  std::vector<std::vector<float>> terms, scaled;
  for (int v = 0; v < 8; ++v) terms.push_back(network::numbers(floats, static_cast<std::uint64_t>(v)));
  const auto weight = [](int v) { return 0.1f + 0.03f * static_cast<float>(v); };
  std::vector<std::vector<float>> sums;
  for (const int parts : {1, 2, 4, 8}) {
    std::vector<std::vector<float>> of_parts;
    for (int part = 0; part < parts; ++part) {
      const int count = 8 / parts;
      detail::SumOfTerms<true> tree;
      tree.prepare(count, floats);
      std::vector<float> numbers;
      for (int i = 0; i < count; ++i) {
        numbers = terms[static_cast<std::size_t>(part * count + i)];
        for (const auto& [first, last] : {std::pair{0L, 777L}, std::pair{777L, floats}})  // in pieces
          tree.add(i, i + 1 == count, weight(part * count + i), numbers.data(), first, last);
      }
      of_parts.push_back(numbers);
    }
    std::vector<const float*> from;
    for (const auto& part : of_parts) from.push_back(part.data());
    std::vector<float> sum = of_parts[0];
    detail::tree_sum(from.data(), parts, sum.data(), 0, floats);
    sums.push_back(sum);
  }
  for (const auto& sum : sums) CHECK(sum == sums[0]);
  double worst = 0;
  for (long i = 0; i < floats; ++i) {
    double expected = 0;
    for (int v = 0; v < 8; ++v)
      expected += static_cast<double>(weight(v)) * terms[static_cast<std::size_t>(v)][static_cast<std::size_t>(i)];
    worst = std::fmax(worst, std::fabs(sums[0][static_cast<std::size_t>(i)] - expected));
  }
  CHECK(worst < 1e-6);
}

TEST_CASE("terms are added up one after the other, however many", "[shards]") {
  constexpr long floats = 4100;
  for (const int count : {1, 2, 3, 5, 8}) {
    CAPTURE(count);
    detail::SumOfTerms<false> sum;
    sum.prepare(count, floats);
    std::vector<float> numbers;
    std::vector<double> expected(static_cast<std::size_t>(floats));
    for (int v = 0; v < count; ++v) {
      const float weight = 0.1f + 0.03f * static_cast<float>(v);
      numbers = network::numbers(floats, static_cast<std::uint64_t>(v));
      for (std::size_t i = 0; i < numbers.size(); ++i) expected[i] += static_cast<double>(weight) * numbers[i];
      for (const auto& [first, last] : {std::pair{0L, 13L}, std::pair{13L, floats}})  // in pieces
        sum.add(v, v + 1 == count, weight, numbers.data(), first, last);
    }
    double worst = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) worst = std::fmax(worst, std::fabs(numbers[i] - expected[i]));
    CHECK(worst < 1e-6);
  }
}
