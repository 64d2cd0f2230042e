#pragma once

#include <algorithm>
#include <tenet/comm/machine_times.hpp>
#include <tenet/core/function.hpp>

/// What the ranks of a training do in a step, without the numbers, and when each of their steps ends: what is simulated
/// to predict the time of a step. See parallel/step_time.hpp.
namespace tenet {

/// A part of the gradients that is sent on its own, or what leaves among these: results, a sum over the batch that the
/// pass itself needs, or running statistics.
struct SimulatedBucket {
  enum class Kind {
    gradients,
    sum,
    awaited_sum,  ///< the pass goes on when it is there
    broadcast,
  };

  long floats = 0;
  double ready = 0;    ///< seconds of the last pass until it is there
  double prepare = 0;  ///< seconds of whoever sends it: what has to be added to it before
  Kind kind = Kind::gradients;
  double needed = 0;  ///< seconds of the next pass until it reads the bucket's parameters, where these come late
};

/// A training: `ranks` ranks of `replicas` devices each. Times are seconds. All devices have equally many samples.
struct SimulatedTraining {
  enum class Exchange {
    none,        ///< between ranks
    buckets,     ///< of gradients, while backward goes on
    parameters,  ///< all of them, after every `steps_alone` steps
    both,        ///< buckets between the ranks of a machine, parameters between all
  };

  int ranks = 1, replicas = 1;
  SimulatedLink link{};
  int ranks_of_machine = 1;  ///< consecutive ones; the last machine has those that are left
  SimulatedLink inside{};    ///< between ranks of one machine

  // Of one device.
  double before = 0;   ///< its passes over the pieces of a batch before the last one
  double pass = 0;     ///< the last one: forward and backward
  double behind = 0;   ///< what comes when the gradients are there: the rest of the program, the update
  double meeting = 0;  ///< until replicas see that all of them have come, or ranks that `meet`

  double waking = 0;      ///< until a communication thread that has nothing to do begins with what comes
  double core_share = 0;  ///< of the time in which messages of buckets are under way: what the pass loses by them

  Exchange exchange = Exchange::none;
  /// How numbers are added up: in the quickest way, as `Ring` does it, or as `Hierarchical` does.
  bool by_ring = false, by_machines = false, rings_inside = false, rings_between = false;
  /// Or in some other way, which takes so many seconds from when the last rank has come.
  double (*formula)(int ranks, long floats, const LinkCost& link) = nullptr;
  bool scatters = false;       ///< a rank has a part of each bucket, updates it, and sends the new parameters
  double update_of_float = 0;  ///< seconds of what a device does with a bucket that has come; else `behind` has it
  bool updates_late = false;   ///< a step ends with its results; the next pass updates a bucket before it needs it
  std::vector<SimulatedBucket> buckets{};
  long parameter_floats = 0;
  int steps_alone = 1;
  bool counts_before = false;  ///< how many samples there are is agreed upon before the first pass
  bool counts_during = false;  ///< or while it runs
  bool meet = false;           ///< ranks are threads that share the parameters
  bool shares_first = false;   ///< all begin with the parameters of rank 0
  long result_floats = 0;      ///< averaged at the end of a step
  long buffer_floats = 0;      ///< sent by rank 0 at the end of a step
  long met_floats = 0;         ///< and to all ranks when their parameters have become their mean

  /// How many times as long as others a device takes for what it computes in a step; none: 1.
  Function<double(int device, long step)> slowness{};

  double factor(int device, long step) const { return slowness ? slowness(device, step) : 1.0; }
  /// Of the slowest device of a rank: what they share takes as long.
  double slowest(int rank, long step) const {
    double result = 0;
    for (int i = 0; i < replicas; ++i) result = std::max(result, factor(rank * replicas + i, step));
    return result;
  }
  /// The clocks of all ranks.
  RankTimes times() const {
    if (ranks_of_machine <= 1) return {ranks, link};
    std::vector<int> machine_of_rank;
    for (int rank = 0; rank < ranks; ++rank) machine_of_rank.push_back(rank / ranks_of_machine);
    return {machine_of_rank, link, inside};
  }
};

/// When each rank ends each of its steps, and what the steps of all of them take together.
struct SimulatedSteps {
  int steps = 0;
  std::vector<double> ends{};  ///< of step s of rank r: at r · steps + s
  double computing = 0;        ///< of a device; the mean of those of a rank
  double communicating = 0;    ///< the communication thread is not idle, or waits for those of others

  SimulatedSteps(int ranks, int steps_of_rank)
      : steps(steps_of_rank), ends(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(steps_of_rank)) {}

  int ranks() const { return static_cast<int>(ends.size()) / steps; }
  double& end(int rank, int step) {
    return ends[static_cast<std::size_t>(rank) * static_cast<std::size_t>(steps) + static_cast<std::size_t>(step)];
  }
  double end(int rank, int step) const { return const_cast<SimulatedSteps*>(this)->end(rank, step); }

  /// Steps a second of all ranks together, behind the first ones of each.
  double rate(int skipped) const { return rate(skipped, 0, 1e300); }
  /// The same where ranks do not wait for each other: while each of them has done `skipped` steps and none has done
  /// all.
  double rate_while_all_run(int skipped) const {
    double begin = 0, until = 1e300;
    for (int rank = 0; rank < ranks(); ++rank) {
      begin = std::max(begin, end(rank, skipped - 1));
      until = std::min(until, end(rank, steps - 1));
    }
    return rate(skipped, begin, until);
  }

 private:
  double rate(int skipped, double begin, double until) const {
    double sum = 0;
    for (int rank = 0; rank < ranks(); ++rank) {
      int first = skipped - 1, last = steps - 1;
      while (first + 1 < last && end(rank, first) < begin) ++first;
      while (last - 1 > first && end(rank, last) > until) --last;
      sum += (last - first) / (end(rank, last) - end(rank, first));
    }
    return sum;
  }
};

}  // namespace tenet
