#pragma once

// First, so that a message about a mistake begins with few lines of includes.
#include <tenet/ops/mistake.hpp>
#include <tenet/parallel/data_parallel.hpp>

/// The policies that cut batches. A device by itself runs the pieces as a replica does, which is one of one.
namespace tenet {

/// Into `Count` micro-batches of equal size, or one sample less. Their gradients are accumulated, and there is one
/// update: activations take the memory of one micro-batch, as large batches need. The same numbers as for the whole, up
/// to the order of sums; but batch norm takes its statistics from a micro-batch, and its running ones from all of them,
/// one after the other.
template <int Count>
struct MicroBatches {
  static_assert(Count >= 1 && Count <= 64, "MicroBatches<count>: from 1 to 64");
  static constexpr int in_all = 0, of_worker = Count;
  using OnOneDevice = DataParallel<1>;
};

/// The same bits for 1, 2, 4 or 8 replicas or ranks, with `Direct`, `AllReduce` or a `ParameterServer` of replicas, for
/// any size of buckets: every batch is cut into eight shards, whatever the number of workers; their gradients are added
/// up in the order of one tree; and statistics, dropout masks and the choice of kernels are those of the shards.
struct Reproducible {
  static constexpr int in_all = 8, of_worker = 0;
  using OnOneDevice = DataParallel<1>;
};

}  // namespace tenet
