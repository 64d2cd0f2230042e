#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <tenet/comm/collectives.hpp>
#include <tenet/core/buffer.hpp>

/// How a worker's part of a batch is cut into shards, which run one after the other: the policies of the axis `shards`,
/// the others in micro_batches.hpp. And the sums of what the shards give.
namespace tenet {

/// Not at all: the whole part at once.
struct WholeBatch {
  static constexpr int in_all = 0, of_worker = 1;
};

/// Some samples of a batch.
struct Shard {
  int number = 0;  ///< among those of all workers
  int first_sample = 0, samples = 0;
};

/// Shard v of a batch that is cut into so many: it begins with sample batch · v / shards, rounded up, and may be empty.
/// `first` is the number of the batch's first one.
constexpr Shard shard_of(int batch, int v, int shards, int first = 0) {
  const auto begin = [=](int i) { return static_cast<int>((static_cast<long>(batch) * i + shards - 1) / shards); };
  return {first + v, begin(v), begin(v + 1) - begin(v)};
}

/// What a shard draws from: another seed than that of every other shard of the step.
constexpr std::uint64_t seed_of_shard(std::uint64_t seed_of_step, int number) {
  return seed_of_step + static_cast<std::uint64_t>(number) * 0xd1342543de82ef95u;
}

/// Which shards of each batch are a worker's: it has `count` of those that the batch is cut into for all `workers` who
/// share it.
struct WorkerShards {
  int count = 1;
  int worker = 0, workers = 1;
  int first = 0;  ///< number of the batch's first shard among those of all batches that are trained with at once

  constexpr Shard of(int batch, int i) const { return shard_of(batch, worker * count + i, workers * count, first); }
};

namespace detail {

template <class Cut>
inline constexpr bool is_cut = Cut::in_all > 0 || Cut::of_worker > 1;
template <class Cut>
constexpr int shards_of_worker(int workers) {
  return Cut::in_all > 0 ? Cut::in_all / workers : Cut::of_worker;
}

/// The shards of a rank, each of whose replicas has so many.
template <class Cut>
WorkerShards shards_of_rank(int rank, int ranks, int replicas = 1) {
  const int workers = ranks * replicas;
  if (Cut::in_all > 0 && Cut::in_all % workers != 0)
    fail("Reproducible", replicas == 1 ? "number of ranks" : "number of ranks times replicas", "1, 2, 4 or 8", workers);
  const int count = shards_of_worker<Cut>(workers);
  return {.count = count, .first = rank * replicas * count};
}

/// to[i] = sum over r of weight[r] · from[r][i], in the order of r, for i in [first, last). Those of weight 0 have no
/// gradient and are not read. `to` may be one of `from`.
inline void weighted_sum(const float* const* from, const float* weight, int count, float* to, long first, long last) {
  const auto sum_at = [&](auto load_at) {
    auto sum = broadcast<decltype(load_at(from[0]))>(0.0f);
    for (int r = 0; r < count; ++r)
      if (weight[r] != 0) sum += weight[r] * load_at(from[r]);
    return sum;
  };
  by_vectors(
      last - first,
      [&](long i) { store(to + first + i, sum_at([=](const float* at) { return load(at + first + i); })); },
      [&](long i) { to[first + i] = sum_at([=](const float* at) { return at[first + i]; }); });
}

/// to[i] = the sum of from[r][i] in the order of a tree: 0 and 1, 2 and 3, …, then these sums in pairs, and so on.
/// `count` is a power of two.
template <int count>
void tree_sum(const float* const* from, float* to, long first, long last) {
  const auto sum_at = [&](auto load_at) {
    decltype(load_at(from[0])) sums[count];
    for (int r = 0; r < count; ++r) sums[r] = load_at(from[r]);
    for (int distance = 1; distance < count; distance *= 2)
      for (int r = 0; r < count; r += 2 * distance) sums[r] += sums[r + distance];
    return sums[0];
  };
  by_vectors(
      last - first,
      [&](long i) { store(to + first + i, sum_at([=](const float* at) { return load(at + first + i); })); },
      [&](long i) { to[first + i] = sum_at([=](const float* at) { return at[first + i]; }); });
}
inline void tree_sum(const float* const* from, int count, float* to, long first, long last) {
  if (count == 1 && to != from[0]) tree_sum<1>(from, to, first, last);
  if (count == 2) tree_sum<2>(from, to, first, last);
  if (count == 4) tree_sum<4>(from, to, first, last);
  if (count == 8) tree_sum<8>(from, to, first, last);
}

/// Adds up terms that come one after the other. With the last one `numbers` become the sum; before they are scaled, and
/// free afterwards. A term that is scaled is rounded before it is added, so that no compiler makes one operation of
/// both.
///
/// In the order of the tree of `tree_sum`: sums of 1, 2, 4, … terms wait for the next ones of their size; the number of
/// terms is a power of two. Else one after the other: there is one waiting sum.
template <bool is_tree>
class SumOfTerms {
 public:
  /// For so many terms of so many numbers each.
  void prepare(int terms, long floats) {
    for (int sums = 1; sums < terms && (is_tree || sums == 1); sums *= 2) waiting_.emplace_back(floats);
  }
  /// Numbers [first, last) of term `number`, from 0.
  void add(int number, bool is_last, float weight, float* numbers, long first, long last) {
    constexpr long block = 4096;
    for (; first < last; first += block) {
      const long count = last - first < block ? last - first : block;
      scale(numbers + first, weight, count);
      std::size_t level = 0;
      const auto add_waiting = [&](std::size_t at) {
        add_floats(numbers + first, waiting_[at].data() + first, numbers + first, count);
      };
      if (is_tree)
        for (; (number >> level & 1) != 0; ++level) add_waiting(level);
      else if (number > 0)
        add_waiting(0);
      if (!is_last)
        std::memcpy(waiting_[level].data() + first, numbers + first, sizeof(float) * static_cast<std::size_t>(count));
    }
  }

 private:
  [[gnu::noinline]] static void scale(float* numbers, float weight, long count) {
    scale_floats(numbers, weight, count);
  }

  std::vector<Buffer> waiting_;
};

}  // namespace detail
}  // namespace tenet
