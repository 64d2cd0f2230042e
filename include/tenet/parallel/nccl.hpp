#pragma once

#if __has_include(<nccl.h>)  // one GPU does without
#include <nccl.h>

#include <chrono>
#include <concepts>
#include <cstring>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/parallel/device_communicator.hpp>
#include <thread>

/// GPUs that bring their numbers together by NCCL: what `DataParallel` and `Distributed` do on `Cuda<i>`.
namespace tenet {

/// Through the group goes only by which name NCCL's ranks find each other; numbers go from GPU to GPU, by whatever
/// connects them. All calls are kernels of the stream that they are given, so they can be recorded.
template <std::derived_from<gpu::Stream> Executor, DeviceGroup Group>
class DeviceCommunicator<Executor, Group> {
 public:
  DeviceCommunicator(Executor& executor, Group& group)
      : executor_(&executor), limit_(group.limit()), rank_(group.rank()), ranks_(group.size()) {
    executor.use();
    weight_.grow(executor, 1, "a device's weight");
    executor.synchronize();
    ncclUniqueId id{};
    static_assert(sizeof id % sizeof(float) == 0);
    constexpr long floats = sizeof id / sizeof(float);
    float words[floats];
    if (rank_ == 0) {
      check(ncclGetUniqueId(&id), "naming a group of devices");
      std::memcpy(words, &id, sizeof id);
    }
    // Whoever has failed before this, for want of memory, say, is noticed here: NCCL would wait for it.
    barrier(group, {"devices that come together", -1, -1});
    tenet::broadcast(group, 0, words, floats, {"the name of a group of devices", -1, -1});
    std::memcpy(&id, words, sizeof id);
    check(ncclCommInitRank(&communicator_, ranks_, id, rank_), "bringing devices together");
    check(ncclRedOpCreatePreMulSum(&weighted_sum_, weight_.data(), ncclFloat, ncclScalarDevice, communicator_),
          "preparing sums over devices");
  }
  DeviceCommunicator(const DeviceCommunicator&) = delete;
  DeviceCommunicator& operator=(const DeviceCommunicator&) = delete;
  ~DeviceCommunicator() {
    if (communicator_ == nullptr) return;
    ncclRedOpDestroy(weighted_sum_, communicator_);
    ncclCommDestroy(communicator_);
  }

  void weigh(float weight) {
    if (std::exchange(known_weight_, weight) != weight) executor_->copy_in(weight_.data(), &known_weight_, 4);
  }
  /// NCCL's reduce-scatter and all-gather are rings, whatever its all-reduce is for so many numbers and GPUs. They want
  /// parts of one length; what is left, less than one number a GPU, is added up as always.
  template <class Synchronisation = AllReduce>
  void add_up_weighted(const gpu::Stream& stream, float* data, long floats, MessageLabel label) {
    const long around = std::is_same_v<Synchronisation, Ring> ? floats / ranks_ * ranks_ : 0;
    if (around > 0) {
      reduce_to_owners(stream, data, around, label, EqualParts());
      gather_from_owners(stream, data, around, label, EqualParts());
    }
    if (around < floats) all_reduce(stream, data + around, data + around, floats - around, weighted_sum_);
  }
  void add_up(const gpu::Stream& stream, const float* from, float* to, long floats, MessageLabel) {
    all_reduce(stream, from, to, floats, ncclSum);
  }
  void broadcast(const gpu::Stream& stream, int root, float* data, long floats, MessageLabel) {
    check(ncclBroadcast(data, data, static_cast<std::size_t>(floats), ncclFloat, root, connected(), stream.get()),
          "sending a device's numbers to all");
  }
  template <class Place>
  void reduce_to_owners(const gpu::Stream& stream, float* data, long floats, MessageLabel, const Place& place) {
    constexpr const char* what = "adding up the devices' numbers";
    if (const long part = equal_part(floats, place); part > 0)
      return check(ncclReduceScatter(data, data + rank_ * part, static_cast<std::size_t>(part), ncclFloat,
                                     weighted_sum_, connected(), stream.get()),
                   what);
    for_each_part(floats, what, place, [&](int owner, const FloatRange& part) {
      return ncclReduce(data + part.first, data + part.first, static_cast<std::size_t>(part.count), ncclFloat,
                        weighted_sum_, owner, connected(), stream.get());
    });
  }
  template <class Place>
  void gather_from_owners(const gpu::Stream& stream, float* data, long floats, MessageLabel, const Place& place) {
    constexpr const char* what = "bringing the devices' numbers together";
    if (const long part = equal_part(floats, place); part > 0)
      return check(ncclAllGather(data + rank_ * part, data, static_cast<std::size_t>(part), ncclFloat, connected(),
                                 stream.get()),
                   what);
    for_each_part(floats, what, place, [&](int owner, const FloatRange& part) {
      return ncclBroadcast(data + part.first, data + part.first, static_cast<std::size_t>(part.count), ncclFloat, owner,
                           connected(), stream.get());
    });
  }
  /// Past the group's limit the device stops waiting for the others.
  void await(const gpu::Stream& stream) {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      const cudaError_t status = cudaStreamQuery(stream.get());
      if (status != cudaErrorNotReady) return gpu::check(status, "running what devices do together");
      ncclResult_t failure = ncclSuccess;
      check(ncclCommGetAsyncError(connected(), &failure), "asking for errors of other devices");
      if (failure != ncclSuccess && failure != ncclInProgress) {
        abandon();
        check(failure, "bringing the devices' numbers together");
      }
      if (std::chrono::steady_clock::now() - begin > limit_) {
        abandon();
        fail("Cuda", "waiting for the other devices",
             "within " + std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limit_).count()) + " s",
             "nothing");
      }
      std::this_thread::yield();
    }
  }
  /// Ends what runs on this device and waits for others.
  void abandon() noexcept {
    if (communicator_ != nullptr) ncclCommAbort(std::exchange(communicator_, nullptr));
  }

 private:
  struct EqualParts {
    static constexpr FloatRange part(long floats, int owner, int owners) {
      return {floats / owners * owner, floats / owners};
    }
  };

  /// How many floats each device has, if all have as many and they lie in the devices' order; else 0.
  template <class Place>
  long equal_part(long floats, const Place& place) const {
    const long part = floats / ranks_;
    for (int owner = 0; owner < ranks_; ++owner) {
      const FloatRange own = place.part(floats, owner, ranks_);
      if (own.first != owner * part || own.count != part) return 0;
    }
    return part;
  }
  /// Gives NCCL call(owner, part) for all parts together.
  template <class Place, class Call>
  void for_each_part(long floats, const char* what, const Place& place, const Call& call) {
    check(ncclGroupStart(), what);
    ncclResult_t status = ncclSuccess;
    for (int owner = 0; owner < ranks_ && status == ncclSuccess; ++owner)
      if (const FloatRange part = place.part(floats, owner, ranks_); part.count > 0) status = call(owner, part);
    const ncclResult_t end = ncclGroupEnd();
    check(status == ncclSuccess ? end : status, what);
  }
  void all_reduce(const gpu::Stream& stream, const float* from, float* to, long floats, ncclRedOp_t operation) {
    check(ncclAllReduce(from, to, static_cast<std::size_t>(floats), ncclFloat, operation, connected(), stream.get()),
          "adding up the devices' numbers");
  }
  ncclComm_t connected() const {
    if (communicator_ == nullptr) throw PeerFailed("Cuda: another device has failed");
    return communicator_;
  }
  void check(ncclResult_t status, const char* what) const {
    if (status == ncclSuccess) return;
    std::string found = ncclGetErrorString(status);
    if (communicator_ != nullptr) found.append(": ").append(ncclGetLastError(communicator_));
    fail("Cuda", what, "success", found);
  }

  Executor* executor_;
  std::chrono::nanoseconds limit_;
  int rank_, ranks_;
  DeviceBuffer<Executor> weight_;  ///< there: what was recorded reads it when it runs
  float known_weight_ = -1;
  ncclComm_t communicator_ = nullptr;
  ncclRedOp_t weighted_sum_{};
};

}  // namespace tenet
#endif
