#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <tenet/comm/shared_memory.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>
#include <vector>

/// Every legal combination of the policies that say how a training is spread, each with one small network, compared
/// with `Single`: to the last bit, up to rounding, or, where workers do not wait for each other, in accuracy. A file of
/// this folder has some strategies; all other axes are listed here. What is legal, `Policies::explanation` says: a
/// policy is tested with all others by being named in its list.
///
/// Policies of what a step computes (precision, memory, convolutions, a batch of one) are no part of it, as what
/// spreads a training does not see them: tests/parallel/single.cpp has all of them with some of each strategy. Nor is
/// the timeline, for which there is train/timeline.cpp.
namespace combinations {

template <class... Policies>
struct List {};
/// That no policy is named. Of a synchronisation it is no combination of its own where a strategy has a usual one: that
/// is in the list by its name.
struct Unnamed {};

// Every axis with every other: of these nothing is left out.
template <class... More>
using SynchronisationsAnd =
    List<More..., tenet::Direct, tenet::AllReduce, tenet::Ring, tenet::Hogwild<8>, tenet::ShardedOptimizer,
         tenet::LocalSgd<3>, tenet::ParameterServer<>, tenet::ParameterServer<tenet::OnRank<1>>,
         tenet::ParameterServer<tenet::OnCpu>, tenet::ParameterServer<tenet::Sharded, tenet::Asynchronous>,
         tenet::ParameterServer<tenet::Sharded, tenet::BoundedStaleness<2>>,
         tenet::Hierarchical<tenet::AllReduce, tenet::Ring>>;
using NamedSynchronisations = SynchronisationsAnd<>;
using AllSynchronisations = SynchronisationsAnd<Unnamed>;
using Shards = List<tenet::WholeBatch, tenet::MicroBatches<2>, tenet::Reproducible>;
using Buckets = List<Unnamed, tenet::BucketBytes<64>>;  // one bucket, or several
using BatchNorms = List<tenet::BatchNormOfWorker, tenet::SyncBatchNorm>;
using Updates = List<tenet::UpdateAfterBackward, tenet::UpdateInBackward>;

/// With batch norm, so that each axis has something to do.
struct Net : tenet::Sequential<tenet::Linear<8, 6>, tenet::BatchNorm1d<6>, tenet::ReLU, tenet::Linear<6, 3>> {};
using Input = tenet::Features<8>;
template <class... Tags>
using TrainerWith = tenet::Trainer<Net, tenet::CrossEntropy, tenet::Sgd, Input, tenet::Cpu<0, 1>, Tags...>;

/// What a combination's numbers are compared with.
enum class Comparison {
  bits,          ///< all those of `Single`, to the last bit
  reproducible,  ///< all those of `Single` with `Reproducible`, to the last bit
  rounded,       ///< those of `Single`, up to rounding
  accuracy       ///< the accuracy of `Single`: workers do not wait for each other
};
enum class Workers { here, threads, processes };

/// What is trained with: batches one after the other, again from the first one on behind the last.
struct Course {
  int batch, steps;
  tenet::Sgd sgd;
  bool even;  ///< ranks have parts of equal size of each batch
  std::vector<float> inputs{};
  std::vector<std::int32_t> targets{};
};

/// Makes the steps of a rank; `step` gives the loss of one.
std::vector<float> losses_of(const Course& course, int rank, int ranks,
                             const std::function<float(const float*, const std::int32_t*, int)>& step);

/// Parameters, running statistics, and the losses of all steps.
template <class... Tags>
std::vector<float> train(const Course& course, int rank, int ranks) {
  // Another seed on every rank: they begin with what rank 0 has.
  TrainerWith<Tags...> trainer{course.sgd, static_cast<std::uint64_t>(3 + rank)};
  const std::vector<float> losses =
      losses_of(course, rank, ranks, [&](const float* inputs, const std::int32_t* targets, int batch) {
        return trainer.step(inputs, targets, batch).loss;
      });
  trainer.synchronize();
  auto& weights = trainer.weights();
  std::vector<float> result(weights.parameters(), weights.parameters() + weights.table.parameter_floats);
  result.insert(result.end(), weights.buffers(), weights.buffers() + weights.table.buffer_floats);
  result.insert(result.end(), losses.begin(), losses.end());
  return result;
}

/// A legal combination.
struct Combination {
  std::string name;
  Comparison comparison;
  Workers workers;
  bool shares_batch;
  std::vector<float> (*train)(const Course&, int rank, int ranks);
};
/// Trains them, and compares; their number.
int check(const std::vector<Combination>& all);

template <class Policy>
const char* name_of() {
  return __PRETTY_FUNCTION__;
}
/// From what `name_of` gives.
std::string joined(std::initializer_list<const char*> names);

struct Count {
  int legal = 0, illegal = 0;
  friend constexpr Count operator+(Count a, Count b) { return {a.legal + b.legal, a.illegal + b.illegal}; }
  friend constexpr bool operator==(Count, Count) = default;
};

/// All combinations that begin with these policies.
template <class... Tags>
struct With {
  template <class Policy>
  using And = std::conditional_t<std::is_same_v<Policy, Unnamed>, With, With<Tags..., Policy>>;

  template <class... Policies, class... Rest>
  static constexpr Count count(List<Policies...>, Rest... rest) {
    return (Count{} + ... + And<Policies>::count(rest...));
  }
  static constexpr Count count() { return is_legal ? Count{1, 0} : Count{0, 1}; }

  template <class... Policies, class... Rest>
  static void add_to(std::vector<Combination>& all, List<Policies...>, Rest... rest) {
    (And<Policies>::add_to(all, rest...), ...);
  }
  static void add_to(std::vector<Combination>& all) {
    if constexpr (is_legal)
      all.push_back(
          {joined({name_of<Tags>()...}), comparison(), workers(), Chosen::BatchNorm::shares_batch, &train<Tags...>});
  }

 private:
  using Chosen = tenet::Policies<Input, tenet::Cpu<0, 1>, Tags...>;
  static constexpr bool is_legal =
      std::is_void_v<typename decltype(Chosen::template explanation<tenet::mistake::Nothing>())::type>;

  static constexpr Comparison comparison() {
    using Synchronisation = typename Chosen::Synchronisation;
    if constexpr (Chosen::Shards::in_all > 0)
      return Comparison::reproducible;
    else if constexpr (std::is_void_v<Synchronisation>)
      return Comparison::bits;
    else if constexpr (tenet::detail::SharesWithoutLocks<Synchronisation> ||
                       tenet::detail::AveragesParameters<Synchronisation>)
      return Comparison::accuracy;
    else if constexpr (tenet::detail::HasServers<Synchronisation>)
      return Synchronisation::in_rounds ? Comparison::rounded : Comparison::accuracy;
    else
      return Comparison::rounded;
  }
  static constexpr Workers workers() {
    if constexpr (!Chosen::has_ranks)
      return Workers::here;
    else
      return std::is_same_v<typename Chosen::Strategy::World, tenet::SharedMemory> ? Workers::processes
                                                                                   : Workers::threads;
  }
};

/// The combinations of a strategy.
template <class Strategy>
struct Of {
  using Synchronisations = std::conditional_t<std::is_void_v<typename Strategy::Synchronisation>, AllSynchronisations,
                                              NamedSynchronisations>;
  static constexpr Count count =
      With<Strategy>::count(Synchronisations{}, Shards{}, Buckets{}, BatchNorms{}, Updates{});

  static void check_all() {
    std::vector<Combination> all;
    With<Strategy>::add_to(all, Synchronisations{}, Shards{}, Buckets{}, BatchNorms{}, Updates{});
    CHECK(check(all) == count.legal);
  }
};

}  // namespace combinations
