#pragma once

#include <algorithm>
#include <tenet/core/span.hpp>
#include <tenet/device/element.hpp>
#include <tenet/device/own_memory.hpp>
#include <tenet/exec/lowered.hpp>

namespace tenet {

/// What a kernel works in besides its operands and its result: so many floats of the program's memory that nothing else
/// needs meanwhile, or of the executor's own.
struct Workspace {
  Place place{};
  long floats = 0;
  bool is_lent = false;  ///< by the program
};

/// The memories of a run, by `Arena`.
struct Arenas {
  float* base[8]{};
  const void* inputs[4]{};
  long batch = 0, room = 0;  ///< the latter: samples for which `per_sample` has room, see `Lowered::room_for`
  const Workspace* workspaces = nullptr;  ///< by the number of a step; null: none is lent

  float*& operator[](Arena arena) { return base[static_cast<int>(arena)]; }
  const void* at(const Place& place) const {
    if (place.arena == Arena::inputs) return inputs[place.offset];
    const long scale = place.arena == Arena::per_sample ? room : 1;
    return base[static_cast<int>(place.arena)] + place.offset * scale;
  }
  float* writable(const Place& place) const { return static_cast<float*>(const_cast<void*>(at(place))); }
};

/// What running a program reads, without the program's type: the steps, or a part of them.
template <class Kernels>
struct StepTables {
  const Step<Kernels>* steps;
  int step_count;
  const RegionCall* calls;
  const RegionInput* inputs;
  const Place* outputs;
  const ElementRange* ranges;
};

/// The steps `first` to `last` of a program.
template <class Program>
StepTables<typename Program::Kernels> step_tables(int first, int last) {
  return {Program::lowered.steps + first, last - first,          Program::lowered.calls, Program::lowered.inputs,
          Program::lowered.outputs,       Program::ranges.data()};
}

/// Runs the steps of programs. It knows steps and arenas only, so it is compiled once, whatever the network.
template <class Kernels>
class StepRunner {
 public:
  using Executor = typename Kernels::Executor;
  using Tables = StepTables<Kernels>;

  static void run(Executor& executor, const Arenas& arenas, const Tables& tables) {
    if constexpr (HasTimelineRow<Executor> && !HasOwnMemory<Executor>)  // those with one run steps later
      if (executor.timeline_row != nullptr) return run_recorded(executor, arenas, tables);
    for (int s = 0; s < tables.step_count; ++s) run_step(executor, arenas, tables, tables.steps[s]);
  }

  static void run_step(Executor& executor, const Arenas& arenas, const Tables& tables, const Step<Kernels>& step) {
    ElementArguments arguments, behind;
    if constexpr (HasOwnMemory<Executor>) arguments.executor = behind.executor = &without_row(executor);
    if (step.kind == Kind::element) {
      if constexpr (requires(const float* from, float* to) { run_relayout(executor, step.relayout, 1, from, to); })
        if (step.relayout.is_needed())
          return run_relayout(executor, step.relayout, static_cast<int>(arenas.batch),
                              static_cast<const float*>(arenas.at(step.operands[0])), arenas.writable(step.result));
      const ElementRange range = prepare(tables.calls[step.region], arenas, tables, arguments);
      if constexpr (joins_steps<Kernels>)
        if (step.role == Role::store_and_sum) return run_store_and_sum(executor, range, arguments, step.sum.count);
      return run_element(executor, range, arguments);
    }
    const LentWorkspace lent(executor, arenas, step);
    RegionEpilogue region{};
    Epilogue epilogue;
    if (step.epilogue >= 0) {
      region = {prepare(tables.calls[step.epilogue], arenas, tables, behind), &behind, &step.pointwise};
      epilogue = region.epilogue();
    }
    float* const result = arenas.writable(step.result);
    if (step.kind == Kind::reduction) {
      const RegionCall& call = tables.calls[step.region];
      const ElementRange range = prepare(call, arenas, tables, arguments);
      return run_reduce(executor, step.role, range, arguments, step.sum.inner / call.lanes_too_many(arenas.batch),
                        step.sum.count * (step.sum.batched ? arenas.batch : 1), result, epilogue);
    }
    typename Kernels::Arguments given;
    for (int j = 0; j < step.operand_count; ++j) given.operands[j] = arenas.at(step.operands[j]);
    given.written = result;
    if constexpr (requires { given.batch = 1; }) given.batch = static_cast<int>(arenas.batch);
    given.attribute = step.attribute;
    given.epilogue = epilogue;
    step.kernel(executor, given);
  }

  /// Finds the workspaces of all steps for a batch, by the number of a step. Returns how many floats the arena
  /// `per_sample` has to have behind its end for them.
  [[gnu::noinline]] static long place_workspaces(long batch, long room_for_samples, long per_sample_floats,
                                                 const Tables& tables, Workspace* workspaces) {
    long behind = 0;
    for (int s = 0; s < tables.step_count; ++s) {
      const Step<Kernels>& step = tables.steps[s];
      const long floats = step.kind == Kind::element ? 0 : workspace_floats(batch, tables, step);
      if (floats == 0) continue;
      Workspace& found = workspaces[step.number] = {{}, floats};
      for (const Room& room : step.room.largest)  // rather in `fixed`, which is smaller, and stays in cache
        if (floats <= room.floats * (room.place.arena == Arena::per_sample ? room_for_samples : 1))
          found = {room.place, floats, true};
      if (found.is_lent || step.room.end < 0) continue;
      found = {{Arena::per_sample, step.room.end}, floats, true};
      behind = std::max(behind, floats - (per_sample_floats - step.room.end) * room_for_samples);
    }
    return behind;
  }

  /// The elements [first, last) of those steps that are regions of `total` elements, by this thread. States have as
  /// many elements; one lies behind the other by `state_step`.
  static void run_elements(const Arenas& arenas, const Tables& tables, long total, long first, long last,
                           long state_step) {
    for (int s = 0; s < tables.step_count; ++s) {
      const RegionCall& call = tables.calls[tables.steps[s].region];
      if (call.total != total) continue;
      ElementArguments arguments;
      const ElementRange range = prepare_part(call, arenas, tables, arguments, total, state_step);
      range(arguments, first, last, 0, 1, nullptr);
    }
  }

  /// The same of the first `count` elements of one step, on a device with a memory of its own.
  static void run_elements(Executor& executor, const Arenas& arenas, const Tables& tables, const Step<Kernels>& step,
                           long total, long count, long state_step) {
    ElementArguments arguments;
    arguments.executor = &without_row(executor);
    const ElementRange range = prepare_part(tables.calls[step.region], arenas, tables, arguments, total, state_step);
    arguments.total = arguments.block = arguments.complete = count;
    run_element(executor, range, arguments);
  }

  /// All elements of a region whose role is `store`, by this thread.
  static void run_range(const Arenas& arenas, const Tables& tables, const RegionCall& call) {
    ElementArguments arguments;
    const ElementRange range = prepare(call, arenas, tables, arguments);
    range(arguments, 0, arguments.total, 0, 1, nullptr);
  }

 private:
  /// Lends the executor a step's workspace, and takes it back.
  class LentWorkspace {
   public:
    LentWorkspace(Executor& executor, const Arenas& arenas, const Step<Kernels>& step) {
      if constexpr (lends_workspace<Kernels>) {
        if (arenas.workspaces == nullptr || !arenas.workspaces[step.number].is_lent) return;
        const Workspace& lent = arenas.workspaces[step.number];
        executor.lend_workspace(arenas.writable(lent.place), lent.floats);
        executor_ = &executor;
      }
    }
    ~LentWorkspace() {
      if constexpr (lends_workspace<Kernels>)
        if (executor_ != nullptr) executor_->lend_workspace();
    }
    LentWorkspace(const LentWorkspace&) = delete;
    LentWorkspace& operator=(const LentWorkspace&) = delete;

   private:
    Executor* executor_ = nullptr;
  };

  static long workspace_floats(long batch, const Tables& tables, const Step<Kernels>& step) {
    const Executor* const executor = nullptr;
    if (step.kind == Kind::kernel) return step.workspace != nullptr ? step.workspace(batch) : 0;
    if constexpr (requires { workspace_reduce(executor, step.role, 1L, 1L, 1L); }) {
      const RegionCall& call = tables.calls[step.region];
      return workspace_reduce(executor, step.role, call.elements(batch), step.sum.inner / call.lanes_too_many(batch),
                              step.sum.count * (step.sum.batched ? batch : 1));
    }
    return 0;
  }

  /// One step begins when the one before it has ended: a look at the clock for each.
  static void run_recorded(Executor& executor, const Arenas& arenas, const Tables& tables) {
    std::int64_t begin = timeline_now();
    for (int s = 0; s < tables.step_count; ++s) {
      const Step<Kernels>& step = tables.steps[s];
      run_step(executor, arenas, tables, step);
      const std::int64_t end = timeline_now();
      executor.timeline_row->add({.begin = begin, .end = end, .name = step.name, .subject = &step});
      begin = end;
    }
  }

  static ElementRange prepare(const RegionCall& call, const Arenas& arenas, const Tables& tables,
                              ElementArguments& arguments) {
    return prepare(call, tables, arguments, arenas.batch, [&](const Place& place) { return arenas.writable(place); });
  }
  /// Of a region of `total` elements, beside states of which one lies behind the other by `state_step`.
  static ElementRange prepare_part(const RegionCall& call, const Arenas& arenas, const Tables& tables,
                                   ElementArguments& arguments, long total, long state_step) {
    return prepare(call, tables, arguments, arenas.batch, [&](Place place) {
      if (place.arena == Arena::states) place.offset = place.offset / total * state_step;
      return arenas.writable(place);
    });
  }
  template <class Locate>
  static ElementRange prepare(const RegionCall& call, const Tables& tables, ElementArguments& arguments, long batch,
                              Locate locate) {
    const long lanes = call.lanes_too_many(batch);
    for (int k = 0; k < call.inputs; ++k) {
      const RegionInput& input = tables.inputs[call.first_input + k];
      arguments.inputs[k] = ElementArguments::bind(locate(input.place), input.access, batch);
      if (!input.access.full) arguments.inputs[k].inner /= lanes;
    }
    for (int k = 0; k < call.outputs; ++k) arguments.outputs[k] = locate(tables.outputs[call.first_output + k]);
    arguments.total = call.elements(batch);
    arguments.block = call.block > 0 ? call.block / lanes : arguments.total;
    arguments.complete = call.in_groups && lies_in_lanes(batch) ? batch / sample_lanes * call.total : arguments.total;
    arguments.rest = static_cast<int>(batch % sample_lanes);
    return tables.ranges[call.program];
  }
};

}  // namespace tenet
