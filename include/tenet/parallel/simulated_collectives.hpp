#pragma once

#include <algorithm>
#include <tenet/comm/machine_times.hpp>
#include <tenet/parallel/simulated_training.hpp>

/// The steps of ranks that exchange by collectives, without the numbers: when each of them computes, sends and waits.
namespace tenet {

namespace detail {

/// A step of ranks that exchange by collectives.
class CollectiveSteps {
 public:
  explicit CollectiveSteps(const SimulatedTraining& training)
      : training_(training),
        times_(training.times()),
        begins_(static_cast<std::size_t>(training.ranks)),
        sent_(begins_.size()),
        free_(begins_.size()),
        late_(begins_.size()),
        told_(begins_.size()),
        spilt_(begins_.size()),
        slowest_(begins_.size()),
        slowest_before_(begins_.size()),
        mean_(begins_.size()),
        first_(begins_.size()) {}

  SimulatedSteps run(int steps) {
    SimulatedSteps result(training_.ranks, steps);
    for (int step = 0; step < steps; ++step) {
      take(step);
      for (int rank = 0; rank < training_.ranks; ++rank)
        result.end(rank, step) = leaves_buckets() ? free_[static_cast<std::size_t>(rank)] : times_.clock(rank);
    }
    result.computing = computing_;
    result.communicating = communicating_;
    return result;
  }

 private:
  using Exchange = SimulatedTraining::Exchange;
  using Kind = SimulatedBucket::Kind;

  /// When the sums of a bucket's gradients, or its parameters, have come to each rank.
  struct Arrival {
    long floats;
    double needed;
    std::vector<double> at;

    static bool is_needed_earlier(const Arrival& a, const Arrival& b) { return a.needed < b.needed; }
  };

  /// Whether buckets may be on their way when the next step begins.
  bool leaves_buckets() const { return training_.scatters || training_.updates_late; }

  /// Whether a communication thread sends it, that may sleep: something is computed beside it.
  bool wakes(const SimulatedBucket& bucket) const {
    const auto is_gradients = [](const SimulatedBucket& one) { return one.kind == Kind::gradients; };
    return bucket.kind != Kind::awaited_sum &&
           std::count_if(training_.buckets.begin(), training_.buckets.end(), is_gradients) > 1;
  }

  void take(long step) {
    if (step == 0 && training_.shares_first) time_broadcast(times_, training_.parameter_floats);
    look_at_devices(step);
    const bool has_arrivals = leaves_buckets() && step > 0;  // some may be still to come
    if (training_.counts_before) {
      for (int rank = 0; rank < training_.ranks; ++rank) times_.wait(rank, free_[static_cast<std::size_t>(rank)]);
      reduce(1);
    }
    for (int rank = 0; rank < training_.ranks; ++rank)
      begins_[static_cast<std::size_t>(rank)] =
          has_arrivals && !training_.counts_before ? free_[static_cast<std::size_t>(rank)] : times_.clock(rank);
    if (training_.counts_during) {
      for (int rank = 0; rank < training_.ranks; ++rank) {
        const double begin = begins_[static_cast<std::size_t>(rank)];
        if (times_.clock(rank) <= begin) times_.wait(rank, begin + training_.waking);
      }
      reduce(1);
    }
    // When all devices of a rank have computed so long in their last passes.
    late_ = spilt_;
    std::fill(spilt_.begin(), spilt_.end(), 0.0);
    const auto all_have = [&](int rank, double seconds) {
      const auto r = static_cast<std::size_t>(rank);
      return begins_[r] + late_[r] + (training_.before + seconds) * slowest_[r];
    };
    const auto waits_until = [&](int rank, double time, double needs) {
      late_[static_cast<std::size_t>(rank)] += std::max(0.0, time - needs);
    };
    if (has_arrivals && training_.updates_late) {
      for (int rank = 0; rank < training_.ranks; ++rank) {
        const auto needs = [&](const Arrival& arrival) { return all_have(rank, arrival.needed); };
        const auto r = static_cast<std::size_t>(rank);
        update_when_needed(rank, needs, [&](const Arrival& arrival, double now) {
          waits_until(rank, arrival.at[r], now);
          late_[r] += seconds_of_update(arrival, slowest_before_[r]);
          if (training_.replicas > 1) late_[r] += 2 * training_.meeting;
        });
      }
    } else if (has_arrivals) {
      for (const Arrival& arrival : arrived_)
        for (int rank = 0; rank < training_.ranks; ++rank) {
          const auto r = static_cast<std::size_t>(rank);
          waits_until(rank, arrival.at[r],
                      training_.before > 0 ? begins_[r] + late_[r] : all_have(rank, arrival.needed));
        }
    }
    const bool keeps_arrivals = !training_.scatters && (training_.updates_late || training_.update_of_float > 0);
    const bool updates_arrivals = keeps_arrivals && !training_.updates_late;
    if (keeps_arrivals) arrived_.clear();
    for (const SimulatedBucket& bucket : training_.buckets) {
      const double waking = wakes(bucket) ? training_.waking : 0;
      for (int rank = 0; rank < training_.ranks; ++rank) {
        const double ready = all_have(rank, bucket.ready);
        if (times_.clock(rank) < ready) times_.wait(rank, ready + waking);
        times_.compute(rank, bucket.prepare * first_[static_cast<std::size_t>(rank)]);
        communicating_ += bucket.prepare;
        sent_[static_cast<std::size_t>(rank)] = times_.clock(rank);
      }
      exchange(bucket);
      if (keeps_arrivals && bucket.kind == Kind::gradients)
        arrived_.push_back({bucket.floats, bucket.needed, times_.clocks()});
      if (bucket.kind == Kind::sum || bucket.kind == Kind::broadcast) told_ = times_.clocks();
      for (int rank = 0; rank < training_.ranks; ++rank) {
        const std::size_t r = static_cast<std::size_t>(rank);
        if (bucket.kind == Kind::awaited_sum)
          late_[r] += std::max(0.0, times_.clock(rank) - all_have(rank, bucket.ready));
        else
          take_core(rank, all_have(rank, training_.pass));
      }
    }
    if (training_.updates_late) {
      for (int rank = 0; rank < training_.ranks; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        const double device = all_have(rank, training_.pass + training_.behind);
        free_[r] = std::max(device + (training_.replicas > 1 ? training_.meeting : 0.0), told_[r]);
        computing_ += (training_.before + training_.pass + training_.behind) * mean_[r];
        count_updates(rank);
      }
      if (meets(step)) complete_and_average();
      return;
    }
    for (int rank = 0; rank < training_.ranks; ++rank) {
      double device = all_have(rank, training_.pass);
      if (updates_arrivals) {
        device = end_of_updates(rank, device);
        count_updates(rank);
      }
      times_.wait(rank, device);
    }
    meet();
    for (int rank = 0; rank < training_.ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      times_.compute(rank, training_.behind * slowest_[r]);
      computing_ += (training_.before + training_.pass + training_.behind) * mean_[r];
    }
    meet();
    if (training_.result_floats > 0) reduce(training_.result_floats);
    if (training_.buffer_floats > 0)
      timed([&] { among_senders([&](auto& times) { time_broadcast(times, training_.buffer_floats); }); });
    if (meets(step)) average();
    if (training_.scatters) update_and_gather();
  }

  /// How slow the devices of each rank are in a step: they are asked once.
  void look_at_devices(long step) {
    std::swap(slowest_, slowest_before_);
    for (int rank = 0; rank < training_.ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      first_[r] = slowest_[r] = mean_[r] = training_.factor(rank * training_.replicas, step);
      for (int i = 1; i < training_.replicas; ++i) {
        const double factor = training_.factor(rank * training_.replicas + i, step);
        slowest_[r] = std::max(slowest_[r], factor);
        mean_[r] += factor;
      }
      mean_[r] /= training_.replicas;
    }
  }

  /// Buckets that are needed first first: while one is gathered the next one is updated. The next step begins when all
  /// are updated.
  void update_and_gather() {
    arrived_.clear();
    for (const SimulatedBucket& bucket : training_.buckets)
      if (bucket.kind == Kind::gradients)
        arrived_.push_back({bucket.floats, bucket.needed, std::vector<double>(begins_.size())});
    std::stable_sort(arrived_.begin(), arrived_.end(), Arrival::is_needed_earlier);
    for (int rank = 0; rank < training_.ranks; ++rank) free_[static_cast<std::size_t>(rank)] = times_.clock(rank);
    for (Arrival& arrival : arrived_) {
      for (int rank = 0; rank < training_.ranks; ++rank) {
        const auto own = static_cast<double>(part_of(arrival.floats, rank, training_.ranks).count);
        const double seconds = own * training_.update_of_float * slowest_[static_cast<std::size_t>(rank)];
        computing_ += seconds;
        times_.wait(rank, free_[static_cast<std::size_t>(rank)] += seconds);
      }
      timed([&] { time_all_gather(times_, arrival.floats); });
      if (&arrival == &arrived_.back()) times_.finish();
      for (int rank = 0; rank < training_.ranks; ++rank)
        arrival.at[static_cast<std::size_t>(rank)] = times_.clock(rank);
    }
  }

  /// What a pass that updates buckets does: each before it needs it, and as long as that has not come, those that have
  /// left before it. Calls update(arrival, now); needs(arrival) is when the pass comes to the step that reads it.
  template <class Needs, class Update>
  void update_when_needed(int rank, Needs needs, Update update) const {
    std::vector<const Arrival*> by_need, open;
    for (const Arrival& arrival : arrived_) open.push_back(&arrival);
    by_need = open;
    std::stable_sort(by_need.begin(), by_need.end(),
                     [](const Arrival* a, const Arrival* b) { return Arrival::is_needed_earlier(*a, *b); });
    for (const Arrival* needed : by_need)
      while (std::find(open.begin(), open.end(), needed) != open.end()) {
        const double now = needs(*needed);
        const auto next = needed->at[static_cast<std::size_t>(rank)] <= now
                              ? std::find(open.begin(), open.end(), needed)
                              : open.begin();
        update(**next, now);
        open.erase(next);
      }
  }

  /// Whether all ranks' parameters become their mean behind a step.
  bool meets(long step) const {
    const bool averages = training_.exchange == Exchange::parameters || training_.exchange == Exchange::both;
    return averages && !is_one_machine() && (step + 1) % training_.steps_alone == 0;
  }
  void average() {
    timed([&] { time_all_reduce(times_, training_.parameter_floats); });
    if (training_.met_floats > 0) timed([&] { time_broadcast(times_, training_.met_floats); });
  }
  /// The same behind the updates that are still to come.
  void complete_and_average() {
    for (int rank = 0; rank < training_.ranks; ++rank)
      times_.wait(rank, end_of_updates(rank, free_[static_cast<std::size_t>(rank)]));
    arrived_.clear();
    std::fill(spilt_.begin(), spilt_.end(), 0.0);
    average();
    free_ = times_.clocks();
  }

  /// When the rank's device, which is free from `device` on, has updated bucket by bucket, each when it has come.
  double end_of_updates(int rank, double device) const {
    const auto r = static_cast<std::size_t>(rank);
    for (const Arrival& arrival : arrived_)
      device = std::max(device, arrival.at[r]) + seconds_of_update(arrival, slowest_[r]);
    return device;
  }
  void count_updates(int rank) {
    for (const Arrival& arrival : arrived_)
      computing_ += seconds_of_update(arrival, slowest_[static_cast<std::size_t>(rank)]);
  }
  double seconds_of_update(const Arrival& arrival, double slowest) const {
    return static_cast<double>(arrival.floats) * training_.update_of_float * slowest;
  }
  /// The messages of a bucket take their share of the core from the thread that computes until `end`; what is left of
  /// them then does so in the next pass, where that begins before they have come. Else it does not matter.
  void take_core(int rank, double end) {
    const auto r = static_cast<std::size_t>(rank);
    const double messages = times_.clock(rank) - sent_[r], share = training_.core_share;
    const double beside =
        share < 1 ? std::min(messages, std::max(0.0, end - sent_[r]) / (1 - share)) : (end > sent_[r] ? messages : 0.0);
    late_[r] += share * (training_.updates_late ? beside : messages);
    if (training_.updates_late) spilt_[r] += share * (messages - beside);
  }

  void exchange(const SimulatedBucket& bucket) {
    if (training_.scatters && bucket.kind == Kind::gradients)
      timed([&] { time_reduce_scatter(times_, bucket.floats); });
    else if (bucket.kind == Kind::broadcast)
      timed([&] { among_senders([&](auto& times) { time_broadcast(times, bucket.floats); }); });
    else
      reduce(bucket.floats);
  }

  /// Machines by themselves are nothing else than all ranks then.
  bool is_one_machine() const {
    return training_.exchange == Exchange::both && training_.ranks_of_machine > 1 && times_.machines() == nullptr;
  }
  /// Calls time(times) for all ranks, or, where machines train by themselves, for those of each.
  template <class Time>
  void among_senders(Time time) {
    if (training_.exchange != Exchange::both || is_one_machine()) return time(times_);
    const MachineTopology* const machines = times_.machines();
    if (machines == nullptr) return;  // each rank has one to itself
    times_.forget_past();
    for (int machine = 0; machine < machines->count(); ++machine) {
      RankTimesOfGroup inside(times_, machines->ranks(machine), times_.link_inside());
      time(inside);
    }
  }

  void reduce(long floats) {
    timed([&] {
      if (training_.formula != nullptr)
        meet_for(training_.formula(training_.ranks, floats, times_.cost()));
      else if (!training_.by_machines || !has_lines_for(training_.ranks, floats))
        among_senders([&](auto& times) { reduce_by(training_.by_ring, times, floats); });
      else if (times_.machines() == nullptr)  // all ranks are on one, or each has one to itself
        reduce_by(training_.ranks_of_machine > 1 ? training_.rings_inside : training_.rings_between, times_, floats);
      else
        time_parts_of_machines(times_, floats, training_.rings_inside, [&](RankTimesOfGroup& group, long part) {
          reduce_by(training_.rings_between, group, part);
        });
    });
  }
  template <class Times>
  static void reduce_by(bool ring, Times& times, long floats) {
    if (!ring || !has_lines_for(times.size(), floats))
      time_all_reduce(times, floats);
    else if (times.link().is_wire && times.size() > 2)
      time_two_rings(times, floats);
    else
      time_ring(times, floats);
  }

  void meet_for(double seconds) {
    const double last = times_.last();
    for (int rank = 0; rank < training_.ranks; ++rank) times_.wait(rank, last + seconds);
  }

  template <class Call>
  void timed(Call call) {
    for (int rank = 0; rank < training_.ranks; ++rank) communicating_ -= times_.clock(rank);
    call();
    for (int rank = 0; rank < training_.ranks; ++rank) communicating_ += times_.clock(rank);
  }

  /// Replicas wait for each other, and so do ranks that share the parameters.
  void meet() {
    if (training_.replicas == 1 && !training_.meet) return;
    const double last = times_.last();
    for (int rank = 0; rank < training_.ranks; ++rank) {
      if (training_.meet) times_.wait(rank, last);
      times_.compute(rank, training_.meeting);
    }
  }

  const SimulatedTraining& training_;
  RankTimes times_;
  std::vector<Arrival> arrived_;
  // Of each rank: when it begins a step, when it has begun to send a bucket, when it has ended the step before, by how
  // much its pass is late, when results and statistics have come, and by how much messages of a step delay the next.
  std::vector<double> begins_, sent_, free_, late_, told_, spilt_;
  // Of each rank's devices in this step: how slow the slowest one is, in this step and the one before, their mean, and
  // the first one.
  std::vector<double> slowest_, slowest_before_, mean_, first_;
  double computing_ = 0, communicating_ = 0;
};

}  // namespace detail

/// Runs so many steps.
inline SimulatedSteps simulate(const SimulatedTraining& training, int steps) {
  return detail::CollectiveSteps(training).run(steps);
}

}  // namespace tenet
