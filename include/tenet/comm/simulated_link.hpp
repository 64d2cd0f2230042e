#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <tenet/comm/transport.hpp>
#include <tenet/core/function.hpp>
#include <vector>

/// What a simulated network is made of. Times are seconds from its beginning.
namespace tenet {

/// A message of n floats takes latency + 4n / bytes_per_second. The defaults are those of Ethernet with 10 Gbit/s.
struct SimulatedLink {
  double latency = 1e-5;  ///< seconds
  double bytes_per_second = 1.25e9;
  bool is_wire = false;  ///< of these two ranks alone, as between GPUs; else a rank has one port for all that it sends

  /// For how long a message keeps the port that sends it, and the one that receives it.
  constexpr double busy(long floats) const { return static_cast<double>(floats) * sizeof(float) / bytes_per_second; }
  /// To choose between algorithms. Sums take no time here.
  constexpr LinkCost cost() const { return {latency, sizeof(float) / bytes_per_second, 0, false, is_wire}; }
};

/// What a fault is decided by: the `number`-th message (from 0) that rank `from` sends to rank `to`.
struct SimulatedMessage {
  int from, to;
  long number, floats;
  MessageLabel label;
};

/// Its functions are called from the threads of all ranks; what they return depends on their arguments alone.
struct SimulatedNetworkOptions {
  /// A delay that has no end: the message is lost, and those behind it on its way wait for ever.
  static constexpr double never = std::numeric_limits<double>::infinity();

  SimulatedLink link{};  ///< between any two ranks, unless `link_between` says otherwise
  Function<SimulatedLink(int from, int to)> link_between{};
  Function<double(const SimulatedMessage&)> delay{};  ///< by so many seconds a message comes later
  std::map<int, double> deaths{};                     ///< rank -> the time at which it dies
  double limit = 300;                                 ///< seconds of simulated time for each wait
};

namespace detail {

/// When a port is busy. What comes takes the first gap that is long enough: messages are entered in the order in which
/// a rank asks for them, which need not be that of their times.
class SimulatedPort {
 public:
  /// Keeps the port busy for `seconds`, from `earliest` at the earliest; returns from when on.
  double occupy(double earliest, double seconds) {
    auto next = std::upper_bound(busy_.begin(), busy_.end(), earliest,
                                 [](double time, const Interval& interval) { return time < interval.end; });
    double begin = earliest;
    for (; next != busy_.end() && next->begin < begin + seconds; ++next) begin = std::max(begin, next->end);
    if (seconds > 0) enter({begin, begin + seconds}, next);
    return begin;
  }
  /// Nothing comes before `time` any more.
  void forget(double time) {
    std::erase_if(busy_, [time](const Interval& interval) { return interval.end <= time; });
  }

 private:
  struct Interval {
    double begin, end;
  };
  void enter(Interval interval, std::vector<Interval>::iterator next) {
    if (next != busy_.begin() && std::prev(next)->end == interval.begin)
      std::prev(next)->end = interval.end;
    else
      busy_.insert(next, interval);
  }

  std::vector<Interval> busy_;  // in their order
};

/// Those of a rank: one that sends and one that receives, and for each wire two of its own.
class SimulatedPorts {
 public:
  /// When a message leaves that the rank sends at `time`.
  double send(int to, bool by_wire, double time, double seconds) {
    double& until = at(to, by_wire).sends_until;
    const double leaves = std::max(time, until);
    until = leaves + seconds;
    return leaves;
  }
  /// When one is there as a whole whose beginning comes at `time`.
  double receive(int from, bool by_wire, double time, double seconds) {
    return at(from, by_wire).receives.occupy(time, seconds) + seconds;
  }
  void forget(double time) {
    shared_.receives.forget(time);
    for (auto& [peer, ports] : wires_) ports.receives.forget(time);
  }

 private:
  struct Ports {
    double sends_until = 0;
    SimulatedPort receives{};
  };
  Ports& at(int peer, bool by_wire) { return by_wire ? wires_[peer] : shared_; }

  Ports shared_;
  std::map<int, Ports> wires_;
};

}  // namespace detail
}  // namespace tenet
