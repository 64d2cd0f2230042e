#pragma once

#include <tenet/exec/buckets.hpp>
#include <tenet/exec/program.hpp>
#include <tenet/graph/device_schedule.hpp>

/// In which order buckets leave whose parameters are updated while the next forward pass runs: what that needs first is
/// ready last, and would wait for all that is ready before.
namespace tenet {

namespace detail {

/// What the steps of a program up to each cost, for no samples and for each of them: see `StepCosts`.
struct CostSoFar {
  double fixed = 0, of_sample = 0;
  constexpr double at(long batch) const { return fixed + of_sample * static_cast<double>(batch); }
};
template <class Program>
constexpr auto costs_so_far() {
  std::array<CostSoFar, static_cast<std::size_t>(Program::lowered.used.steps) + 1> sums{};
  for (int s = 0; s < Program::lowered.used.steps; ++s) {
    const int head = Program::order.head[Program::lowered.steps[s].number];
    const auto cost = [&](long batch) {
      return static_cast<double>(step_cost(Program::graph, Program::fusion, head, batch));
    };
    const auto at = static_cast<std::size_t>(s);
    sums[at + 1] = {sums[at].fixed + cost(0), sums[at].of_sample + cost(1) - cost(0)};
  }
  return sums;
}

/// When a bucket is ready and when its parameters are needed, in a pass that takes `pass`.
template <int Most>
struct BucketTimes {
  std::array<double, static_cast<std::size_t>(Most)> ready{}, needed{}, size{};
  double pass = 0;
};

/// The first of the last buckets that may all wait for the last one: then they leave in the order in which they are
/// needed, and no pass begins later than where each leaves when it is ready.
///
/// With r the time when a bucket is ready, n when it is needed, M its size and that of all behind it, and b the time of
/// the link for a unit of size, a pass whose buckets leave when they are ready takes max over l of r_l + b M_l, or P,
/// what it computes. One whose last buckets wait takes no more than that, or what the last ones make of it: bucket j is
/// there at P + b M_j, n_j after the next pass has begun, which may begin so at P - n_j + b M_j. That is no longer for
/// any b if the point (M_j, P - n_j) is not above the upper hull of all (M_l, r_l) and (0, P). Costs are estimates: a
/// thousandth of the pass above it is not.
template <int Most>
constexpr int first_that_may_wait(const BucketTimes<Most>& times, int count) {
  struct Point {
    double size = 0, time = 0;
  };
  std::array<Point, static_cast<std::size_t>(Most) + 1> hull{};
  std::array<double, static_cast<std::size_t>(Most) + 1> behind{};
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  for (int b = count - 1; b >= 0; --b) behind[index(b)] = behind[index(b + 1)] + times.size[index(b)];
  hull[0] = {0, times.pass};
  int points = 1;
  for (int b = count - 1; b >= 0; --b) {
    const Point next{behind[index(b)], times.ready[index(b)]};
    const auto is_below = [&] {  // the last point, between the one before it and this one
      const Point &last = hull[index(points - 1)], &before = hull[index(points - 2)];
      return (last.time - before.time) * (next.size - before.size) <=
             (next.time - before.time) * (last.size - before.size);
    };
    while (points > 1 && is_below()) --points;
    hull[index(points++)] = next;
  }
  int first = count - 1, at = 1;
  for (; first > 0; --first) {
    const int b = first - 1;
    const double size = behind[index(b)];
    while (at + 1 < points && hull[index(at)].size < size) ++at;
    const Point &left = hull[index(at - 1)], &right = hull[index(at)];
    const double bound = left.time + (right.time - left.time) * (size - left.size) / (right.size - left.size);
    const bool is_needed_later = times.needed[index(b)] >= times.needed[index(first)];
    if (0.999 * times.pass - times.needed[index(b)] > bound || !is_needed_later) break;
  }
  return first;
}

}  // namespace detail

/// The same buckets, of which the last ones leave together, when all are ready, if the next forward pass begins no
/// later so, whatever the link: for few samples and many, for a link that takes its time for each number, or for each
/// bucket.
template <class Program, int Most>
constexpr BucketPlan<Most> in_order_of_need(BucketPlan<Most> plan) {
  const auto costs = detail::costs_so_far<Program>();
  const auto cost_until = [&](int step, long batch) {
    return costs[static_cast<std::size_t>(step)].at(batch) -
           costs[static_cast<std::size_t>(Program::lowered.prepared_steps)].at(batch);
  };
  plan.in_turn = 0;
  for (const long batch : {1L, StepCosts::batch, 32 * StepCosts::batch})
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {  // of the numbers, in what a bucket of mean size takes
      detail::BucketTimes<Most> times;
      times.pass = cost_until(Program::lowered.first_update, batch);
      double floats = 0;
      for (const Bucket& bucket : plan) floats += static_cast<double>(bucket.floats);
      for (int b = 0; b < plan.count; ++b) {
        const auto at = static_cast<std::size_t>(b);
        const Bucket& bucket = plan.buckets[at];
        times.ready[at] = cost_until(bucket.ready, batch);
        times.needed[at] = cost_until(bucket.needed, batch);
        times.size[at] = share * static_cast<double>(bucket.floats) * plan.count / floats + (1 - share);
      }
      plan.in_turn = std::max(plan.in_turn, detail::first_that_may_wait(times, plan.count));
    }
  return plan;
}

namespace detail {

/// Whether a pass needs all parameters before it writes the first gradient, and there are several buckets: then the
/// parameters can be updated while it runs.
template <class Program, int Most>
constexpr bool needs_parameters_first(const BucketPlan<Most>& plan) {
  int first_gradient = Program::lowered.first_update, last_need = 0;
  for_each_use(Program::lowered, Program::lowered.first_update, [&](const Place& place, int step) {
    if (place.arena == Arena::gradients) first_gradient = std::min(first_gradient, step);
  });
  for (const Bucket& bucket : plan) last_need = std::max(last_need, bucket.needed);
  return plan.count > 1 && last_need < first_gradient;
}

}  // namespace detail

/// Whether ranks that get the sum of every bucket update parameters late, in the next forward pass, as far as the
/// program and its plan of buckets say: it runs the batch at once and by itself, and its results, and running
/// statistics, leave before the last gradients.
template <class Program, bool is_cut, int Most>
constexpr bool can_update_late(const BucketPlan<Most>& plan) {
  if constexpr (is_cut || Program::is_on_part || !updates_by_elements<Program>()) {
    return false;
  } else {
    return Program::lowered.prepared_steps == 0 && detail::needs_parameters_first<Program>(plan) &&
           plan.first_ready_behind(results_ready<Program>) < plan.count &&
           (!Program::writes_buffers || plan.first_ready_behind(statistics_ready<Program>) < plan.count);
  }
}

/// How the gradients of ranks leave that get the sum of every bucket.
template <class Program, bool is_cut>
constexpr auto plan_exchange(long bucket_floats) {
  const auto plan = plan_buckets(Program::lowered, Program::slots, bucket_floats);
  if constexpr (is_cut || Program::is_on_part) return plan;
  return can_update_late<Program, is_cut>(plan) ? in_order_of_need<Program>(plan) : plan;
}

}  // namespace tenet
