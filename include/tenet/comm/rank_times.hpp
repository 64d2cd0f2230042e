#pragma once

#include <algorithm>
#include <optional>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/simulated_link.hpp>
#include <vector>

/// The clocks of many ranks that send messages, without threads, so that there may be thousands of them. The model is
/// that of a `SimulatedNetwork` whose links are all alike, and so are the times, to the bit. Links may also be of two
/// kinds, inside of machines and between them.
namespace tenet {

/// For how long a message keeps ports busy, on links of either kind.
struct BusySeconds {
  double between, inside;
};

/// The clocks and ports of ranks, from time 0 on. Times are seconds. There may be many ranks: what belongs to them lies
/// in arrays, one for each kind.
class RankTimes {
 public:
  RankTimes(int ranks, const SimulatedLink& link) : RankTimes(static_cast<std::size_t>(ranks), link, link) {}
  /// `machine_of_rank`: of each rank a number of its machine, inside of which links are others.
  RankTimes(const std::vector<int>& machine_of_rank, const SimulatedLink& link, const SimulatedLink& inside)
      : RankTimes(machine_of_rank.size(), link, inside) {
    machines_.emplace(machine_of_rank, inside.cost());
    if (machines_->count() > 1) return;
    link_ = inside;
    machines_.reset();
  }

  int size() const { return static_cast<int>(clocks_.size()); }
  /// Between machines, if there are several.
  const SimulatedLink& link() const { return link_; }
  const SimulatedLink& link_inside() const { return inside_; }
  const SimulatedLink& link_between(int from, int to) const { return is_inside(from, to) ? inside_ : link_; }
  /// Null: there is one, or nothing is known of them.
  const MachineTopology* machines() const { return machines_ ? &*machines_ : nullptr; }
  LinkCost cost() const {
    LinkCost cost = link_.cost();
    if (machines_) cost.machine = machines_->cost();
    return cost;
  }
  /// Of a message of so many floats.
  BusySeconds busy(long floats) const { return {link_.busy(floats), inside_.busy(floats)}; }
  double clock(int rank) const { return clocks_[index(rank)]; }
  /// Those of all ranks.
  const std::vector<double>& clocks() const { return clocks_; }
  /// The latest clock.
  double last() const { return clocks_.empty() ? 0 : *std::max_element(clocks_.begin(), clocks_.end()); }

  /// A rank does nothing until some time.
  void wait(int rank, double until) { clocks_[index(rank)] = std::max(clocks_[index(rank)], until); }
  void compute(int rank, double seconds) { clocks_[index(rank)] += seconds; }

  /// Sends a message that keeps ports busy for so many seconds; returns when its beginning comes.
  double send(int from, int to, const BusySeconds& busy) {
    return is_inside(from, to) ? send_by(inside_, from, to, busy.inside) : send_by(link_, from, to, busy.between);
  }
  /// Receives a message, and waits until it is there.
  void receive(int from, int to, double comes, const BusySeconds& busy) {
    if (is_inside(from, to))
      receive_by(inside_, from, to, comes, busy.inside);
    else
      receive_by(link_, from, to, comes, busy.between);
  }
  /// Two ranks send each other a message, and receive it.
  void exchange(int one, int other, const BusySeconds& busy_of_one, const BusySeconds& busy_of_other) {
    if (is_inside(one, other))
      exchange_by(inside_, one, other, busy_of_one.inside, busy_of_other.inside);
    else
      exchange_by(link_, one, other, busy_of_one.between, busy_of_other.between);
  }
  /// Waits until all that a rank has sent has been received.
  void finish(int rank) { wait(rank, taken_[index(rank)]); }
  void finish() {
    for (int rank = 0; rank < size(); ++rank) finish(rank);
  }

  /// Forgets what ports did before the earliest clock: nothing comes then any more. To be called when nothing is under
  /// way that has not been received.
  void forget_past() {
    past_ = clocks_.empty() ? 0 : *std::min_element(clocks_.begin(), clocks_.end());
    for (detail::SimulatedPorts& ports : wires_) ports.forget(past_);
  }
  /// The same for one of them, to which nothing comes before some time.
  void forget_past(int rank, double time) {
    if (!wires_.empty()) wires_[index(rank)].forget(time);
    if (!receives_.empty()) receives_[index(rank)].forget(time);
  }

 private:
  RankTimes(std::size_t ranks, const SimulatedLink& link, const SimulatedLink& inside)
      : link_(link), inside_(inside), clocks_(ranks), taken_(ranks) {
    if (link.is_wire || inside.is_wire) wires_.resize(ranks);
    if (link.is_wire && inside.is_wire) return;
    sends_until_.resize(ranks);
    receives_.resize(ranks);
  }
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  double send_by(const SimulatedLink& link, int from, int to, double busy) {
    if (link.is_wire) return wires_[index(from)].send(to, true, clock(from), busy) + link.latency;
    double& until = sends_until_[index(from)];
    const double leaves = std::max(clock(from), until);
    until = leaves + busy;
    return leaves + link.latency;
  }
  void receive_by(const SimulatedLink& link, int from, int to, double comes, double busy) {
    const double there = link.is_wire ? wires_[index(to)].receive(from, true, comes, busy)
                                      : receives_[index(to)].occupy(comes, busy, past_) + busy;
    wait(to, there);
    taken_[index(from)] = std::max(taken_[index(from)], there);
  }
  void exchange_by(const SimulatedLink& link, int one, int other, double busy_of_one, double busy_of_other) {
    const double from_one = send_by(link, one, other, busy_of_one),
                 from_other = send_by(link, other, one, busy_of_other);
    receive_by(link, one, other, from_one, busy_of_one);
    receive_by(link, other, one, from_other, busy_of_other);
  }
  bool is_inside(int from, int to) const { return machines_ && machines_->are_together(from, to); }

  SimulatedLink link_, inside_;  // between machines, inside of them
  std::optional<MachineTopology> machines_;
  std::vector<double> clocks_, taken_;  // the last: when what they have sent was received
  double past_ = 0;                     // no message comes before it
  std::vector<double> sends_until_;     // each rank's port, for all links that are no wires
  std::vector<detail::SimulatedPort> receives_;
  std::vector<detail::SimulatedPorts> wires_;
};

/// The same of some of its ranks, by numbers of their own, as a `Subgroup` is of a transport; all their links are
/// alike. What ports did is forgotten only where that is asked for all ranks.
class RankTimesOfGroup {
 public:
  /// `ranks` live longer than this.
  RankTimesOfGroup(RankTimes& times, const std::vector<int>& ranks, const SimulatedLink& link)
      : times_(times), ranks_(ranks), link_(link) {}

  int size() const { return static_cast<int>(ranks_.size()); }
  const SimulatedLink& link() const { return link_; }
  LinkCost cost() const { return link_.cost(); }
  double last() const {
    double result = 0;
    for (const int rank : ranks_) result = std::max(result, times_.clock(rank));
    return result;
  }
  void wait(int rank, double until) { times_.wait(whole(rank), until); }
  BusySeconds busy(long floats) const { return times_.busy(floats); }
  double send(int from, int to, const BusySeconds& busy) { return times_.send(whole(from), whole(to), busy); }
  void receive(int from, int to, double comes, const BusySeconds& busy) {
    times_.receive(whole(from), whole(to), comes, busy);
  }
  void exchange(int one, int other, const BusySeconds& busy_of_one, const BusySeconds& busy_of_other) {
    times_.exchange(whole(one), whole(other), busy_of_one, busy_of_other);
  }
  void finish(int rank) { times_.finish(whole(rank)); }
  void finish() {
    for (const int rank : ranks_) times_.finish(rank);
  }
  void forget_past() {}

 private:
  int whole(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  RankTimes& times_;
  const std::vector<int>& ranks_;
  const SimulatedLink& link_;
};

}  // namespace tenet
