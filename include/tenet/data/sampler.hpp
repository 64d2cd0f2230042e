#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/core/random.hpp"
#include "tenet/data/dataset.hpp"

namespace tenet {

/// Chooses the samples of an epoch and their order: `order(epoch, indices)` writes `size()` indices of samples.
///
/// The result depends on the sampler and the epoch alone. `size()` is the number of samples an epoch has for this
/// process, so a sampler which gives each process its share fits the same concept.
template <class S>
concept Sampler = requires(const S& sampler, long epoch, std::span<long> indices) {
  { sampler.size() } -> std::convertible_to<long>;
  sampler.order(epoch, indices);
};

namespace detail {

[[gnu::noinline]] inline void check_sample_count(const char* where, long count) {
  if (count <= 0 || count > 0xffffffffL) fail(where, "number of samples", "1 to 2^32 - 1", count);
}

[[gnu::noinline]] inline void check_order(const char* where, std::span<long> indices, long size) {
  if (static_cast<long>(indices.size()) != size) {
    fail(where, "room for indices", size, indices.size());
  }
}

// The sample whose share of the line from 0 to sums.back() holds `point`; sums[i] = weights[0] + … + weights[i].
// It is the first with a sum above the point: one of weight zero has the sum of the one before it, so it is never
// first. Rounding may put the point on the total, which stands for the last sample with a weight.
inline long weighted_choice(const std::vector<double>& sums, double point) {
  auto chosen = std::upper_bound(sums.begin(), sums.end(), point);
  if (chosen == sums.end()) chosen = std::lower_bound(sums.begin(), sums.end(), sums.back());
  return chosen - sums.begin();
}

}  // namespace detail

/// Every sample once, in order.
class SequentialSampler {
 public:
  explicit SequentialSampler(long samples) : size_(samples) {
    detail::check_sample_count("SequentialSampler", samples);
  }

  long size() const { return size_; }
  void order(long /*epoch*/, std::span<long> indices) const {
    detail::check_order("SequentialSampler::order", indices, size_);
    std::iota(indices.begin(), indices.end(), 0L);
  }

 private:
  long size_;
};

/// Every sample once, in an order drawn uniformly for each seed and epoch (Fisher and Yates' shuffle).
class RandomSampler {
 public:
  explicit RandomSampler(long samples, std::uint64_t seed = 0) : size_(samples), seed_(seed) {
    detail::check_sample_count("RandomSampler", samples);
  }

  long size() const { return size_; }
  void order(long epoch, std::span<long> indices) const {
    detail::check_order("RandomSampler::order", indices, size_);
    std::iota(indices.begin(), indices.end(), 0L);
    Random random(epoch_seed(seed_, epoch));
    for (std::size_t left = indices.size(); left > 1; --left) {
      std::swap(indices[left - 1], indices[random.below(static_cast<std::uint32_t>(left))]);
    }
  }

 private:
  long size_;
  std::uint64_t seed_;
};

/// `draws` samples with replacement, sample i with probability weights[i] / sum(weights).
///
/// Throws `Error` if a weight is negative or not finite, or if all are zero.
class WeightedSampler {
 public:
  WeightedSampler(std::vector<double> weights, long draws, std::uint64_t seed = 0)
      : sums_(std::move(weights)), size_(draws), seed_(seed) {
    detail::check_sample_count("WeightedSampler", static_cast<long>(sums_.size()));
    detail::check_sample_count("WeightedSampler", draws);
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      if (!(sums_[i] >= 0 && sums_[i] <= 1e300)) {
        fail("WeightedSampler", {"weight ", i}, "0 to 1e300", std::to_string(sums_[i]));
      }
    }
    std::partial_sum(sums_.begin(), sums_.end(), sums_.begin());
    if (!(sums_.back() > 0 && sums_.back() <= 1e300)) {
      fail("WeightedSampler", "sum of the weights", "above 0 and at most 1e300", std::to_string(sums_.back()));
    }
  }

  long size() const { return size_; }
  void order(long epoch, std::span<long> indices) const {
    detail::check_order("WeightedSampler::order", indices, size_);
    Random random(epoch_seed(seed_, epoch));
    for (long& index : indices) {
      // Two draws make 53 random bits: 24 would never choose some samples of a large set.
      const std::uint64_t high = random.next() >> 5, low = random.next() >> 6;
      const double uniform = (static_cast<double>(high) * 67108864.0 + static_cast<double>(low)) * 0x1p-53;
      index = detail::weighted_choice(sums_, uniform * sums_.back());
    }
  }

 private:
  std::vector<double> sums_;  // sums_[i] = weights[0] + … + weights[i]
  long size_;
  std::uint64_t seed_;
};

/// One rank's share of another sampler's order: `consecutive` samples at a time in turn, rank by rank. All ranks get
/// the same number, so that they take the same number of steps: what is left at the end is shared equally, and where it
/// does not divide, the first samples of the order stand behind the last ones. The other sampler must be the same on
/// all ranks, its seed included.
///
/// With a rank's batch size for `consecutive`, the ranks' batches one after the other are the batch that one process
/// would have.
template <Sampler All = RandomSampler>
class DistributedSampler {
 public:
  DistributedSampler(All all, int rank, int ranks, long consecutive = 1)
      : all_(std::move(all)), rank_(rank), ranks_(ranks), consecutive_(consecutive) {
    if (ranks <= 0) fail("DistributedSampler", "number of ranks", "at least 1", ranks);
    if (rank < 0 || rank >= ranks) fail("DistributedSampler", "rank", "0 to the number of ranks - 1", rank);
    if (consecutive <= 0) fail("DistributedSampler", "consecutive samples", "at least 1", consecutive);
  }

  long size() const { return (all_.size() + ranks_ - 1) / ranks_; }
  void order(long epoch, std::span<long> indices) const {
    detail::check_order("DistributedSampler::order", indices, size());
    std::vector<long> all(static_cast<std::size_t>(all_.size()));
    all_.order(epoch, all);
    // Turns of `consecutive` samples for each rank, and a last one of what is left.
    const long count = size(), whole = all_.size() / ranks_ / consecutive_ * consecutive_;
    for (long i = 0; i < count; ++i) {
      const long turn = i < whole ? consecutive_ : count - whole, begin = i < whole ? i / turn * turn : whole;
      const long at = (begin * ranks_ + rank_ * turn + (i - begin)) % all_.size();
      indices[static_cast<std::size_t>(i)] = all[static_cast<std::size_t>(at)];
    }
  }

 private:
  All all_;
  int rank_, ranks_;
  long consecutive_;
};

}  // namespace tenet
