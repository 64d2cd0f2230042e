#pragma once

#include <algorithm>
#include <tenet/exec/bucket_order.hpp>
#include <tenet/parallel/shards.hpp>
#include <tenet/parallel/synchronisation.hpp>
#include <vector>

/// What workers tell each other while their passes run, and when each part of it leaves: for whoever plans or predicts
/// a training step instead of running it.
namespace tenet {

struct ExchangedPart {
  enum class Kind : unsigned char {
    gradients,   ///< of a bucket
    results,     ///< become means over all ranks
    sum,         ///< over the batch, for which the pass waits
    statistics,  ///< running ones: those of rank 0, for all
  };

  Kind kind = Kind::gradients;
  int bucket = -1;  ///< its number, of gradients
  long floats = 0;
  int ready = 0;   ///< after so many steps of the program it may leave
  int needed = 0;  ///< the first step of a run that reads one of the bucket's parameters
};

/// Of the training step `Program` with the policies `Chosen`.
template <class Program, class Chosen>
class ExchangePlan {
  using Synchronisation = typename Chosen::Synchronisation;
  static constexpr bool is_cut = detail::is_cut<typename Chosen::Shards>;
  static constexpr bool serves_ranks = Chosen::has_ranks && detail::HasServers<Synchronisation>;

 public:
  /// Whether a bucket is updated when it has come.
  static constexpr bool updates_by_buckets = Chosen::updates_by_buckets() && updates_by_elements<Program>();
  /// Whether ranks have to know how many samples there are before they begin.
  static constexpr bool counts_before = Chosen::Shards::in_all > 0 || Program::is_on_part;

  static constexpr auto buckets = [] {
    constexpr long least = Chosen::Buckets::bucket_bytes / static_cast<long>(sizeof(float));
    if constexpr (!Chosen::sends_buckets())
      return BucketPlan<1>{};
    else if constexpr (updates_by_buckets)
      return plan_exchange<Program, is_cut>(least);
    else
      return plan_buckets(Program::lowered, Program::slots, least);
  }();
  /// Whether the next pass does that, before the first step that reads the bucket's parameters.
  static constexpr bool updates_late = [] {
    if constexpr (updates_by_buckets)
      return can_update_late<Program, is_cut>(buckets);
    else
      return false;
  }();

 private:
  static constexpr int results_at =
      Chosen::updates_by_buckets() && !is_cut ? buckets.first_ready_behind(results_ready<Program>) : buckets.count;
  static constexpr int statistics_at =
      Chosen::has_ranks && !serves_ranks && !Chosen::has_own_memory && Program::writes_buffers
          ? buckets.first_ready_behind(statistics_ready<Program>)
          : buckets.count;
  static constexpr bool agrees = [] {
    if constexpr (!Chosen::has_ranks || detail::TrainsAlone<Synchronisation> ||
                  detail::SharesWithoutLocks<Synchronisation>)
      return false;
    else if constexpr (detail::HasServers<Synchronisation>)
      return Synchronisation::in_rounds;
    else
      return true;
  }();

 public:
  /// Whether they leave before a bucket; else they are exchanged at the end of the step.
  static constexpr bool results_leave = results_at < buckets.count, statistics_leave = statistics_at < buckets.count;
  /// Whether the number of samples is among the results; else, if not before, ranks tell it each other while they run.
  static constexpr bool counts_with_results = results_leave && results_at == 0 && !counts_before;

  /// What leaves before the step has ended, in the order in which it does.
  static std::vector<ExchangedPart> parts() {
    using enum ExchangedPart::Kind;
    std::vector<ExchangedPart> result;
    for (int b = 0; b < buckets.count; ++b) {
      const int ready = buckets.buckets[static_cast<std::size_t>(b)].ready;
      if (b == results_at)
        result.push_back({.kind = results, .floats = Program::result_count + counts_with_results, .ready = ready});
      if (b == statistics_at)
        result.push_back({.kind = statistics, .floats = Program::slots.buffer_floats, .ready = ready});
      buckets.for_each_leaving(b, [&](int leaving) {
        const Bucket& bucket = buckets.buckets[static_cast<std::size_t>(leaving)];
        result.push_back({gradients, leaving, bucket.floats, ready, bucket.needed});
      });
    }
    if constexpr (Program::is_on_part) {
      for (int s = Program::lowered.prepared_steps; s < Program::lowered.first_update; ++s)
        if (const auto& step = Program::lowered.steps[s]; is_sum_over_workers(step))
          result.push_back({.kind = sum, .floats = step.attribute, .ready = s});
      std::stable_sort(result.begin(), result.end(),
                       [](const ExchangedPart& a, const ExchangedPart& b) { return a.ready < b.ready; });
    }
    return result;
  }
  /// What leaves when it has, where ranks tell each other how all of them did.
  static std::vector<ExchangedPart> last_parts() {
    using enum ExchangedPart::Kind;
    std::vector<ExchangedPart> result;
    if constexpr (agrees) {
      constexpr int ready = Program::lowered.used.steps;
      if (!results_leave) result.push_back({.kind = results, .floats = Program::result_count, .ready = ready});
      if (Program::writes_buffers && !statistics_leave)
        result.push_back({.kind = statistics, .floats = Program::slots.buffer_floats, .ready = ready});
    }
    return result;
  }
};

}  // namespace tenet
