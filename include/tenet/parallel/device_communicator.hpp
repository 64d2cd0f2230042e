#pragma once

#include <algorithm>
#include <tenet/device/own_memory.hpp>
#include <tenet/parallel/device_group.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// What devices with memories of their own do together: collectives on numbers that lie there.
namespace tenet {

/// Whether an executor runs tasks of the host, in its own memory: a device that is simulated.
template <class Executor>
concept RunsHostTasks = requires(Executor& executor, void (*task)()) { executor.give(task); };

/// One device of several, as many as `Group` has ranks: each makes its own, all at the same time. What it is told to do
/// it does behind what the executor was given before, as kernels do, when all of them have been told.
///
///     void weigh(float weight);     from now on this device's numbers count so much in sums
///     void add_up_weighted<Synchronisation = AllReduce>(Executor&, float* data, long floats, MessageLabel);
///                                   data = sum over devices of weight · data; by a ring with `Ring`
///     void add_up(Executor&, const float* from, float* to, long floats, MessageLabel);
///                                   to = sum over devices of from, which may be the same
///     void broadcast(Executor&, int root, float* data, long floats, MessageLabel);
///     void reduce_to_owners(Executor&, float* data, long floats, MessageLabel, Place);
///                                   of data this device's part, place.part(floats, device, devices), = sum over
///                                   devices of weight · that part; the rest is anything
///     void gather_from_owners(Executor&, float* data, long floats, MessageLabel, Place);
///                                   each part of data = what its owner has there
///     void await(Executor&);        until all has been done; an `Error` where a device does not come
///     void abandon() noexcept;      this one has failed: nobody is to wait for it
///
/// This is that of an executor that runs tasks of the host. All move and add up through the group. That of GPUs is
/// in parallel/nccl.hpp.
template <class Executor, DeviceGroup Group>
class DeviceCommunicator {
  static_assert(RunsHostTasks<Executor>, "several GPUs need NCCL: its header nccl.h is missing");

 public:
  DeviceCommunicator(Executor& executor, Group& group) : group_(&group), executor_(&executor) {
    weight_.grow(executor, 1, "a device's weight");
  }

  void weigh(float weight) {
    if (std::exchange(known_weight_, weight) != weight) executor_->copy_in(weight_.data(), &known_weight_, 4);
  }
  template <class Synchronisation = AllReduce>
  void add_up_weighted(Executor& executor, float* data, long floats, MessageLabel label) {
    executor.give([this, data, floats, label, weight = weight_.data()] {
      Synchronisation::reduce(*group_, data, floats, label, *weight);
    });
  }
  void add_up(Executor& executor, const float* from, float* to, long floats, MessageLabel label) {
    executor.give([this, from, to, floats, label] {
      if (from != to) std::copy_n(from, floats, to);
      all_reduce(*group_, to, floats, label);
    });
  }
  void broadcast(Executor& executor, int root, float* data, long floats, MessageLabel label) {
    executor.give([this, root, data, floats, label] { tenet::broadcast(*group_, root, data, floats, label); });
  }
  template <class Place>
  void reduce_to_owners(Executor& executor, float* data, long floats, MessageLabel label, const Place& place) {
    executor.give([this, data, floats, label, place, weight = weight_.data()] {
      std::vector<float> sum(data, data + floats);
      all_reduce(*group_, sum.data(), floats, label, *weight);
      const FloatRange own = place.part(floats, group_->rank(), group_->size());
      std::copy_n(sum.data() + own.first, own.count, data + own.first);
    });
  }
  template <class Place>
  void gather_from_owners(Executor& executor, float* data, long floats, MessageLabel label, const Place& place) {
    executor.give([this, data, floats, label, place] {
      for (int owner = 0; owner < group_->size(); ++owner) {
        const FloatRange part = place.part(floats, owner, group_->size());
        if (part.count > 0) tenet::broadcast(*group_, owner, data + part.first, part.count, label);
      }
    });
  }
  void await(Executor& executor) { executor.synchronize(); }
  void abandon() noexcept {}

 private:
  Group* group_;
  Executor* executor_;
  DeviceBuffer<Executor> weight_;  ///< there: what was recorded reads it when it runs
  float known_weight_ = -1;
};

/// A device's communicator, and the group that it goes by. It stays where it is.
template <class Executor, DeviceGroup Group>
struct GroupedDevice {
  Group group;
  DeviceCommunicator<Executor, Group> communicator;

  GroupedDevice(Executor& executor, Group among) : group(std::move(among)), communicator(executor, group) {}
  GroupedDevice(const GroupedDevice&) = delete;
  GroupedDevice& operator=(const GroupedDevice&) = delete;
};

}  // namespace tenet
