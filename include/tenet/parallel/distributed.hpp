#pragma once

// First, so that a message about a mistake begins with few lines of includes.
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/recorded_transport.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/rank_passes.hpp>
#include <tenet/parallel/single.hpp>

namespace tenet {

/// A training step of one rank among several that know of each other by a `Transport` only. Each has its own samples,
/// of any number, and its own parameters, which stay the same on all ranks to the bit: they begin with what rank 0 has,
/// and are updated by the same mean gradient. Results are means over the samples of all ranks; running statistics are
/// those of rank 0.
///
/// A rank may cut its samples into shards. Where that is to give the same bits for any number of ranks, what rank r has
/// is shards r · s to (r + 1) · s of all; so it is for one process if the ranks have equal parts of its batch, in
/// order.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Passes_, class Synchronisation, long bucket_bytes, Transport T>
class DistributedExecution : public Passes_ {
 public:
  using Passes = Passes_;
  /// Whether a step ends before all gradients have come: the next pass waits for a bucket, and updates its parameters,
  /// before the first step that reads them.
  static constexpr bool updates_late =
      !detail::ScattersGradients<Synchronisation> &&
      can_update_late<Program, Passes::is_cut>(plan_exchange<Program, Passes::is_cut>(bucket_bytes / 4));
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T, updates_late>;

  DistributedExecution(typename Passes::Devices& devices, T transport)
      : DistributedExecution(devices, std::move(transport), transport.rank(), transport.size()) {}
  /// `rank` of `ranks`: those that train, where the transport is between some of them.
  DistributedExecution(typename Passes::Devices& devices, T&& transport, int rank, int ranks)
      : Passes(devices, rank, ranks), exchange_(std::move(transport)) {
    static_assert(Passes::updates, "a training step");
    if constexpr (Program::is_on_part)
      this->add_up_with([this](float* numbers, long floats) { exchange_.add_up_in_pass(numbers, floats); });
    if constexpr (updates_late) {
      late_.is_updated.resize(static_cast<std::size_t>(this->size()));
      for (int device = 0; device < this->size(); ++device)
        late_.updates.push_back(std::make_unique<typename Late::Update>(this->executor(device)));
    }
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    if constexpr (updates_late) late_.scalars = scalars;
    Passes::set_scalars(scalars, seed);
  }

  void run(int batch) {
    if constexpr (updates_late) {
      const auto await = [this, is_due = std::exchange(late_.is_due, false)](int device, int b) {
        if (is_due) update_needed(device, b);
      };
      send_gradients(batch, await, [](int) {});
      exchange_.end(*this);
      for (auto& update : late_.updates) {
        update->set_scalars(late_.scalars, 0);
        update->prepare_update();
      }
      late_.is_due = true;
      for (auto& of_device : late_.is_updated) of_device.fill(false);
      late_.step = exchange_.step();
    } else {
      send_gradients(batch, NothingAwaited{}, [this](int device) { update_arrivals(device); });
      exchange_.end(*this);
    }
  }
  /// Waits for the gradients that are still to come, and updates the parameters: for whoever reads these outside of
  /// `run`.
  void complete() {
    if constexpr (updates_late)
      if (std::exchange(late_.is_due, false))
        this->for_all([this](int device) {
          for (int i = 0; i < Exchange::plan.count; ++i)
            update_needed(device, Exchange::plan.by_need[static_cast<std::size_t>(i)]);
        });
  }

 protected:
  /// Forward and backward pass, behind which the gradients become those of all ranks, bucket by bucket; `await` and
  /// `behind` as in `RankPasses::compute`.
  template <class Await, class Behind>
  void send_gradients(int batch, Await await, Behind behind) {
    const float all = exchange_.template begin<typename Passes::Cut>(*this, batch, Passes::gives_results);
    const auto backward = [&](auto* execution, auto prepare, auto wait) {
      float* const gradients = this->memory(Arena::gradients);
      if constexpr (Passes::gives_results)
        exchange_.run(execution, gradients, prepare, wait,
                      [this] { return this->results_at(Exchange::results_leave); });
      else  // they are sums, too
        exchange_.run(execution, gradients, prepare, wait);
    };
    this->compute(batch, all, Exchange::plan, backward, await, behind);
  }

  Exchange exchange_;

 private:
  /// What a device of the rank does of the update: of each bucket when it has come.
  void update_arrivals(int device) {
    if constexpr (updates_by_elements<Program>()) {
      this->execution(device).prepare_update();
      for (int b = 0; b < Exchange::plan.count; ++b) {
        this->behind_first(device, {"gradients of all ranks", b, exchange_.step()}, [&] { exchange_.await(b); });
        update_bucket(device, b, this->execution(device));
      }
    } else if (device == 0) {
      exchange_.complete();
      this->update_all();
    }
  }
  /// The same within the next pass, which needs bucket b. As long as that has not come, those that have left before it
  /// are updated in its place, as they come: the time is there, and will not be later. All devices need all of each.
  void update_needed(int device, int b) {
    auto& is_updated = late_.is_updated[index(device)];  // each has its own: the first one may be ahead
    while (!is_updated[index(b)]) {
      const auto choose = [&] {
        late_.next = b;
        for (int i = 0; !exchange_.has_come(b) && late_.next == b && exchange_.plan.leaving_at(i) != b; ++i)
          if (const int before = exchange_.plan.leaving_at(i); !is_updated[index(before)]) late_.next = before;
        exchange_.await(late_.next);
      };
      this->behind_first(device, {"gradients of all ranks", b, late_.step}, choose);
      const int next = late_.next;
      update_bucket(device, next, *late_.updates[index(device)]);
      is_updated[index(next)] = true;
      this->meet(device, {"update of bucket", next, late_.step});
    }
  }
  template <class Updating>
  void update_bucket(int device, int b, const Updating& updating) {
    const Bucket& bucket = Exchange::plan.buckets[index(b)];
    this->update(device, updating, {bucket.first, bucket.floats},
                 Program::state_count > 0 ? this->memory(Arena::states) + bucket.first : nullptr,
                 Program::slots.parameter_floats);
  }
  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// The optimizer by itself: what it keeps for an update outlives the pass, and its settings the next `set_scalars`.
  struct Late {
    using Kernels = typename Program::Kernels;
    using Update = Execution<tenet::Program<typename Program::Definition::template UpdateFor<Kernels>>>;

    std::vector<std::unique_ptr<Update>> updates{};  // of each device
    const float* scalars = nullptr;
    long step = 0;                                                                               // whose update
    bool is_due = false;                                                                         // is still to come
    std::vector<std::array<bool, static_cast<std::size_t>(Exchange::plan.count)>> is_updated{};  // by device
    int next = 0;  // of the buckets; the first device chooses
  };
  struct Never {};
  [[no_unique_address]] std::conditional_t<updates_late, Late, Never> late_;
};

// On a device with a memory of its own: parallel/resident_ranks.hpp, a part of tenet/cuda.hpp.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentRankStep;

namespace detail {

template <class Program, class Policies>
struct PassesOfRank {
  using type = RankPasses<Program, typename Policies::Shards>;
};
template <class Program, class Policies>
  requires(Policies::Strategy::has_replicas)
struct PassesOfRank<Program, Policies> {
  using type = typename Policies::Strategy::Inside::template PassesOfRank<Program, Policies>;
};

template <class Program, class Policies, class T, class Synchronisation = typename Policies::Synchronisation>
struct StepOfRank {
  using type = DistributedExecution<Program, typename PassesOfRank<Program, Policies>::type, Synchronisation,
                                    Policies::Buckets::bucket_bytes, T>;
};
template <class Program, class Policies, class T, class Synchronisation>
  requires HasStepOfRank<Synchronisation>
struct StepOfRank<Program, Policies, T, Synchronisation> {
  using type = typename Synchronisation::template StepOfRank<Program, typename PassesOfRank<Program, Policies>::type,
                                                             Policies::Buckets::bucket_bytes, T>;
};

/// This rank's transport. Where the devices' work is recorded, so are its messages.
template <class World, class Devices>
auto connect(Devices& devices) {
  if constexpr (HasTimelineRow<std::remove_reference_t<decltype(devices.executor())>>) {
    auto transport = World::connect();
    TimelineRow& device = *devices.executor().timeline_row;
    device.recorder().describe_rank(transport.rank(), transport.size());
    return RecordedTransport(std::move(transport), device, "communication");
  } else {
    return World::connect();
  }
}
template <class World, class Devices>
using Connection = decltype(connect<World>(std::declval<Devices&>()));

/// A training step that needs the transport as well as the devices. Gradients lie where they are sent from, and others
/// may read them there: until a collective's `finish`, or a server's answer. A step ends behind these, or, where
/// parameters come later, behind the results of all ranks: so the next backward pass finds nobody who still reads.
template <class Program, class Policies>
class DistributedStep
    : OwnNumbers,
      public StepOfRank<Program, Policies,
                        Connection<typename Policies::Strategy::World, typename Policies::Devices>>::type {
 public:
  using Devices = typename Policies::Devices;
  using World = typename Policies::Strategy::World;
  using Base = typename StepOfRank<Program, Policies, Connection<World, Devices>>::type;

  explicit DistributedStep(Devices& devices) : DistributedStep(devices, connect<World>(devices)) {}

  /// Memory for the gradients: `bind` is to be told of it.
  float* own_gradients() const { return OwnNumbers::data(); }

 private:
  DistributedStep(Devices& devices, Connection<World, Devices> transport)
      : OwnNumbers(transport, Program::slots.parameter_floats, Policies::Synchronisation::sends_buckets),
        Base(devices, std::move(transport)) {}
};

template <class Program>
concept TrainingStep = Program::lowered.after_update > Program::lowered.first_update;

template <class Program, class Policies>
struct ExecutionOfRank {
  using type = typename Policies::Strategy::Inside::template ExecutionOfRank<Program, Policies>;
};
template <TrainingStep Program, class Policies>
struct ExecutionOfRank<Program, Policies> {
  using type = DistributedStep<Program, Policies>;
};

/// The same on devices with memories of their own; the synchronisation's own, where it has one.
template <class Synchronisation, class Program, class Policies, class T>
using ResidentStepBy = typename Synchronisation::template ResidentStepOfRank<Program, Policies::Buckets::bucket_bytes,
                                                                             T, typename Policies::Shards>;
template <class Program, class Policies, class T>
struct ResidentStep {
  using type = ResidentRankStep<Program, typename Policies::Synchronisation, Policies::Buckets::bucket_bytes, T,
                                typename Policies::Shards>;
};
template <class Program, class Policies, class T>
  requires(Policies::Strategy::has_replicas)
struct ResidentStep<Program, Policies, T> {
  using type = typename Policies::Strategy::Inside::template ResidentStepOfRank<Program, Policies, T>;
};
template <class Program, class Policies, class T>
  requires(!Policies::Strategy::has_replicas) &&
          requires { typename ResidentStepBy<typename Policies::Synchronisation, Program, Policies, T>; }
struct ResidentStep<Program, Policies, T> {
  using type = ResidentStepBy<typename Policies::Synchronisation, Program, Policies, T>;
};
template <class Program, class Policies>
class ResidentStepOfRank
    : public ResidentStep<Program, Policies,
                          Connection<typename Policies::Strategy::World, typename Policies::Devices>>::type {
 public:
  using World = typename Policies::Strategy::World;
  using Base = typename ResidentStep<Program, Policies, Connection<World, typename Policies::Devices>>::type;

  explicit ResidentStepOfRank(typename Policies::Devices& devices) : Base(devices, connect<World>(devices)) {}
};
template <TrainingStep Program, class Policies>
  requires HasOwnMemory<typename Program::Kernels::Executor>
struct ExecutionOfRank<Program, Policies> {
  using type = ResidentStepOfRank<Program, Policies>;
};

}  // namespace detail

/// On ranks that are processes, on one machine or many. Each is given its own samples (`DistributedSampler`) and has
/// its own copy of the parameters; a step's gradient is the mean over the samples of all ranks. `World` says how they
/// reach each other: `World::connect()` makes a `Transport` of its own for each training. Every rank makes the same
/// trainers in the same order and takes the same number of steps; inference and evaluation are each rank's own.
///
/// `Inside` says what a rank is: one device, or the replicas of a `DataParallel`, which share the rank's parameters and
/// its samples.
template <class World_, class Inside_ = Single>
struct Distributed {
  using Inside = Inside_;
  static constexpr int replicas = Inside::replicas;
  static constexpr bool has_replicas = !std::is_same_v<Inside, Single>;
  static constexpr bool is_known_inside = !has_replicas || requires { requires Inside::replicates; };
  using World = World_;
  using Synchronisation = AllReduce;
  template <class Device, class Kernels>
  using Devices = typename Inside::template Devices<Device, Kernels>;
  template <class Definition>
  using DefinitionOf = Definition;
  template <class Program, class Policies>
  using ExecutionOf = typename detail::ExecutionOfRank<Program, Policies>::type;
};

}  // namespace tenet
