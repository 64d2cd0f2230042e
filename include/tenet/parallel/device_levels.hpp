#pragma once

#include <optional>
#include <tenet/comm/subgroup.hpp>
#include <tenet/parallel/device_communicator.hpp>

namespace tenet {

/// One device of several on several machines, one of each rank: what `DeviceCommunicator` is, for `Hierarchical`. The
/// first devices of each machine, as many as the machine with fewest has, own a part of the numbers each, however few
/// these are. A part's sum over the machine comes to its owner, then the owners of a part on all machines add up
/// theirs, and it goes from its owner to the others.
template <class Executor, Transport T>
class DeviceLevels {
 public:
  DeviceLevels(Executor& executor, T& transport)
      : machines_(machines_of(transport)),
        inside_(executor, Subgroup<T>::of_machine(transport)),
        owners_{machines_ == nullptr ? inside_.group.size() : machines_->fewest()} {
    if (machines_ == nullptr || inside_.group.rank() >= owners_.count) return;
    between_.emplace(executor, Subgroup<T>::between_machines(transport, *machines_));
    between_->communicator.weigh(1);
  }

  void weigh(float weight) { inside().weigh(weight); }
  template <class Synchronisation>
  void add_up_weighted(Executor& executor, float* data, long floats, MessageLabel label) {
    using Inner = typename Synchronisation::Inner;
    using Outer = typename Synchronisation::Outer;
    if (machines_ == nullptr) return inside().template add_up_weighted<Inner>(executor, data, floats, label);
    inside().reduce_to_owners(executor, data, floats, label, owners_);
    if (const FloatRange own = owners_.part(floats, inside_.group.rank(), 0); own.count > 0)
      between_->communicator.template add_up_weighted<Outer>(executor, data + own.first, own.count, label);
    inside().gather_from_owners(executor, data, floats, label, owners_);
  }
  void add_up(Executor& executor, const float* from, float* to, long floats, MessageLabel label) {
    inside().add_up(executor, from, to, floats, label);
    if (is_first_of_several()) between_->communicator.add_up(executor, to, to, floats, label);
    inside().broadcast(executor, 0, to, floats, label);
  }
  /// Of device 0, which is the first of its machine.
  void broadcast(Executor& executor, int root, float* data, long floats, MessageLabel label) {
    if (root != 0) fail("Hierarchical", "broadcast: root", "0", root);
    if (is_first_of_several()) between_->communicator.broadcast(executor, 0, data, floats, label);
    inside().broadcast(executor, 0, data, floats, label);
  }
  /// What it does between machines is in the same order as what it does inside.
  void await(Executor& executor) { inside().await(executor); }
  void abandon() noexcept {
    inside().abandon();
    if (between_) between_->communicator.abandon();
  }

 private:
  using Device = GroupedDevice<Executor, Subgroup<T>>;

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
  auto& inside() { return inside_.communicator; }
  bool is_first_of_several() const { return machines_ != nullptr && inside_.group.rank() == 0; }

  const MachineTopology* machines_;  // null: there is one
  Device inside_;
  std::optional<Device> between_;  // none: one machine, or this device owns no part
  FirstDevices owners_;
};

}  // namespace tenet
