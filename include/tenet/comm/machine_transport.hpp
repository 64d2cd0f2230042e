#pragma once

#include <memory>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/core/function.hpp>
#include <utility>
#include <vector>

namespace tenet {

/// Ranks of several machines: a rank reaches those of its machine by one transport, whose ranks are these, in their
/// order; and all others by another one, which is between all ranks. Memory that ranks have in common is that of a
/// machine: `share` is for those of one, as `share_inside`, unless there is one machine only.
///
/// While a rank waits for a message of one transport, the other one goes on with what it has to send, if it has a
/// function `progress`, and the first one `call_while_waiting`.
template <Transport Inside, Transport Outside>
class MachineTransport {
 public:
  /// Of each rank a number of its machine, whatever it is.
  template <class Number>
  MachineTransport(Inside inside, Outside outside, const std::vector<Number>& machine_of_rank)
      : parts_(std::make_unique<Parts>(std::move(inside), std::move(outside), machine_of_rank)) {
    Parts* const parts = parts_.get();
    const int own = parts->machines.machine_of(rank());
    const auto size = static_cast<int>(parts->machines.ranks(own).size());
    if (parts->inside.size() != size || parts->inside.rank() != parts->machines.place_of(rank()))
      fail(detail::with_number("rank", rank()), "the transport inside of its machine",
           "that of " + std::to_string(size) + " ranks, of which it is the one with place " +
               std::to_string(parts->machines.place_of(rank())),
           std::to_string(parts->inside.size()) + ", with place " + std::to_string(parts->inside.rank()));
    go_on_while_waiting(parts->inside, parts->outside);
    go_on_while_waiting(parts->outside, parts->inside);
  }

  int rank() const { return parts_->outside.rank(); }
  int size() const { return parts_->outside.size(); }
  LinkCost link() const {
    if (parts_->machines.count() == 1) return parts_->inside.link();
    LinkCost link = parts_->outside.link();
    link.shares = false;
    link.machine = parts_->cost;
    return link;
  }
  auto limit() const { return parts_->outside.limit(); }
  const MachineTopology* machines() const { return parts_->machines.count() == 1 ? nullptr : &parts_->machines; }

  void send(int to, const float* data, long floats, MessageLabel label) {
    by(to, [&](auto& transport, int peer) { transport.send(peer, data, floats, label); });
  }
  void expect(int from, long floats, MessageLabel label, float* to)
    requires(ExpectsMessages<Inside> || ExpectsMessages<Outside>)
  {
    by(from, [&]<class T>(T& transport, int peer) {
      if constexpr (ExpectsMessages<T>) transport.expect(peer, floats, label, to);
    });
  }
  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    by(from, [&](auto& transport, int peer) { transport.receive(peer, floats, label, use); });
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    by(from, [&](auto& transport, int peer) { transport.receive_into(peer, to, floats, label); });
  }
  bool arrived(int from) {
    return by(from, [](auto& transport, int peer) { return transport.arrived(peer); });
  }
  /// Nobody rings for what other machines send.
  Doorbell* doorbell()
    requires HasDoorbell<Inside>
  {
    return parts_->machines.count() == 1 ? parts_->inside.doorbell() : nullptr;
  }
  void finish() {
    if (!parts_->is_sharing) parts_->inside.finish();
    parts_->outside.finish();
  }

  float* memory(long floats)
    requires MayShareMemory<Inside>
  {
    return parts_->inside.memory(floats);
  }
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires MayShareMemory<Inside>
  {
    return parts_->machines.count() == 1 && share_inside(data, floats, label, weight, use);
  }
  template <class Use>
  bool share_inside(float* data, long floats, MessageLabel label, float weight, Use&& use)
    requires MayShareMemory<Inside>
  {
    return parts_->inside.share(data, floats, label, weight, [&](const SharedNumbers* shared) {
      const Sharing sharing(parts_->is_sharing);
      use(shared);
    });
  }

 private:
  // They stay where they are, as each of them may know of the other.
  struct Parts {
    Inside inside;
    Outside outside;
    MachineTopology machines;
    MachineCost cost;
    bool is_sharing = false;

    template <class Number>
    Parts(Inside in, Outside out, const std::vector<Number>& machine_of_rank)
        : inside(std::move(in)),
          outside(std::move(out)),
          machines(machine_of_rank, inside.link()),
          cost(machines.cost()) {}
  };

  /// While numbers are shared, whoever has finished with other machines does not wait for those that share them:
  /// `share` does, and they may wait for him to come to its end.
  struct Sharing {
    bool& is_sharing;
    explicit Sharing(bool& is) : is_sharing(is) { is_sharing = true; }
    ~Sharing() { is_sharing = false; }
  };

  /// Calls call(transport, the number there of that rank).
  template <class Call>
  auto by(int peer, Call call) {
    if (parts_->machines.are_together(rank(), peer)) return call(parts_->inside, parts_->machines.place_of(peer));
    return call(parts_->outside, peer);
  }
  template <class Waiting, class Other>
  static void go_on_while_waiting(Waiting& waiting, Other& other) {
    if constexpr (requires { waiting.call_while_waiting(Function<void()>()), other.progress(); })
      waiting.call_while_waiting([&other] { other.progress(); });
  }

  std::unique_ptr<Parts> parts_;
};

}  // namespace tenet
