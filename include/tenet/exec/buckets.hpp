#pragma once

#include <algorithm>
#include <array>
#include <tenet/exec/lowered.hpp>
#include <tenet/graph/slots.hpp>

/// When gradients leave: which parts of their arena are complete after which step.
namespace tenet {

/// Gradients that lie one after the other and are sent together.
struct Bucket {
  long first = 0, floats = 0;  ///< in the arena `gradients`
  /// After so many steps of the program all of them are there, and no step before the update reads them any more.
  int ready = 0;
  int needed = 0;  ///< the first step of a run that reads one of their parameters
};

/// Buckets in the order in which they are ready.
template <int Most>
struct BucketPlan {
  std::array<Bucket, Most> buckets{};
  std::array<int, Most> by_need{};  ///< their numbers, in the order in which a run needs their parameters
  int count = 0;
  int in_turn = 0;  ///< so many leave when they are ready; those behind them when all are, in the order of `by_need`

  /// Calls leave(i) for each bucket i that leaves when bucket b is ready.
  template <class Leave>
  constexpr void for_each_leaving(int b, Leave leave) const {
    if (b < in_turn) leave(b);
    for (int i = 0; b + 1 == count && i < count; ++i)
      if (const int late = by_need[static_cast<std::size_t>(i)]; late >= in_turn) leave(late);
  }

  /// The bucket that leaves as number i of all.
  constexpr int leaving_at(int i) const {
    if (i < in_turn) return i;
    int left = i - in_turn, at = 0;
    while (by_need[static_cast<std::size_t>(at)] < in_turn || left-- > 0) ++at;
    return by_need[static_cast<std::size_t>(at)];
  }

  /// The first bucket that is ready no earlier than behind so many steps; `count`: there is none.
  constexpr int first_ready_behind(int steps) const {
    int b = 0;
    while (b < count && buckets[static_cast<std::size_t>(b)].ready < steps) ++b;
    return b;
  }

  constexpr const Bucket& needed_at(int i) const {
    return buckets[static_cast<std::size_t>(by_need[static_cast<std::size_t>(i)])];
  }

  constexpr const Bucket* begin() const { return buckets.data(); }
  constexpr const Bucket* end() const { return buckets.data() + count; }
};

namespace detail {

/// Calls used(place, step) for each place that a step before step `last` reads or writes.
template <class Lowered, class Used>
constexpr void for_each_use(const Lowered& lowered, int last, Used used) {
  for (int s = 0; s < last; ++s) {
    const auto& step = lowered.steps[s];
    const auto region_used = [&](int region, bool stores) {
      if (region < 0) return;
      const RegionCall& call = lowered.calls[region];
      for (int k = 0; k < call.inputs; ++k) used(lowered.inputs[call.first_input + k].place, s);
      for (int k = 0; stores && k < call.outputs; ++k) used(lowered.outputs[call.first_output + k], s);
    };
    if (step.kind != Kind::element) used(step.result, s);
    for (int j = 0; j < step.operand_count; ++j) used(step.operands[j], s);
    region_used(step.region, step.kind == Kind::element);  // in front of a sum it stores nothing
    region_used(step.epilogue, true);
  }
}

/// Calls used(i, step) for each step before the update that reads or writes what slot i, a parameter's, has in an
/// arena: the parameter, or its gradient.
template <class Lowered, int Slots, class Used>
constexpr void for_each_use(const Lowered& lowered, const SlotTable<Slots>& slots, Arena arena, Used used) {
  for_each_use(lowered, lowered.first_update, [&](const Place& place, int step) {
    for (int i = 0; i < slots.count && place.arena == arena; ++i)
      if (slots.slots[i].kind == SlotKind::parameter && slots.slots[i].offset == place.offset) used(i, step);
  });
}

/// The first step that reads each slot's parameter; `first_update` where none does.
template <class Lowered, int Slots>
constexpr auto parameters_needed(const Lowered& lowered, const SlotTable<Slots>& slots) {
  std::array<int, Slots + 1> needed{};
  needed.fill(lowered.first_update);
  for_each_use(lowered, slots, Arena::parameters, [&](int i, int step) {
    if (step < needed[i]) needed[i] = step;
  });
  return needed;
}

/// The place of each slot's gradient, and after how many steps it is there and read by none before the update: a
/// gradient that several parameters share is copied.
template <class Lowered, int Slots>
constexpr auto gradients_ready(const Lowered& lowered, const SlotTable<Slots>& slots) {
  std::array<int, Slots + 1> ready{};
  for_each_use(lowered, slots, Arena::gradients, [&](int i, int step) { ready[i] = step + 1; });
  return ready;
}

/// How often steps before the update write or read the place of each slot's gradient.
template <class Lowered, int Slots>
constexpr auto gradient_uses(const Lowered& lowered, const SlotTable<Slots>& slots) {
  std::array<int, Slots + 1> uses{};
  for_each_use(lowered, slots, Arena::gradients, [&](int i, int) { ++uses[i]; });
  return uses;
}

/// After how many steps no step reads or writes one of these places any more.
template <class Lowered, class IsOne>
constexpr int last_used(const Lowered& lowered, IsOne is_one) {
  int steps = 0;
  for_each_use(lowered, lowered.used.steps, [&](const Place& place, int step) {
    if (is_one(place)) steps = step + 1;
  });
  return steps;
}

}  // namespace detail

/// After how many steps of a program its results are there.
template <class Program>
inline constexpr int results_ready = detail::last_used(Program::lowered, [](const Place& place) {
  const auto end = Program::results.begin() + Program::result_count;
  return std::find(Program::results.begin(), end, place) != end;
});
/// And its running statistics.
template <class Program>
inline constexpr int statistics_ready =
    detail::last_used(Program::lowered, [](const Place& place) { return place.arena == Arena::buffers; });

/// Backward finds the last layers' gradients first, and gradients lie in the order of their layers: buckets are filled
/// from the end of the arena on, with at least `bucket_floats` numbers, but for the last one.
template <class Lowered, int Slots>
constexpr auto plan_buckets(const Lowered& lowered, const SlotTable<Slots>& slots, long bucket_floats) {
  BucketPlan<Slots + 1> plan;
  const auto ready = detail::gradients_ready(lowered, slots);
  const auto needed = detail::parameters_needed(lowered, slots);
  long end = slots.parameter_floats;
  int latest = 0, earliest = lowered.first_update;
  for (int i = slots.count - 1; i >= 0; --i) {
    if (slots.slots[i].kind != SlotKind::parameter) continue;
    if (ready[i] > latest) latest = ready[i];
    if (needed[i] < earliest) earliest = needed[i];
    const long first = slots.slots[i].offset;
    if (end - first < bucket_floats && first > 0) continue;
    plan.buckets[plan.count++] = {first, end - first, latest, earliest};
    end = first;
    latest = 0;
    earliest = lowered.first_update;
  }
  for (int i = 1; i < plan.count; ++i)
    for (int j = i; j > 0 && plan.buckets[j].ready < plan.buckets[j - 1].ready; --j)
      std::swap(plan.buckets[j], plan.buckets[j - 1]);
  plan.in_turn = plan.count;
  for (int i = 0; i < plan.count; ++i) plan.by_need[i] = i;
  for (int i = 1; i < plan.count; ++i)
    for (int j = i; j > 0 && plan.needed_at(j).needed < plan.needed_at(j - 1).needed; --j)
      std::swap(plan.by_need[j], plan.by_need[j - 1]);
  return plan;
}

/// For whom all parameters are there.
struct NothingAwaited {
  void operator()(int) const {}
};

/// Runs the forward and backward pass of a program, and calls at(b) as soon as the gradients of bucket b are there; and
/// await(b), which waits until the parameters of bucket b are there, before the first step that reads one of them.
/// `execution` has begun; null: there are no samples, and the gradients are zero.
template <class Program, class Execution, class Plan, class At, class Await = NothingAwaited>
void run_by_buckets(Execution* execution, const Plan& plan, float* gradients, At at, Await await = {}) {
  int awaited = 0;
  if (execution == nullptr) {
    while (awaited < plan.count) await(plan.by_need[static_cast<std::size_t>(awaited++)]);
    std::fill(gradients, gradients + Program::slots.parameter_floats, 0.0f);
  }
  int done = Program::lowered.prepared_steps;
  const auto run_until = [&](int step) {
    if (execution != nullptr && step > done) execution->run_steps(done, step);
    done = std::max(done, step);
  };
  const auto run_until_with_parameters = [&](int step) {
    for (; awaited < plan.count && plan.needed_at(awaited).needed < step; ++awaited) {
      run_until(plan.needed_at(awaited).needed);
      await(plan.by_need[static_cast<std::size_t>(awaited)]);
    }
    run_until(step);
  };
  for (int b = 0; b < plan.count; ++b) {
    if constexpr (std::is_same_v<Await, NothingAwaited>)
      run_until(plan.buckets[static_cast<std::size_t>(b)].ready);
    else
      run_until_with_parameters(plan.buckets[static_cast<std::size_t>(b)].ready);
    at(b);
  }
  run_until(Program::lowered.first_update);
}

}  // namespace tenet
