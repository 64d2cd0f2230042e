#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <tenet/exec/buckets.hpp>
#include <tenet/exec/step_names.hpp>
#include <tenet/exec/step_work.hpp>
#include <tenet/graph/device_schedule.hpp>
#include <tenet/parallel/device_turns.hpp>
#include <tenet/parallel/traffic.hpp>
#include <vector>

/// A program's steps without its type: their names, and when the compiler expects them to run. For timelines.
namespace tenet {

/// The part of a program to which a step belongs.
enum class Pass : unsigned char { forward, backward, update };
inline const char* name_of(Pass pass) {
  constexpr const char* names[]{"forward", "backward", "update"};
  return names[static_cast<int>(pass)];
}

struct PlannedStep {
  std::string name;        ///< the operation, and the path of its layer
  std::string operations;  ///< all that are fused into the step
  Pass pass = Pass::forward;
  int number = 0;   ///< in the order of the schedule; copies have that of what they copy
  int device = 0;   ///< negative: all devices, each a part of it
  double cost = 0;  ///< see `StepCosts`; with c samples: cost + c · cost_of_sample
  double cost_of_sample = 0;
  double flops = 0, flops_of_sample = 0;
  std::vector<int> before;  ///< by device: the steps below that number end before it begins
};

/// Gradients that leave together.
struct PlannedBucket {
  int ready = 0;  ///< it leaves after so many steps
  long floats = 0;
  int needed = 0;  ///< its place in the order in which parameters are needed
  int read = 0;    ///< the first step that reads one of its parameters
};

/// A program's steps, in the order in which one device runs them.
struct PlannedSteps {
  const char* name = "";        ///< of the program
  const void* first = nullptr;  ///< where its first step lies; the others behind it
  std::size_t size = 1;         ///< of a step, in bytes
  int devices = 1;
  bool trains = false;
  int replicas = 1;                 ///< each with a part of the batch
  bool shares_update = true;        ///< each updates a part of the parameters; else all of them
  bool updates_by_buckets = false;  ///< as they come
  bool updates_late = false;        ///< in the next pass, a bucket before the first step that reads it
  bool updates = true;              ///< else servers do
  const char* synchronisation = "";
  Traffic traffic{};  ///< of workers
  long parameter_floats = 0;
  std::vector<PlannedStep> steps;
  std::vector<PlannedBucket> buckets;
  std::vector<int> leaving;  ///< their order; empty: that of their numbers

  /// The index of a step that was recorded, or -1.
  int index_of(const void* step) const {
    const auto at = reinterpret_cast<std::uintptr_t>(step), begin = reinterpret_cast<std::uintptr_t>(first);
    if (at < begin || at >= begin + steps.size() * size) return -1;
    return static_cast<int>((at - begin) / size);
  }
};

namespace detail {

/// Whether a step of a program does not do all that the scheduled step does whose number it has, or more: what is
/// behind a kernel or sum is a step of its own, or sums have joined it.
template <class G, class Step>
constexpr bool differs_from_scheduled(const G& graph, const Fusion<G::count>& fusion, int head, const Step& step) {
  return step.kind != graph.nodes[head].operation->kind || step.role == Role::store_and_sum ||
         (step.kind != Kind::element && step.epilogue < 0 && fusion.epilogue[head] >= 0);
}

/// The operations of a step: that of its head, of the region with it, and of the region behind it, as far as they are
/// not another step's.
template <class G, class Step>
std::string operations_of(const G& graph, const Fusion<G::count>& fusion, int head, const Step& step) {
  std::string result;
  const auto add = [&](int node) {
    result.append(result.empty() ? "" : " ").append(graph.nodes[node].operation->name);
  };
  const auto add_region = [&](int root) {
    std::vector<int> members;
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) members.push_back(fusion.member[m]);
    for (std::size_t i = members.size(); i-- > 0;) add(members[i]);  // operands before consumers
  };
  const Kind kind = graph.nodes[head].operation->kind;
  const bool joint = step.role == Role::store_and_sum,
             sums = step.kind == Kind::reduction || (joint && kind == Kind::reduction);
  const bool is_behind = step.kind == Kind::element && kind != Kind::element && !sums;
  if (kind == Kind::element || sums) add_region(head);
  if (step.kind != Kind::element) add(head);
  if (fusion.epilogue[head] >= 0 && (is_behind || step.epilogue >= 0)) add_region(fusion.epilogue[head]);
  if (joint) result.append(result.empty() ? "sum" : " sum");
  return result;
}

}  // namespace detail

/// The steps of the program P; `buckets` is a `BucketPlan`.
template <class P, class Buckets>
[[gnu::noinline]] PlannedSteps planned_steps(const char* name, int replicas, const Buckets& buckets) {
  const auto& lowered = P::lowered;
  const auto& graph = P::graph;
  PlannedSteps result;
  result.name = name;
  result.first = lowered.steps;
  result.size = sizeof lowered.steps[0];
  result.devices = P::order.devices;
  result.replicas = replicas;
  const std::vector<StepWork> work = work_of_steps<P>();
  for (int s = 0; s < lowered.used.steps; ++s) {
    const auto& step = lowered.steps[s];
    const int head = P::order.head[step.number];
    PlannedStep planned;
    planned.name = step_name<P>(s);
    planned.number = step.number;
    planned.pass = is_of_update<P>(s) ? Pass::update : head < graph.forward_count ? Pass::forward : Pass::backward;
    if (is_copy(lowered, step)) {
      const bool batched = step.relayout.is_needed() || lowered.calls[step.region].batched;
      const long size = step.relayout.is_needed() ? step.relayout.size() : lowered.calls[step.region].size();
      planned.operations = step.name;
      const double moved = 2.0 * StepCosts::moved_float * static_cast<double>(size);
      planned.cost = StepCosts::step + (batched ? 0 : moved);
      planned.cost_of_sample = batched ? moved : 0;
    } else {
      planned.operations = detail::operations_of(graph, P::fusion, head, step);
      if (detail::differs_from_scheduled(graph, P::fusion, head, step)) {
        const StepWork& done = work[static_cast<std::size_t>(s)];
        const auto cost = [](const Cost& flops, const Cost& bytes, long Cost::*of) {
          return static_cast<double>(flops.*of) + StepCosts::moved_float * static_cast<double>(bytes.*of) / 4;
        };
        planned.cost = StepCosts::step + cost(done.flops, done.bytes, &Cost::fixed);
        planned.cost_of_sample = cost(done.flops, done.bytes, &Cost::per_sample);
        planned.flops = static_cast<double>(done.flops.fixed);
        planned.flops_of_sample = static_cast<double>(done.flops.per_sample);
      } else {
        planned.cost = static_cast<double>(step_cost(graph, P::fusion, head, 0));
        planned.cost_of_sample = static_cast<double>(step_cost(graph, P::fusion, head, 1)) - planned.cost;
        planned.flops = static_cast<double>(step_flops(graph, P::fusion, head, 0));
        planned.flops_of_sample = static_cast<double>(step_flops(graph, P::fusion, head, 1)) - planned.flops;
      }
    }
    if constexpr (P::order.devices > 1) {
      planned.device = P::order.device_of(step.number);
      planned.before.assign(P::order.before[step.number], P::order.before[step.number] + P::order.devices);
      if constexpr (detail::update_can_be_shared<P>())
        if (s >= lowered.first_update && s < lowered.after_update && is_over_parameters<P>(s))
          planned.device = on_all_devices;
    }
    result.steps.push_back(std::move(planned));
  }
  for (int b = 0; b < buckets.count; ++b) {
    const auto& bucket = buckets.buckets[static_cast<std::size_t>(b)];
    result.buckets.push_back({bucket.ready, bucket.floats, 0, bucket.needed});
  }
  for (int b = 0; b < buckets.count; ++b)
    buckets.for_each_leaving(b, [&](int leaving) {
      result.buckets[static_cast<std::size_t>(leaving)].ready = buckets.buckets[static_cast<std::size_t>(b)].ready;
      result.leaving.push_back(leaving);
    });
  for (int i = 0; i < buckets.count; ++i)
    result.buckets[static_cast<std::size_t>(buckets.by_need[static_cast<std::size_t>(i)])].needed = i;
  result.parameter_floats = P::slots.parameter_floats;
  return result;
}

/// When something is expected to take place, in seconds from the beginning of the training step.
struct PlannedSpan {
  int device = 0;
  int index = 0;  ///< of the step, or of the bucket
  double begin = 0, end = 0;
};
struct PlannedSchedule {
  std::vector<PlannedSpan> steps, buckets;
  std::vector<PlannedSpan> parameters;  ///< of buckets, or -1, all of them: what comes behind the update
  double computing = 0;                 ///< of all devices together
  double end = 0;
};

/// What a training step is planned for.
struct PlannedFor {
  int batch = 1;
  double seconds_of_cost = 1;
  int workers = 1;
  LinkCost link{};    ///< between them
  bool meets = true;  ///< it is a step in which parameters move, where that is not every one
};

/// The schedule of a training step. A step of cost c takes c · seconds_of_cost, and begins when its device is free and
/// the steps of other devices that it needs have ended. What moves between workers does as the program's `traffic`
/// says; nothing where that has no formula. A bucket begins when its gradients are there and the buckets before it have
/// left; the update begins behind the last one. Where buckets are updated as they come, it ends when the part of each
/// has ended, one after the other and none before its bucket. Where the next pass does that, it is planned behind this
/// one, together with what the next pass has to wait for buckets; so the step ends when the next one would have if it
/// began with this one's update. Where parameters move, too, each worker updates a part
/// of each bucket, in the order in which parameters are needed, and behind that all of them gather it: the next step
/// may begin meanwhile. Parameters that move alone do so at the end of the step.
inline PlannedSchedule planned_schedule(const PlannedSteps& program, const PlannedFor& given) {
  PlannedSchedule result;
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  const Traffic& traffic = program.traffic;
  const bool sends = traffic.has_formula() && traffic.gradients != nullptr,
             moves_parameters = traffic.has_formula() && traffic.parameters != nullptr && given.meets,
             gathers = sends && moves_parameters;
  const auto seconds_of_moving = [&](const Moving* moving, long floats) {
    return moving->seconds(given.workers, floats, given.link);
  };
  std::vector<double> free(index(program.devices));
  std::vector<std::vector<std::pair<int, double>>> ended(index(program.devices));  // number and time
  double gradients = 0, update_begin = 0, update_end = 0, all_floats = 0;
  for (const PlannedBucket& bucket : program.buckets) all_floats += static_cast<double>(bucket.floats);
  const auto share_of = [&](std::size_t b) { return static_cast<double>(program.buckets[b].floats) / all_floats; };
  bool updates = false;
  std::vector<double> ends(program.steps.size() + 1);  // of all steps so far
  const auto leave = [&](std::size_t steps) {          // the buckets that are ready
    for (std::size_t i = result.buckets.size(); sends && i < program.buckets.size(); ++i) {
      const std::size_t b = program.leaving.empty() ? i : index(program.leaving[i]);
      if (program.buckets[b].ready > static_cast<int>(steps)) return;
      const double begin = std::max(gradients, ends[index(program.buckets[b].ready)]);
      gradients = begin + seconds_of_moving(traffic.gradients, program.buckets[b].floats);
      result.buckets.push_back({0, static_cast<int>(b), begin, gradients});
    }
  };
  const double samples = static_cast<double>(given.batch) / program.replicas;
  const auto seconds_of = [&](const PlannedStep& step) {
    return (step.cost + samples * step.cost_of_sample) * given.seconds_of_cost;
  };
  std::vector<int> by_need(program.buckets.size());
  std::iota(by_need.begin(), by_need.end(), 0);
  std::sort(by_need.begin(), by_need.end(),
            [&](int a, int b) { return program.buckets[index(a)].needed < program.buckets[index(b)].needed; });
  // For how long a pass that begins at `begin` waits for the buckets of the one before.
  const auto waiting = [&](double begin, double update) {
    std::vector<double> come(program.buckets.size());
    for (const PlannedSpan& span : result.buckets) come[index(span.index)] = span.end;
    double waited = 0, updated = 0;
    std::vector<int> open;  // in the order in which they leave
    for (const PlannedSpan& span : result.buckets) open.push_back(span.index);
    for (const int b : by_need)
      while (std::find(open.begin(), open.end(), b) != open.end()) {
        const double now = begin + waited + updated + ends[index(program.buckets[index(b)].read)];
        const auto next = come[index(b)] <= now ? std::find(open.begin(), open.end(), b) : open.begin();
        waited += std::max(0.0, come[index(*next)] - now);
        updated += update * share_of(index(*next));
        open.erase(next);
      }
    return waited;
  };
  const auto begin_of_update = [&](std::size_t first, double device) {
    double update = 0;
    for (std::size_t s = first; s < program.steps.size() && program.steps[s].pass == Pass::update; ++s)
      update += seconds_of(program.steps[s]) / (program.shares_update ? program.replicas : 1);
    if (!sends) return device;
    if (program.updates_late) return device + waiting(device, update);
    for (std::size_t b = 0; b < result.buckets.size(); ++b)
      device = std::max(device, result.buckets[b].end) + update * share_of(index(result.buckets[b].index));
    return device - update;
  };
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const PlannedStep& step = program.steps[s];
    if (step.pass == Pass::update && !program.updates) {
      ends[s + 1] = ends[s];
      continue;
    }
    if (step.pass == Pass::update && !updates) {
      updates = true;
      leave(s);
      const double begin = program.updates_by_buckets || program.updates_late ? begin_of_update(s, free[0]) : gradients;
      for (double& time : free) time = std::max(time, begin);
      update_begin = free[0];
    }
    double seconds = seconds_of(step);
    if (step.pass == Pass::update && gathers) seconds /= given.workers;
    if (step.pass == Pass::update && program.shares_update) seconds /= program.replicas;
    const bool all = step.device < 0;
    if (all) seconds /= program.devices;
    for (int d = all ? 0 : step.device; d < (all ? program.devices : step.device + 1); ++d) {
      double begin = free[index(d)];
      for (int other = 0; other < static_cast<int>(step.before.size()); ++other)
        for (const auto& [number, time] : ended[index(other)])
          if (other != d && number < step.before[index(other)])
            begin = std::max(begin, time + StepCosts::wait * given.seconds_of_cost);
      free[index(d)] = begin + seconds;
      ended[index(d)].push_back({step.number, free[index(d)]});
      result.steps.push_back({d, static_cast<int>(s), begin, free[index(d)]});
      result.computing += seconds;
      ends[s + 1] = std::max({ends[s + 1], ends[s], free[index(d)]});
    }
    if (step.pass == Pass::update) update_end = free[0];
    leave(s + 1);
  }
  for (const double time : free) result.end = std::max(result.end, time);
  if (!program.updates_late) result.end = std::max(result.end, gradients);
  const auto move_parameters = [&](int bucket, double begin, long floats) {
    result.parameters.push_back({0, bucket, begin, begin + seconds_of_moving(traffic.parameters, floats)});
  };
  if (gathers) {
    double updated = update_begin, gathered = gradients;
    for (const int b : by_need) {
      updated += (update_end - update_begin) * share_of(index(b));
      move_parameters(b, std::max(updated, gathered), program.buckets[index(b)].floats);
      gathered = result.parameters.back().end;
    }
  } else if (moves_parameters) {
    move_parameters(-1, result.end, program.parameter_floats);
    result.end = result.parameters.back().end;
  }
  return result;
}

}  // namespace tenet
