#pragma once

#include <chrono>
#include <concepts>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/thread_transport.hpp>

/// Which devices work together: those of one process, one of each rank, or several of each rank.
namespace tenet {

/// One of the devices that several ranks have, each as many, numbered rank by rank. What they do together the devices
/// of a rank do first, then the first one of each, between ranks, and it tells the others of its rank.
///
/// The first device's calls use the rank's transport, so that nobody else may meanwhile.
template <Transport T>
class DeviceOfRank {
 public:
  DeviceOfRank(ThreadTransport inside, T& between) : inside_(inside), between_(&between) {}

  int rank() const { return between_->rank() * inside_.size() + inside_.rank(); }
  int size() const { return between_->size() * inside_.size(); }
  std::chrono::nanoseconds limit() const { return between_->limit(); }

  void all_reduce(float* data, long floats, MessageLabel label, float weight) {
    add_up([=](auto& among, float own) { tenet::all_reduce(among, data, floats, label, own); }, weight);
    tenet::broadcast(inside_, 0, data, floats, label);
  }
  void all_reduce_by_ring(float* data, long floats, MessageLabel label, float weight) {
    add_up([=](auto& among, float own) { tenet::all_reduce_by_ring(among, data, floats, label, own); }, weight);
    tenet::broadcast(inside_, 0, data, floats, label);
  }
  void broadcast(int root, float* data, long floats, MessageLabel label) {
    const int rank = root / inside_.size();
    if (rank == between_->rank()) tenet::broadcast(inside_, root % inside_.size(), data, floats, label);
    if (is_first()) tenet::broadcast(*between_, rank, data, floats, label);
    if (rank != between_->rank()) tenet::broadcast(inside_, 0, data, floats, label);
  }
  void barrier(MessageLabel label) {
    tenet::barrier(inside_, label);
    if (is_first()) tenet::barrier(*between_, label);
    tenet::barrier(inside_, label);
  }

 private:
  /// Calls way(transport, weight) among the devices of the rank, then between the ranks, by its first device.
  template <class Way>
  void add_up(const Way& way, float weight) {
    way(inside_, weight);
    if (is_first()) way(*between_, 1.0f);
  }
  bool is_first() const { return inside_.rank() == 0; }

  ThreadTransport inside_;
  T* between_;
};

template <Transport T>
void all_reduce(DeviceOfRank<T>& device, float* data, long floats, MessageLabel label, float weight = 1) {
  device.all_reduce(data, floats, label, weight);
}
template <Transport T>
void all_reduce_by_ring(DeviceOfRank<T>& device, float* data, long floats, MessageLabel label, float weight = 1) {
  device.all_reduce_by_ring(data, floats, label, weight);
}
template <Transport T>
void broadcast(DeviceOfRank<T>& device, int root, float* data, long floats, MessageLabel label) {
  device.broadcast(root, data, floats, label);
}
template <Transport T>
void barrier(DeviceOfRank<T>& device, MessageLabel label) {
  device.barrier(label);
}

/// What devices need of each other, on the host: a transport, with a device a rank, has it.
template <class Group>
concept DeviceGroup = requires(Group& group, float* data, MessageLabel label) {
  { group.rank() } -> std::same_as<int>;
  { group.size() } -> std::same_as<int>;
  { group.limit() } -> std::same_as<std::chrono::nanoseconds>;
  all_reduce(group, data, 0L, label, 1.0f);
  all_reduce_by_ring(group, data, 0L, label, 1.0f);
  broadcast(group, 0, data, 0L, label);
  barrier(group, label);
};

/// The ranks beside the devices of one process: none.
struct OneRank {
  using Group = ThreadTransport;
  static constexpr bool several = false;

  Group group(ThreadTransport inside) { return inside; }
  static constexpr int rank() { return 0; }
};

/// The ranks, each of which has several devices.
template <Transport T>
class RanksOfDevices {
 public:
  using Group = DeviceOfRank<T>;
  static constexpr bool several = true;

  explicit RanksOfDevices(T transport) : RanksOfDevices(std::move(transport), transport.rank()) {}
  /// `rank`: its number among those that train, where the transport is between some of them.
  RanksOfDevices(T&& transport, int rank) : transport_(std::move(transport)), rank_(rank) {}
  RanksOfDevices(const RanksOfDevices&) = delete;
  RanksOfDevices& operator=(const RanksOfDevices&) = delete;

  Group group(ThreadTransport inside) { return {inside, transport_}; }
  int rank() const { return rank_; }
  /// Of all ranks, where none of their devices is at work together.
  void add_up(float* numbers, long count, MessageLabel label) { all_reduce(transport_, numbers, count, label); }

 private:
  T transport_;
  int rank_;
};

}  // namespace tenet
