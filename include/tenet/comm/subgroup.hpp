#pragma once

#include <tenet/comm/all_reduce_ways.hpp>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/core/span.hpp>
#include <vector>

namespace tenet {

namespace detail {

/// Where what a group does is recorded: with what its transport does.
template <class T>
struct RowOfGroup {
  explicit RowOfGroup(T&) {}
};
template <HasTimelineRow T>
struct RowOfGroup<T> {
  explicit RowOfGroup(T& transport) : timeline_row(transport.timeline_row), transport_with_row(&transport) {}
  auto& device() { return transport_with_row->device(); }

  TimelineRow* timeline_row;
  T* transport_with_row;
};

}  // namespace detail

/// Some ranks of a transport as a `Transport` of their own: what has number i here is the i-th of them there. Errors
/// name ranks as the whole transport does. All ranks of a group, and of others at the same time, do the same with it.
template <Transport T>
class Subgroup : public detail::RowOfGroup<T> {
 public:
  /// This rank is ranks[rank]. `ranks` live longer than this.
  Subgroup(T& transport, const std::vector<int>& ranks, int rank, const LinkCost& link)
      : Subgroup(transport, &ranks, rank, link) {}

  /// Those of this rank's machine.
  static Subgroup of_machine(T& transport, const MachineTopology& machines) {
    Subgroup group(transport, machines.ranks(machines.machine_of(transport.rank())),
                   machines.place_of(transport.rank()), machines.inside());
    group.is_machine_ = true;
    return group;
  }
  /// The same of a transport that may know of no machines: then all of its ranks are on one.
  static Subgroup of_machine(T& transport) {
    if constexpr (KnowsMachines<T>)
      if (const MachineTopology* const machines = transport.machines(); machines != nullptr)
        return of_machine(transport, *machines);
    return of_all(transport);
  }
  /// All ranks.
  static Subgroup of_all(T& transport) {
    Subgroup all(transport, nullptr, transport.rank(), transport.link());
    all.is_machine_ = true;  // or the transport knows better
    return all;
  }
  /// Those of all machines that have this rank's place, which all machines have.
  static Subgroup between_machines(T& transport, const MachineTopology& machines) {
    return {transport, machines.ranks_at(machines.place_of(transport.rank())), machines.machine_of(transport.rank()),
            detail::between_machines(transport.link())};
  }

  int rank() const { return rank_; }
  int size() const { return ranks_ == nullptr ? transport_->size() : static_cast<int>(ranks_->size()); }
  LinkCost link() const { return link_; }
  auto limit() const { return transport_->limit(); }
  /// That of all ranks.
  T& transport() { return *transport_; }

  void send(int to, const float* data, long floats, MessageLabel label) {
    transport_->send(whole(to), data, floats, label);
  }
  void expect(int from, long floats, MessageLabel label, float* to)
    requires ExpectsMessages<T>
  {
    transport_->expect(whole(from), floats, label, to);
  }
  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    transport_->receive(whole(from), floats, label, use);
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    transport_->receive_into(whole(from), to, floats, label);
  }
  bool arrived(int from) { return transport_->arrived(whole(from)); }
  /// What this rank has sent to others, too.
  void finish() { transport_->finish(); }

  float* memory(long floats)
    requires(SharesInside<T> || MayShareMemory<T>)
  {
    return is_machine_ ? transport_->memory(floats) : nullptr;
  }
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires(SharesInside<T> || MayShareMemory<T>)
  {
    if (!is_machine_) return false;
    if constexpr (SharesInside<T>)
      if (ranks_ != nullptr) return transport_->share_inside(data, floats, label, weight, use);
    if constexpr (MayShareMemory<T>)
      if (ranks_ == nullptr) return transport_->share(data, floats, label, weight, use);
    return false;
  }

 private:
  Subgroup(T& transport, const std::vector<int>* ranks, int rank, const LinkCost& link)
      : detail::RowOfGroup<T>(transport), transport_(&transport), ranks_(ranks), rank_(rank), link_(link) {}

  int whole(int rank) const { return ranks_ == nullptr ? rank : (*ranks_)[static_cast<std::size_t>(rank)]; }

  T* transport_;
  const std::vector<int>* ranks_;  // null: all of them
  int rank_;
  LinkCost link_;
  bool is_machine_ = false;
};

}  // namespace tenet
