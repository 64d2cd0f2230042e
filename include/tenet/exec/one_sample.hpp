#pragma once

#include <limits>
#include <tenet/core/same_address.hpp>
#include <tenet/device/known_region.hpp>
#include <tenet/exec/step_runner.hpp>
#include <utility>

/// A program for a batch of one with everything a constant. In a network of a few thousand multiplications the loop
/// over steps, the calls through pointers and the questions about shapes take longer than the arithmetic; here every
/// step is a line of one function, with its extents and its places in the arenas as constants.
///
/// A device that has such programs names in `Kernels::OneSample` the kernels they are traced for: the same ones, whose
/// `Arguments::batch` is the constant 1, and
///   `template <Role, Wiring, KnownRegion, auto... functions> static void run_region(inputs, outputs)`.
namespace tenet {

// Which programs have one for a batch of one beside them: policies of a `Trainer` or a `Model`. It has to be compiled,
// and gains the less the more a step has to do.

/// Those of few floating point operations for one sample, in few steps.
struct OneSampleIfSmall {
  static constexpr long most_flops = 2'000'000, most_steps = 80;
};
/// All of them: for a network that learns from single samples, or answers them.
struct OneSampleAlways {
  static constexpr long most_flops = std::numeric_limits<long>::max(), most_steps = most_flops;
};

/// None.
struct OneSampleNever {
  static constexpr long most_flops = -1, most_steps = -1;
};

template <class Program>
class OneSampleRunner {
 public:
  using Kernels = typename Program::Kernels;
  using Executor = typename Kernels::Executor;

  static void run(Executor& executor, const Arenas& arenas) {
    run_steps(executor, arenas, std::make_integer_sequence<int, lowered.used.steps - lowered.prepared_steps>{});
  }

 private:
  static constexpr const auto& lowered = Program::lowered;

  template <int... S>
  [[gnu::always_inline]] static inline void run_steps(Executor& executor, const Arenas& arenas,
                                                      std::integer_sequence<int, S...>) {
    (run_step<lowered.prepared_steps + S>(executor, arenas), ...);
  }

  template <int S>
  [[gnu::always_inline]] static inline void run_step(Executor& executor, const Arenas& arenas) {
    constexpr const auto& step = lowered.steps[S];
    if constexpr (step.kind == Kind::element) {
      run_region<step.region>(arenas);
    } else if constexpr (!is_known<S>()) {
      StepRunner<Kernels>::run_step(executor, arenas, step_tables<Program>(0, lowered.used.steps), step);
    } else {
      if constexpr (step.kind == Kind::reduction) {
        run_sum<S>(arenas);
      } else {
        typename Kernels::Arguments given;
        for (int j = 0; j < step.operand_count; ++j) given.operands[j] = arenas.at(step.operands[j]);
        given.written = arenas.writable(step.result);
        given.attribute = step.attribute;
        step.kernel(executor, given);
      }
      if constexpr (step.epilogue >= 0) run_region<step.epilogue>(arenas);
    }
  }

  /// Whether the values of a place are followed by room, up to a whole number of vectors, that is nobody else's.
  static constexpr bool padded(const Place& place) {
    return place.arena == Arena::per_sample || place.arena == Arena::fixed;
  }

  /// A region's extents. In front of a sum it has one output, the sum's result.
  template <int Call>
  static constexpr KnownRegion known_region(const Place* result = nullptr) {
    constexpr const RegionCall& call = lowered.calls[Call];
    KnownRegion region;
    region.total = call.total;
    for (int k = 0; k < call.inputs; ++k) {
      region.inputs[k] = lowered.inputs[call.first_input + k].access;
      region.padded_input[k] = padded(lowered.inputs[call.first_input + k].place);
    }
    for (int k = 0; k < call.outputs; ++k)
      region.padded_output[k] = padded(is_null(result) ? lowered.outputs[call.first_output + k] : *result);
    return region;
  }
  template <int Call>
  static constexpr bool in_vectors =
      known_region<Call>().in_vectors(lowered.calls[Call].inputs, sizeof(typename Kernels::Lane) / sizeof(float));

  /// Kernels, and sums of all elements. (A sum over the batch has not even been traced.)
  template <int S>
  static constexpr bool is_known() {
    constexpr const auto& step = lowered.steps[S];
    if constexpr (step.kind == Kind::reduction)
      return step.sum.count == 1 && in_vectors<step.region>;
    else
      return true;
  }

  template <int S>
  [[gnu::always_inline]] static inline void run_sum(const Arenas& arenas) {
    constexpr const auto& step = lowered.steps[S];
    float* const result = arenas.writable(step.result);
    run_known_region<step.region, Role::sum, known_region<step.region>(&step.result)>(arenas, &result);
  }

  /// A region alone, or behind a kernel.
  template <int Call>
  [[gnu::always_inline]] static inline void run_region(const Arenas& arenas) {
    constexpr const RegionCall& call = lowered.calls[Call];
    if constexpr (in_vectors<Call>) {
      float* outputs[max_region_outputs];
      for (int k = 0; k < call.outputs; ++k) outputs[k] = arenas.writable(lowered.outputs[call.first_output + k]);
      run_known_region<Call, Role::store, known_region<Call>()>(arenas, outputs);
    } else {
      StepRunner<Kernels>::run_range(arenas, step_tables<Program>(0, lowered.used.steps), call);
    }
  }

  template <int Call, Role role, KnownRegion region>
  [[gnu::always_inline]] static inline void run_known_region(const Arenas& arenas, float* const* outputs) {
    constexpr const RegionCall& call = lowered.calls[Call];
    constexpr const auto& program = lowered.programs[call.program];
    const float* inputs[max_region_inputs];
    for (int k = 0; k < call.inputs; ++k)
      inputs[k] = static_cast<const float*>(arenas.at(lowered.inputs[call.first_input + k].place));
    run_functions<role, call.program, region>(
        inputs, outputs, std::make_index_sequence<static_cast<std::size_t>(program.wiring.operations)>{});
  }
  template <Role role, int P, KnownRegion region, std::size_t... F>
  [[gnu::always_inline]] static inline void run_functions(const float* const* inputs, float* const* outputs,
                                                          std::index_sequence<F...>) {
    constexpr const auto& program = lowered.programs[P];
    Kernels::template run_region<role, program.wiring, region, program.functions[F]...>(inputs, outputs);
  }
};

}  // namespace tenet
