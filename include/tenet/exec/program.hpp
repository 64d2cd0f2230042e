#pragma once

#include <tenet/core/buffer.hpp>
#include <tenet/exec/lower.hpp>

namespace tenet {

/// A program: all that is known at compile time about one kind of run of a network. `Definition` says what is traced:
///
///     using Kernels                                   the device's kernels
///     static constexpr SlotTable<…> slots             parameters and buffers
///     template <int Nodes> static constexpr Trace<…> trace()
///     template <MistakeRecord> static constexpr bool explain()   stops the compilation with a sentence
///
/// Each pass is a constant of its own: trace → live nodes → graph → fusion → schedule → memory plan → steps.
template <class Definition>
struct Program {
  using Kernels = typename Definition::Kernels;
  static constexpr auto& slots = Definition::slots;

  template <int Nodes = 128 + 16 * Definition::slots.count>
  static constexpr auto make_trace() {
    constexpr auto attempt = Definition::template trace<Nodes>();
    if constexpr (attempt.overflow)
      return make_trace<4 * Nodes>();
    else
      return attempt;
  }

  static constexpr auto trace = make_trace();
  static constexpr bool sound = Definition::template explain<trace.mistake>();

  static constexpr auto live = mark_live(trace);
  static constexpr auto graph = compact<live.count, trace.output_count>(trace, live);
  static constexpr auto fusion = fuse(graph);
  static constexpr auto order = schedule(graph, fusion);
  static constexpr auto plan = plan_memory(graph, fusion, order, slots);
  static constexpr int copied = [] {
    int count = 0;
    for (const bool one : plan.copied) count += one;
    return count;
  }();
  static constexpr auto lowered = lower<order.count + copied>(graph, fusion, order, plan);

  template <std::size_t P, std::size_t... F>
  static constexpr ElementRange range_of(std::index_sequence<F...>) {
    return Kernels::template element_range<lowered.programs[P].role, lowered.programs[P].wiring,
                                           lowered.programs[P].functions[F]...>;
  }

  /// The compiled loops of the program's regions.
  static constexpr auto ranges = []<std::size_t... P>(std::index_sequence<P...>) {
    return std::array<ElementRange, sizeof...(P) + 1>{range_of<P>(
        std::make_index_sequence<static_cast<std::size_t>(lowered.programs[P].wiring.operations)>{})...};
  }(std::make_index_sequence<static_cast<std::size_t>(lowered.program_count)>{});

  /// Floating point operations of a run.
  static constexpr Cost flops = [] {
    Cost sum;
    for (int i = 0; i < graph.count; ++i)
      if (graph.nodes[i].operation != nullptr) {
        sum.per_sample += graph.nodes[i].operation->flops.per_sample;
        sum.fixed += graph.nodes[i].operation->flops.fixed;
      }
    return sum;
  }();
};

/// The executor of a device: its workers.
template <class Device>
auto make_executor() {
  using Executor = typename Device::Kernels::Executor;
  if constexpr (std::is_constructible_v<Executor, int>)
    return std::make_unique<Executor>(Device::threads());
  else
    return std::make_unique<Executor>();
}

/// The memories of a run, by `Arena`.
struct Arenas {
  float* base[8]{};
  const void* inputs[4]{};
  long batch = 1;

  const void* at(const Place& place) const {
    if (place.arena == Arena::inputs) return inputs[place.offset];
    const long scale = place.arena == Arena::per_sample ? batch : 1;
    return base[static_cast<int>(place.arena)] + place.offset * scale;
  }
  float* writable(const Place& place) const { return static_cast<float*>(const_cast<void*>(at(place))); }
};

/// Runs the steps of programs. It knows steps and arenas only, so it is compiled once, whatever the network.
template <class Kernels>
class StepRunner {
 public:
  using Executor = typename Kernels::Executor;

  static void run(Executor& executor, const Arenas& arenas, const Step<Kernels>* steps, int count,
                  const RegionCall* calls, const ElementRange* ranges) {
    for (int s = 0; s < count; ++s) run_step(executor, arenas, steps[s], calls, ranges);
  }

 private:
  static void prepare(const RegionCall& call, const Arenas& arenas, ElementArguments& arguments) {
    for (int k = 0; k < call.wiring.inputs; ++k)
      arguments.inputs[k] = ElementArguments::bind(static_cast<const float*>(arenas.at(call.inputs[k])), call.access[k],
                                                   arenas.batch);
    for (int k = 0; k < call.wiring.outputs && k < max_region_outputs; ++k)
      arguments.outputs[k] = arenas.writable(call.outputs[k]);
    arguments.total = call.total * (call.batched ? arenas.batch : 1);
    arguments.block = call.block > 0 ? call.block : arguments.total;
  }

  static void run_step(Executor& executor, const Arenas& arenas, const Step<Kernels>& step, const RegionCall* calls,
                       const ElementRange* ranges) {
    ElementArguments arguments;
    if (step.kind == Kind::element) {
      prepare(calls[step.region], arenas, arguments);
      run_element(executor, ranges[calls[step.region].program], arguments);
      return;
    }
    ElementArguments behind;
    RegionEpilogue region{};
    Epilogue epilogue;
    if (step.epilogue >= 0) {
      prepare(calls[step.epilogue], arenas, behind);
      region = {ranges[calls[step.epilogue].program], &behind};
      epilogue = region.epilogue();
    }
    float* const result = arenas.writable(step.result);
    if (step.kind == Kind::reduction) {
      prepare(calls[step.region], arenas, arguments);
      run_reduce(executor, step.role, ranges[calls[step.region].program], arguments, step.sum.inner,
                 step.sum.count * (step.sum.batched ? arenas.batch : 1), result, epilogue);
      return;
    }
    typename Kernels::Arguments given;
    for (int j = 0; j < step.operand_count; ++j) given.operands[j] = arenas.at(step.operands[j]);
    given.written = result;
    given.batch = static_cast<int>(arenas.batch);
    given.attribute = step.attribute;
    given.epilogue = epilogue;
    step.kernel(executor, given);
  }
};

/// A program with its memory: activations for the largest batch met so far, values without a batch, and the numbers that
/// are set before a run. Parameters, gradients and optimizer state belong to the caller.
template <class Program>
class Execution {
 public:
  using Kernels = typename Program::Kernels;

  explicit Execution(typename Kernels::Executor& executor) : executor_(&executor) {
    fixed_.grow(Program::plan.fixed_floats);
    numbers_.grow(Program::plan.number_count);
    if constexpr (requires { executor.reserve_scratch(Program::lowered.scratch); })
      executor.reserve_scratch(Program::lowered.scratch);
    for (int i = 0; i < Program::plan.number_count; ++i)
      if (Program::plan.numbers[i].source == Source::constant) numbers_.data()[i] = Program::plan.numbers[i].value;
  }

  /// Numbers of a run that are not constants: those named `scalar`, and the seed.
  void set_scalars(const float* scalars, std::uint64_t seed) {
    for (int i = 0; i < Program::plan.number_count; ++i) {
      const NumberEntry& entry = Program::plan.numbers[i];
      if (entry.source == Source::scalar) numbers_.data()[i] = scalars[entry.index];
      if (entry.source == Source::seed) {
        const auto half = static_cast<std::uint32_t>(entry.index == 0 ? seed : seed >> 32);
        std::memcpy(numbers_.data() + i, &half, sizeof half);
      }
    }
  }

  /// Runs the program. `arenas` gives parameters, gradients, buffers, states and inputs.
  void run(Arenas arenas, int batch) {
    if (batch != batch_) prepare(batch);
    arenas.batch = batch;
    arenas.base[static_cast<int>(Arena::per_sample)] = per_sample_.data();
    arenas.base[static_cast<int>(Arena::fixed)] = fixed_.data();
    arenas.base[static_cast<int>(Arena::numbers)] = numbers_.data();
    bound_ = arenas;
    StepRunner<Kernels>::run(*executor_, arenas, Program::lowered.steps, Program::lowered.step_count,
                             Program::lowered.calls, Program::ranges.data());
  }

  /// Result `index` of the last run.
  const float* result(int index) const {
    for (int i = 0; i < Program::trace.output_count; ++i)
      if (Program::graph.outputs[i].destination == Destination::result && Program::graph.outputs[i].index == index)
        return static_cast<const float*>(bound_.at(Program::plan.place[Program::fusion.value[Program::graph.outputs[i].node]]));
    return nullptr;
  }

  /// Floats held for activations and values without a batch.
  long memory_floats() const { return per_sample_.size() + fixed_.size(); }

 private:
  void prepare(int batch) {
    batch_ = batch;
    per_sample_.grow(Program::plan.per_sample_floats * batch);
    for (int i = 0; i < Program::plan.number_count; ++i)
      if (Program::plan.numbers[i].source == Source::reciprocal_count)
        numbers_.data()[i] = static_cast<float>(1.0 / (static_cast<double>(batch) * Program::plan.numbers[i].index));
  }

  typename Kernels::Executor* executor_;
  Buffer per_sample_, fixed_, numbers_;
  Arenas bound_{};
  int batch_ = 0;
};

}  // namespace tenet
