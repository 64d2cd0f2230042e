#pragma once

#include <optional>
#include <tenet/comm/subgroup.hpp>
#include <tenet/parallel/device_communicator.hpp>

namespace tenet {

/// One device of several on several machines, one of each rank: what `DeviceCommunicator` is, for `Hierarchical`. The
/// first devices of each machine, as many as the machine with fewest has, own a part of the numbers each. A part's sum
/// over the machine comes to its owner, then the owners of a part on all machines add up theirs, and it goes from its
/// owner to the others. Of what is few numbers, too.
template <class Executor, Transport T>
class DeviceLevels {
 public:
  DeviceLevels(Executor& executor, T& transport)
      : machines_(machines_of(transport)),
        inside_group_(Subgroup<T>::of_machine(transport)),
        inside_(executor, inside_group_),
        owners_{machines_ == nullptr ? inside_group_.size() : machines_->fewest()} {
    if (machines_ == nullptr || inside_group_.rank() >= owners_.count) return;
    between_group_.emplace(Subgroup<T>::between_machines(transport, *machines_));
    between_.emplace(executor, *between_group_);
    between_->weigh(1);
  }

  void weigh(float weight) { inside_.weigh(weight); }
  template <class Synchronisation>
  void add_up_weighted(Executor& executor, float* data, long floats, MessageLabel label) {
    using Inner = typename Synchronisation::Inner;
    using Outer = typename Synchronisation::Outer;
    if (machines_ == nullptr) return inside_.template add_up_weighted<Inner>(executor, data, floats, label);
    inside_.reduce_to_owners(executor, data, floats, label, owners_);
    if (const FloatRange own = owners_.part(floats, inside_group_.rank(), 0); own.count > 0)
      between_->template add_up_weighted<Outer>(executor, data + own.first, own.count, label);
    inside_.gather_from_owners(executor, data, floats, label, owners_);
  }
  void add_up(Executor& executor, const float* from, float* to, long floats, MessageLabel label) {
    inside_.add_up(executor, from, to, floats, label);
    if (inside_group_.rank() == 0 && between_) between_->add_up(executor, to, to, floats, label);
    inside_.broadcast(executor, 0, to, floats, label);
  }
  /// Of device 0, which is the first of its machine.
  void broadcast(Executor& executor, int root, float* data, long floats, MessageLabel label) {
    if (root != 0) fail("Hierarchical", "broadcast: root", "0", root);
    if (inside_group_.rank() == 0 && between_) between_->broadcast(executor, 0, data, floats, label);
    inside_.broadcast(executor, 0, data, floats, label);
  }
  /// What it does between machines is in the same order as what it does inside.
  void await(Executor& executor) { inside_.await(executor); }
  void abandon() noexcept {
    inside_.abandon();
    if (between_) between_->abandon();
  }

 private:
  /// The first ones of a machine.
  struct FirstDevices {
    int count;
    FloatRange part(long floats, int device, int) const {
      return device < count ? part_of(floats, device, count) : FloatRange{};
    }
  };

  static const MachineTopology* machines_of(T& transport) {
    if constexpr (KnowsMachines<T>) return transport.machines();
    return nullptr;
  }

  const MachineTopology* machines_;  // null: there is one
  Subgroup<T> inside_group_;
  std::optional<Subgroup<T>> between_group_;  // none: one machine, or this device owns no part
  DeviceCommunicator<Executor, Subgroup<T>> inside_;
  std::optional<DeviceCommunicator<Executor, Subgroup<T>>> between_;
  FirstDevices owners_;
};

}  // namespace tenet
