#pragma once

#include <algorithm>
#include <array>
#include <tenet/exec/lower.hpp>
#include <tenet/graph/slots.hpp>

/// When gradients leave: which parts of their arena are complete after which step.
namespace tenet {

/// Gradients that lie one after the other and are sent together.
struct Bucket {
  long first = 0, floats = 0;  ///< in the arena `gradients`
  /// After so many steps of the program all of them are there, and no step before the update reads them any more.
  int ready = 0;
};

/// Buckets in the order in which they are ready.
template <int Most>
struct BucketPlan {
  std::array<Bucket, Most> buckets{};
  int count = 0;

  constexpr const Bucket* begin() const { return buckets.data(); }
  constexpr const Bucket* end() const { return buckets.data() + count; }
};

namespace detail {

/// The place of each slot's gradient, and after how many steps it is there and read by none before the update: a
/// gradient that several parameters share is copied.
template <class Lowered, int Slots>
constexpr auto gradients_ready(const Lowered& lowered, const SlotTable<Slots>& slots) {
  std::array<int, Slots + 1> ready{};
  const auto used = [&](const Place& place, int step) {
    if (place.arena != Arena::gradients) return;
    for (int i = 0; i < slots.count; ++i)
      if (slots.slots[i].kind == SlotKind::parameter && slots.slots[i].offset == place.offset) ready[i] = step + 1;
  };
  const auto region_used = [&](int region, int step, bool stores) {
    if (region < 0) return;
    const RegionCall& call = lowered.calls[region];
    for (int k = 0; k < call.inputs; ++k) used(lowered.inputs[call.first_input + k].place, step);
    for (int k = 0; stores && k < call.outputs; ++k) used(lowered.outputs[call.first_output + k], step);
  };
  for (int s = 0; s < lowered.first_update; ++s) {
    const auto& step = lowered.steps[s];
    if (step.kind != Kind::element) used(step.result, s);
    for (int j = 0; j < step.operand_count; ++j) used(step.operands[j], s);
    region_used(step.region, s, step.kind == Kind::element);  // in front of a sum it stores nothing
    region_used(step.epilogue, s, true);
  }
  return ready;
}

}  // namespace detail

/// Backward finds the last layers' gradients first, and gradients lie in the order of their layers: buckets are filled
/// from the end of the arena on, with at least `bucket_floats` numbers, but for the last one.
template <class Lowered, int Slots>
constexpr auto plan_buckets(const Lowered& lowered, const SlotTable<Slots>& slots, long bucket_floats) {
  BucketPlan<Slots + 1> plan;
  const auto ready = detail::gradients_ready(lowered, slots);
  long end = slots.parameter_floats;
  int latest = 0;
  for (int i = slots.count - 1; i >= 0; --i) {
    if (slots.slots[i].kind != SlotKind::parameter) continue;
    if (ready[i] > latest) latest = ready[i];
    const long first = slots.slots[i].offset;
    if (end - first < bucket_floats && first > 0) continue;
    plan.buckets[plan.count++] = {first, end - first, latest};
    end = first;
    latest = 0;
  }
  for (int i = 1; i < plan.count; ++i)
    for (int j = i; j > 0 && plan.buckets[j].ready < plan.buckets[j - 1].ready; --j)
      std::swap(plan.buckets[j], plan.buckets[j - 1]);
  return plan;
}

/// Runs the forward and backward pass of a program, and calls at(b) as soon as the gradients of bucket b are there.
/// `execution` has begun; null: there are no samples, and the gradients are zero.
template <class Program, class Execution, class Plan, class At>
void run_by_buckets(Execution* execution, const Plan& plan, float* gradients, At at) {
  if (execution == nullptr) std::fill(gradients, gradients + Program::slots.parameter_floats, 0.0f);
  int done = Program::lowered.prepared_steps;
  const auto run_until = [&](int step) {
    if (execution != nullptr && step > done) execution->run_steps(done, step);
    done = std::max(done, step);
  };
  for (int b = 0; b < plan.count; ++b) {
    run_until(plan.buckets[static_cast<std::size_t>(b)].ready);
    at(b);
  }
  run_until(Program::lowered.first_update);
}

}  // namespace tenet
