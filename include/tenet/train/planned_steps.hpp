#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <tenet/exec/step_names.hpp>
#include <tenet/exec/step_work.hpp>
#include <tenet/graph/device_schedule.hpp>
#include <tenet/parallel/device_turns.hpp>
#include <tenet/parallel/exchange_plan.hpp>
#include <tenet/parallel/traffic.hpp>
#include <vector>

/// A program's steps without its type: their names, what they cost, and what leaves behind them. For timelines.
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

/// What workers exchange besides new parameters.
struct PlannedPart {
  int ready = 0;  ///< it leaves after so many steps
  long floats = 0;
  ExchangedPart::Kind kind = ExchangedPart::Kind::gradients;
  int number = 0;  ///< of a bucket of gradients, or -1
  int needed = 0;  ///< a bucket's place in the order in which parameters are needed
  int read = 0;    ///< the first step that reads one of its parameters
  bool is_bucket() const { return kind == ExchangedPart::Kind::gradients; }
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
  int prepared = 0;                             ///< so many of the steps run before the batch, and so once
  int shards_of_worker = 1, shards_in_all = 0;  ///< the others run once for each shard of a batch, but for the update
  std::vector<PlannedStep> steps;
  std::vector<PlannedPart> parts;  ///< in the order in which they leave

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

/// The steps of the program P, and what is exchanged while they run.
template <class P>
[[gnu::noinline]] PlannedSteps planned_steps(const char* name, int replicas,
                                             const std::vector<ExchangedPart>& parts = {}) {
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
  for (const ExchangedPart& part : parts) {
    const auto is_needed_before = [&](const ExchangedPart& other) {
      return other.bucket >= 0 &&
             (other.needed < part.needed || (other.needed == part.needed && other.bucket < part.bucket));
    };
    const auto place = part.bucket < 0 ? 0 : std::count_if(parts.begin(), parts.end(), is_needed_before);
    result.parts.push_back({part.ready, part.floats, part.kind, part.bucket, static_cast<int>(place), part.needed});
  }
  result.prepared = lowered.prepared_steps;
  result.parameter_floats = P::slots.parameter_floats;
  return result;
}

}  // namespace tenet
