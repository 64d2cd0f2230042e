#pragma once

#include <tenet/comm/simulated_transport.hpp>
#include <tenet/core/function.hpp>
#include <tenet/exec/step_work.hpp>
#include <tenet/parallel/device_turns.hpp>
#include <tenet/parallel/exchange_plan.hpp>
#include <tenet/parallel/modelled_step.hpp>
#include <tenet/parallel/shards.hpp>
#include <tenet/parallel/simulated_collectives.hpp>
#include <tenet/parallel/simulated_servers.hpp>
#include <tenet/parallel/simulated_turns.hpp>
#include <tenet/parallel/simulated_updates.hpp>
#include <tenet/parallel/slowness.hpp>
#include <tenet/parallel/synchronisation.hpp>

/// What a training step takes on devices and networks that are not there. Not part of tenet/tenet.hpp.
namespace tenet {

/// A world for trainers that are only asked for the time of a step: Distributed<Imagined>.
struct Imagined {
  static SimulatedTransport connect();  // defined nowhere
};

struct StepTimeOptions {
  int workers = 0;           ///< devices of all ranks together; 0: those of one rank
  int batch_of_worker = 32;  ///< samples of each device in a step; of devices that share a program, of all of them
  SimulatedLink link{};      ///< between ranks
  int ranks_of_machine = 1;  ///< so many consecutive ranks share a machine, between which links are others:
  SimulatedLink inside_machine{.latency = 1e-6, .bytes_per_second = 1e10};
  /// Between devices of one rank: what a message costs, and how fast one copies.
  SimulatedLink inside{.latency = 1e-6, .bytes_per_second = 1e10};
  Machine machine{};
  /// What a core reads or writes of numbers that others write meanwhile: `Hogwild`'s. 0: as much as it copies.
  double shared_bytes_per_second = 0;
  /// Seconds until a communication thread that has had nothing to do begins with a bucket: the operating system's.
  double waking = 0;
  /// Of the time in which messages of a rank's buckets are under way: the share that its communication thread takes
  /// from the thread that computes. 0: a network card moves them. 1: both threads have one core, which copies and adds.
  /// Of parameter servers: the share of what the thread takes to send, to receive and to serve.
  double core_share = 0;
  /// What a message of parameter servers costs their threads, besides what its numbers take.
  double handling = 0;
  /// What it costs whoever sends one to wake a thread that sleeps, where ranks share memory.
  double ringing = 0;
  /// Measured, of one worker by itself with `batch_of_worker` samples: the model's steps are stretched to take so long
  /// together. 0: nothing is known.
  double seconds_of_step = 0;
  /// What each step of the program takes for so many samples, instead of the model: `measured_seconds_of_steps`, say.
  Function<std::vector<double>(int samples)> seconds_of_steps{};
  /// How many times as long as others a worker takes to compute in a step; none: 1.
  Function<double(int worker, long step)> slowness{};
  int steps = 0;  ///< that are simulated; 0: 4, and 40 where workers are not equally quick
};

/// The mean of steps that follow each other. Times are seconds.
struct StepTime {
  double forward = 0, backward = 0, update = 0;  ///< of a worker by itself with its samples
  double communication = 0;  ///< of a rank's step: something is under way, or waited for from other ranks
  double hidden = 0;         ///< of that, beside what the rank computes
  double exposed = 0;        ///< for so long the rank does not compute
  double step = 0;
  double samples_per_second = 0;  ///< of all workers
  double efficiency = 0;          ///< samples a second, over `workers` times those of a worker by itself
  int workers = 0;
};

namespace detail {

template <class Trainer>
class StepTimePrediction {
 public:
  explicit StepTimePrediction(StepTimeOptions options) : options_(std::move(options)) {
    if (options_.workers == 0) options_.workers = devices;
    if (options_.batch_of_worker < 1)
      fail("predict_step_time", "batch_of_worker", "at least one", options_.batch_of_worker);
    if (options_.workers < 0 || options_.workers % devices != 0 || (!has_ranks && options_.workers != devices))
      fail("predict_step_time", "workers",
           (has_ranks ? "a multiple of " : "") + std::to_string(devices) + ", as the strategy says",
           std::to_string(options_.workers));
    if (!(options_.core_share >= 0 && options_.core_share <= 1))
      fail("predict_step_time", "core_share", "from 0 to 1", std::to_string(options_.core_share));
    if (options_.ranks_of_machine < 1)
      fail("predict_step_time", "ranks_of_machine", "at least one", options_.ranks_of_machine);
    ranks_ = options_.workers / devices;
    if (Shards::in_all > 0 && Shards::in_all % options_.workers != 0)
      fail("Reproducible", "number of workers", "1, 2, 4 or 8", options_.workers);
  }

  StepTime run() {
    look_at_one_worker();
    const bool differ = static_cast<bool>(options_.slowness);
    const int skipped = 4 + (differ && staleness() < 64 ? static_cast<int>(staleness()) : 0);
    // Ranks that meet after some steps only: whole rounds of these.
    const int round = traffic.steps, counted = options_.steps > 0 ? options_.steps : differ ? 40 : 4;
    const int before = (skipped + round - 1) / round * round, steps = before + (counted + round - 1) / round * round;
    const SimulatedSteps found = [&] {
      if constexpr (shares_program)
        return simulate(turns(), steps);
      else if constexpr (SharesWithoutLocks<Synchronisation>)
        return simulate(updates(), steps);
      else if constexpr (serves_ranks)
        return simulate(describe(), servers_of(), steps);
      else
        return simulate(describe(), steps);
    }();

    StepTime result = alone_;
    const double of_rank = 1.0 / (static_cast<double>(found.ranks()) * steps);
    const double rate = alone_run() ? found.rate_while_all_run(before) : found.rate(before);
    result.workers = options_.workers;
    result.step = found.ranks() / rate;
    result.communication = found.communicating * of_rank;
    result.exposed = std::max(0.0, result.step - found.computing * of_rank);
    result.hidden = std::max(0.0, result.communication - result.exposed);
    const double batches = shares_program ? ranks_ : options_.workers;
    result.samples_per_second = options_.batch_of_worker * batches / result.step;
    const double alone = alone_.forward + alone_.backward + alone_.update;
    result.efficiency = alone * batches / (result.step * options_.workers);
    return result;
  }

 private:
  using Program = typename Trainer::Training;
  using Chosen = typename Trainer::Chosen;
  using Synchronisation = typename Chosen::Synchronisation;
  using Strategy = typename Chosen::Strategy;
  using Shards = typename Chosen::Shards;
  static constexpr bool has_ranks = Chosen::has_ranks, is_cut = detail::is_cut<Shards>;
  static constexpr int replicas = Strategy::replicas;
  static constexpr bool shares_program = ModelledStep<Trainer>::shares_program;
  static constexpr int devices = shares_program ? Program::order.devices : replicas;  // of a rank
  static constexpr bool serves_ranks = has_ranks && HasServers<Synchronisation>;
  using Exchange = ExchangePlan<Program, Chosen>;
  static constexpr double bytes = sizeof(float);
  static constexpr Traffic traffic = Chosen::traffic();
  static constexpr int first = Program::lowered.prepared_steps, first_update = Program::lowered.first_update,
                       after_update = Program::lowered.after_update, all = Program::lowered.used.steps;
  static constexpr double floats = static_cast<double>(Program::slots.parameter_floats);

  static constexpr long staleness() {
    if constexpr (serves_ranks)
      return Synchronisation::Consistency::consistency.staleness;
    else
      return 0;
  }

  /// Whether ranks go on without waiting for all others.
  static constexpr bool alone_run() {
    if constexpr (serves_ranks)
      return !Synchronisation::in_rounds;
    else
      return has_ranks && SharesWithoutLocks<Synchronisation>;
  }

  /// What part of the update each of a process's devices does, or the one that does most of it.
  static constexpr double part_of_update() { return updates_by_elements<Program>() ? part_of_parameters() : 1; }
  /// Of how many of the parameters that are. Where each has its own, of all of them; unless these have an owner.
  static constexpr double part_of_parameters() {
    if constexpr (Chosen::has_own_memory && !UpdatesParts<Synchronisation>) {
      return 1;
    } else if constexpr (requires { typename Synchronisation::Place; }) {
      using Place = typename Synchronisation::Place;
      return static_cast<double>(Place::part(1L << 40, Place::least_replicas - 1, replicas).count) /
             static_cast<double>(1L << 40);
    } else {
      return 1.0 / replicas;
    }
  }

  /// Seconds of each step of the program for so many samples.
  std::vector<double> steps_for(int samples) const {
    if (!options_.seconds_of_steps) return seconds_of_steps<Program>(options_.machine, samples);
    std::vector<double> steps = options_.seconds_of_steps(samples);
    if (static_cast<int>(steps.size()) != Program::lowered.used.steps)
      fail("predict_step_time", "seconds_of_steps", std::to_string(Program::lowered.used.steps) + " steps",
           std::to_string(steps.size()));
    return steps;
  }

  static double sum_of(const std::vector<double>& steps, int from, int to) {
    double sum = 0;
    for (int s = from; s < to; ++s) sum += steps[static_cast<std::size_t>(s)];
    return sum;
  }
  static bool updates_in(int step) { return step >= first_update && step < after_update; }

  /// One worker by itself, and by how much the model errs.
  void look_at_one_worker() {
    steps_alone_ = steps_for(options_.batch_of_worker);
    const double whole = sum_of(steps_alone_, first, all);
    if (options_.seconds_of_step > 0 && whole > 0) scale_ = options_.seconds_of_step / whole;
    const std::vector<StepWork> work = work_of_steps<Program>();
    for (int s = first; s < all; ++s) {
      const auto at = static_cast<std::size_t>(s);
      (updates_in(s)         ? alone_.update
       : work[at].is_forward ? alone_.forward
                             : alone_.backward) += scale_ * steps_alone_[at];
    }
  }

  /// Devices that share a program: each step on its device, the optimizer's steps by parameters.
  SimulatedTurns turns() const {
    const ProgramTurns program = program_turns<Program>();
    SimulatedTurns result{.of = program.of,
                          .waiting = options_.inside.latency,
                          .meeting = options_.inside.latency,
                          .slowness = options_.slowness};
    for (int d = 0; d < devices; ++d) {
      std::vector<double>& seconds = result.seconds.emplace_back(steps_alone_);
      for (double& step : seconds) step *= scale_;
      if (program.shared_update < 0) continue;
      double shared = 0, own = 0;
      for (int s = first_update; s < after_update; ++s)
        if (is_over_parameters<Program>(s)) shared += scale_ * steps_alone_[static_cast<std::size_t>(s)];
      for (const FloatRange& range : program.updated[static_cast<std::size_t>(d)])
        own += static_cast<double>(range.count);
      seconds[static_cast<std::size_t>(program.shared_update)] = shared * own / floats;
    }
    return result;
  }

  /// Updates without waiting. Each reads the parameters, keeps a copy, changes and writes them; a worker's first one in
  /// a step reads them before its pass, too. What another worker has written last, as it has of (w - 1)/w of the
  /// updates of w workers, comes out of its cache.
  SimulatedUpdates updates() const {
    constexpr int samples = Synchronisation::samples_of_update;
    const int batch = options_.batch_of_worker * replicas;
    const double copied = 2 * bytes * floats / options_.machine.bytes_per_second,
                 shared = options_.shared_bytes_per_second > 0 ? bytes * floats / options_.shared_bytes_per_second
                                                               : copied / 2,
                 others = static_cast<double>(options_.workers - 1) / options_.workers,
                 contention = others * bytes * floats / options_.inside.bytes_per_second;
    const auto seconds_of_update = [&](int count) {
      return scale_ * sum_of(steps_for(count), first, all) + 2 * shared + copied + contention;
    };
    SimulatedUpdates result{.ranks = ranks_,
                            .replicas = replicas,
                            .updates = (batch + samples - 1) / samples,
                            .slowness = options_.slowness};
    result.seconds = seconds_of_update(std::min(samples, batch));
    result.last = batch % samples == 0 ? result.seconds : seconds_of_update(batch % samples);
    result.first = shared + contention;
    result.meeting = replicas > 1 ? options_.inside.latency : 0;
    if (has_ranks) result.behind = shared;
    return result;
  }

  SimulatedTraining describe() const {
    // The pieces of its batch, one after the other.
    const int pieces = Shards::in_all > 0 ? Shards::in_all / options_.workers : Shards::of_worker;
    const int samples = (options_.batch_of_worker + pieces - 1) / pieces;
    const std::vector<double> steps = pieces == 1 ? steps_alone_ : steps_for(samples);
    const double memory = options_.machine.bytes_per_second, pass = scale_ * sum_of(steps, first, first_update),
                 rest = scale_ * sum_of(steps, after_update, all),
                 add = is_cut ? (pieces > 1 ? 3 : 2) * bytes / memory : 0;

    SimulatedTraining training;
    training.ranks = ranks_;
    training.replicas = replicas;
    training.link = options_.link;
    training.ranks_of_machine = options_.ranks_of_machine;
    training.inside = options_.inside_machine;
    training.waking = options_.waking;
    training.core_share = options_.core_share;
    training.slowness = options_.slowness;
    training.parameter_floats = Program::slots.parameter_floats;
    training.before = (pieces - 1) * (pass + rest + add * floats);
    training.pass = pass;
    training.behind = rest;
    training.meeting = replicas > 1 ? options_.inside.latency : 0;
    training.scatters = traffic.gradients == &scatter_moves;
    if constexpr (ScattersGradients<Synchronisation> || Exchange::updates_by_buckets)
      training.update_of_float =
          (alone_.update / floats + (replicas > 1 ? 2 * bytes / memory : 0)) / replicas;  // sums of another device
    else if constexpr (!serves_ranks)
      training.behind += alone_.update * part_of_update();
    training.updates_late = Exchange::updates_late;
    const double of_float = add + (has_ranks && replicas > 1 ? (replicas + 1) * bytes / memory : 0);
    for (const ExchangedPart& part : Exchange::parts())
      training.buckets.push_back({part.floats, scale_ * sum_of(steps, first, part.ready),
                                  seconds_before(part, of_float), kind_of(part),
                                  scale_ * sum_of(steps, first, part.needed)});
    if constexpr (std::is_void_v<Synchronisation>) {
      // There is nothing to exchange.
    } else if constexpr (!has_ranks) {
      if constexpr (Chosen::sends_buckets()) {
        // Each device is a rank of a network of threads.
        training.ranks = replicas;
        training.replicas = 1;
        training.link = options_.inside;
        training.ranks_of_machine = 1;
        training.exchange = SimulatedTraining::Exchange::buckets;
        training.meet = true;
      } else {
        training.behind =
            rest + part_of_update() * alone_.update + part_of_parameters() * replicas * floats * bytes / memory;
        if (is_cut) training.behind += add * floats;
      }
    } else {
      training.shares_first = true;
      training.result_floats = Exchange::results_leave ? 0 : Program::result_count;
      training.buffer_floats =
          Program::writes_buffers && !Exchange::statistics_leave ? Program::slots.buffer_floats : 0;
      // What an update of everything reads: the gradients of all devices; sums that another device has written.
      const double read = TrainsAlone<Synchronisation>                   ? replicas
                          : serves_ranks || training.update_of_float > 0 ? 0
                                                                         : 2;
      if (replicas > 1) training.behind += read * floats * bytes / memory / replicas;
      training.steps_alone = traffic.steps;
      if constexpr (AveragesParameters<Synchronisation>)
        training.met_floats = Program::writes_buffers ? Program::slots.buffer_floats : 0;
      if constexpr (TrainsAlone<Synchronisation>) {
        training.exchange = SimulatedTraining::Exchange::parameters;
        training.result_floats = training.buffer_floats = 0;
        training.behind += add * floats;
      } else {
        training.exchange = traffic.inside ? SimulatedTraining::Exchange::both : SimulatedTraining::Exchange::buckets;
        training.counts_before = Exchange::counts_before;
        training.counts_during = !Exchange::counts_before && !Exchange::counts_with_results;
      }
    }
    training.by_ring = traffic.gradients == &ring_moves;
    training.formula = ModelledStep<Trainer>::formula();
    if constexpr (HasLevels<Synchronisation> && !AveragesParameters<Synchronisation>) {
      training.by_machines = true;
      training.rings_inside = Synchronisation::rings_inside;
      training.rings_between = Synchronisation::rings_between;
    }
    return training;
  }

  /// What devices of a rank do with numbers before one of them sends these.
  double seconds_before(const ExchangedPart& part, double of_float) const {
    if (part.kind == ExchangedPart::Kind::gradients) return of_float * static_cast<double>(part.floats);
    if (part.kind != ExchangedPart::Kind::sum || replicas == 1) return 0;
    return 2 * (options_.inside.latency + options_.inside.busy(part.floats));
  }
  static SimulatedBucket::Kind kind_of(const ExchangedPart& part) {
    constexpr SimulatedBucket::Kind kinds[]{SimulatedBucket::Kind::gradients, SimulatedBucket::Kind::sum,
                                            SimulatedBucket::Kind::awaited_sum, SimulatedBucket::Kind::broadcast};
    return kinds[static_cast<int>(part.kind)];
  }

  auto servers_of() const {
    const double memory = options_.machine.bytes_per_second;
    return SimulatedServers{Synchronisation::Consistency::consistency,
                            Synchronisation::Place::servers(),
                            3 * bytes / memory,
                            alone_.update / floats,
                            2 * bytes / memory,
                            options_.handling,
                            options_.ringing};
  }

  StepTimeOptions options_;
  int ranks_ = 1;
  std::vector<double> steps_alone_;  // of the program, as they are measured or modelled
  double scale_ = 1;
  StepTime alone_;
};

}  // namespace detail

/// The step time of a trainer's type for any number of workers, from its compiled program, its policies, and constants
/// of machine and network:
///
///     using Rank = Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<Imagined>, Ring>;
///     const StepTime found = predict_step_time<Rank>({.workers = 4096, .link = {1e-5, 1.25e9}});
///
/// Nothing is trained: the program's steps, its plan of buckets, and the messages of its policies move clocks. What the
/// model is, and what it leaves out: docs/simulator.md. Throws `Error` where the policies do not allow so many workers.
template <class Trainer>
StepTime predict_step_time(StepTimeOptions options = {}) {
  using Modelled = detail::ModelledStep<Trainer>;
  static_assert(Modelled::knows_strategy,
                "predict_step_time: there is no model of this strategy, which is none of the library's");
  static_assert(Modelled::knows_step,
                "predict_step_time: there is no model of this synchronisation, whose training step is its own");
  static_assert(Modelled::knows_traffic,
                "predict_step_time: there is no model of this synchronisation: its traffic does not say how long "
                "what it moves takes");
  static_assert(!Modelled::serves_other_memory,
                "predict_step_time: there is no model of servers in the memory of a host whose devices have others");
  static_assert(!Modelled::has_sparse_tables, "predict_step_time: there is no model of sparse tables");
  return detail::StepTimePrediction<Trainer>(std::move(options)).run();
}

/// For `seconds_of_steps`: the trainer's program is run on this machine, on one device with as many threads as it has.
template <class Trainer>
auto measured_on_this_machine(int rounds = 10) {
  return [rounds](int samples) {
    return measured_seconds_of_steps<typename Trainer::Device, typename Trainer::Training>(samples, rounds);
  };
}

}  // namespace tenet
