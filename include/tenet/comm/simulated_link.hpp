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
  constexpr void be_no_quicker_than(const SimulatedLink& other) {
    latency = std::max(latency, other.latency);
    bytes_per_second = std::min(bytes_per_second, other.bytes_per_second);
    is_wire = is_wire && other.is_wire;
  }
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

  SimulatedLink link{};  ///< between any two ranks, unless what follows says otherwise
  /// A number of the machine on which a rank runs; none: nothing is known of machines.
  Function<int(int rank)> machine_of{};
  SimulatedLink inside{.latency = 1e-6, .bytes_per_second = 1e10};  ///< between ranks of one machine
  Function<SimulatedLink(int from, int to)> link_between{};
  Function<double(const SimulatedMessage&)> delay{};  ///< by so many seconds a message comes later
  std::map<int, double> deaths{};                     ///< rank -> the time at which it dies
  double limit = 300;                                 ///< seconds of simulated time for each wait
};

namespace detail {

/// When a port is busy. What comes takes the first gap that is long enough: messages are entered in the order in which
/// a rank asks for them, which need not be that of their times. Most come behind all others, so that the last interval
/// is at hand.
class SimulatedPort {
 public:
  /// Keeps the port busy for `seconds`, from `earliest` at the earliest; returns from when on. Nothing comes before
  /// `past` any more.
  double occupy(double earliest, double seconds, double past = 0) {
    if (earliest < last_.end) return occupy_gap(earliest, seconds, past);
    if (seconds > 0) append({earliest, earliest + seconds}, past);
    return earliest;
  }
  /// Nothing comes before `time` any more.
  void forget(double time) {
    if (!earlier_.empty()) std::erase_if(earlier_, [time](const Interval& interval) { return interval.end <= time; });
    if (last_.end <= time) last_ = {};
  }

 private:
  struct Interval {
    double begin = -std::numeric_limits<double>::infinity(), end = begin;
  };
  void append(Interval interval, double past) {
    if (last_.end == interval.begin) {
      last_.end = interval.end;
      return;
    }
    if (last_.end > past) keep(earlier_.size(), last_, past);
    last_ = interval;
  }
  /// For what comes before the end of the last interval.
  double occupy_gap(double earliest, double seconds, double past) {
    std::size_t next = earlier_.size();
    while (next > 0 && earlier_[next - 1].end > earliest) --next;
    double begin = earliest;
    for (; next < earlier_.size() && earlier_[next].begin < begin + seconds; ++next)
      begin = std::max(begin, earlier_[next].end);
    if (next == earlier_.size() && last_.begin < begin + seconds) {
      begin = std::max(begin, last_.end);
      last_.end = begin + seconds;
    } else if (seconds > 0) {
      if (next > 0 && earlier_[next - 1].end == begin)
        earlier_[next - 1].end = begin + seconds;
      else
        keep(next, {begin, begin + seconds}, past);
    }
    return begin;
  }
  void keep(std::size_t place, Interval interval, double past) {
    earlier_.insert(earlier_.begin() + static_cast<std::ptrdiff_t>(place), interval);
    if (earlier_.size() % 8 == 0) std::erase_if(earlier_, [past](const Interval& one) { return one.end <= past; });
  }

  Interval last_;
  std::vector<Interval> earlier_;  // in their order
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
