#pragma once

#include <tenet/core/buffer.hpp>
#include <tenet/device/element.hpp>
#include <tenet/exec/lower.hpp>

namespace tenet {

namespace detail {
/// The trace, with room that fits: nets with many operations for each parameter need more than the first guess.
template <class Definition, int Nodes = 128 + 16 * Definition::slots.count>
constexpr auto make_trace() {
  constexpr auto attempt = Definition::template trace<Nodes>();
  if constexpr (attempt.overflow && Nodes < (1 << 20))
    return make_trace<Definition, 4 * Nodes>();
  else
    return attempt;
}
}  // namespace detail

/// What is traced for a definition; empty where the network has a mistake.
template <class Definition>
inline constexpr auto trace_of = detail::make_trace<Definition>();

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

  static constexpr const auto& trace = trace_of<Definition>;
  static_assert(Definition::template explain<trace.mistake>());

  static constexpr auto live = mark_live(trace);
  static constexpr auto graph = compact<live.count, trace.output_count>(trace, live);
  static constexpr auto fusion = fuse(graph);
  static constexpr auto order = schedule(graph, fusion);
  static constexpr auto plan = plan_memory(graph, fusion, order, slots);
  static constexpr LoweredSize room = room_for(graph, fusion, order, plan);
  static constexpr auto lowered_with_room = lower<room>(graph, fusion, order, plan);
  static constexpr auto lowered = trimmed<lowered_with_room.used>(lowered_with_room);

  template <std::size_t P, std::size_t... F>
  static constexpr ElementRange range_of(std::index_sequence<F...>) {
    return Kernels::template element_range<lowered.programs[P].role, lowered.programs[P].wiring,
                                           lowered.programs[P].functions[F]...>;
  }

  /// The compiled loops of the program's regions.
  static constexpr auto ranges = []<std::size_t... P>(std::index_sequence<P...>) {
    return std::array<ElementRange, sizeof...(P) + 1>{
        range_of<P>(std::make_index_sequence<static_cast<std::size_t>(lowered.programs[P].wiring.operations)>{})...};
  }(std::make_index_sequence<static_cast<std::size_t>(lowered.used.programs)>{});

  /// The numbers to be filled in, and where the results lie. The program needs no other pass's constants when it runs.
  static constexpr auto numbers = [] {
    std::array<NumberEntry, static_cast<std::size_t>(plan.number_count)> entries{};
    for (int i = 0; i < plan.number_count; ++i) entries[static_cast<std::size_t>(i)] = plan.numbers[i];
    return entries;
  }();
  static constexpr auto results = [] {
    std::array<Place, 4> places{};
    for (const Output& output : graph.outputs)
      if (output.destination == Destination::result)
        places[static_cast<std::size_t>(output.index)] = plan.place[fusion.value[output.node]];
    return places;
  }();
  static constexpr long per_sample_floats = plan.per_sample_floats, fixed_floats = plan.fixed_floats;

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
[[gnu::noinline]] auto make_executor() {
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
  long batch = 0;

  float*& operator[](Arena arena) { return base[static_cast<int>(arena)]; }
  const void* at(const Place& place) const {
    if (place.arena == Arena::inputs) return inputs[place.offset];
    const long scale = place.arena == Arena::per_sample ? batch : 1;
    return base[static_cast<int>(place.arena)] + place.offset * scale;
  }
  float* writable(const Place& place) const { return static_cast<float*>(const_cast<void*>(at(place))); }
};

/// What running a program reads, without the program's type.
template <class Kernels>
struct StepTables {
  const Step<Kernels>* steps;
  int step_count;
  const RegionCall* calls;
  const RegionInput* inputs;
  const Place* outputs;
  const ElementRange* ranges;
};

/// Runs the steps of programs. It knows steps and arenas only, so it is compiled once, whatever the network.
template <class Kernels>
class StepRunner {
 public:
  using Executor = typename Kernels::Executor;
  using Tables = StepTables<Kernels>;

  static void run(Executor& executor, const Arenas& arenas, const Tables& tables) {
    for (int s = 0; s < tables.step_count; ++s) run_step(executor, arenas, tables, tables.steps[s]);
  }

  /// A small program: every step is inlined, with its kernel and its offsets as constants.
  template <class Program, int... S>
  [[gnu::always_inline]] static inline void run_unrolled(Executor& executor, const Arenas& arenas,
                                                         std::integer_sequence<int, S...>) {
    [[maybe_unused]] constexpr Tables tables{Program::lowered.steps,   sizeof...(S),
                                             Program::lowered.calls,   Program::lowered.inputs,
                                             Program::lowered.outputs, Program::ranges.data()};
    (run_step(executor, arenas, tables, Program::lowered.steps[S]), ...);
  }

 private:
  [[gnu::always_inline]] static inline ElementRange prepare(const RegionCall& call, const Arenas& arenas,
                                                            const Tables& tables, ElementArguments& arguments) {
    for (int k = 0; k < call.inputs; ++k) {
      const RegionInput& input = tables.inputs[call.first_input + k];
      arguments.inputs[k] =
          ElementArguments::bind(static_cast<const float*>(arenas.at(input.place)), input.access, arenas.batch);
    }
    for (int k = 0; k < call.outputs; ++k)
      arguments.outputs[k] = arenas.writable(tables.outputs[call.first_output + k]);
    arguments.total = call.total * (call.batched ? arenas.batch : 1);
    arguments.block = call.block > 0 ? call.block : arguments.total;
    return tables.ranges[call.program];
  }

  [[gnu::always_inline]] static inline void run_step(Executor& executor, const Arenas& arenas, const Tables& tables,
                                                     const Step<Kernels>& step) {
    ElementArguments arguments;
    if (step.kind == Kind::element) {
      const ElementRange range = prepare(tables.calls[step.region], arenas, tables, arguments);
      return run_element(executor, range, arguments);
    }
    ElementArguments behind;
    RegionEpilogue region{};
    Epilogue epilogue;
    if (step.epilogue >= 0) {
      region = {prepare(tables.calls[step.epilogue], arenas, tables, behind), &behind};
      epilogue = region.epilogue();
    }
    float* const result = arenas.writable(step.result);
    if (step.kind == Kind::reduction) {
      const ElementRange range = prepare(tables.calls[step.region], arenas, tables, arguments);
      return run_reduce(executor, step.role, range, arguments, step.sum.inner,
                        step.sum.count * (step.sum.batched ? arenas.batch : 1), result, epilogue);
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

/// A program with its memory: activations for the largest batch met so far, values without a batch, and the numbers
/// that are set before a run. Parameters, gradients and optimizer state belong to the caller.
template <class Program>
class Execution {
 public:
  using Kernels = typename Program::Kernels;

  explicit Execution(typename Kernels::Executor& executor) : executor_(&executor) {
    fixed_.grow(Program::fixed_floats);
    numbers_.grow(static_cast<long>(Program::numbers.size()));
    if constexpr (requires { executor.reserve_scratch(Program::lowered.scratch); })
      executor.reserve_scratch(Program::lowered.scratch);
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::constant) number = entry.value;
    });
    arenas_[Arena::fixed] = fixed_.data();
    arenas_[Arena::numbers] = numbers_.data();
  }

  /// Numbers of a run that are not constants: those named `scalar`, and the seed.
  void set_scalars(const float* scalars, std::uint64_t seed) {
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::scalar) number = scalars[entry.index];
      if (entry.source == Source::seed) {
        const auto half = static_cast<std::uint32_t>(entry.index == 0 ? seed : seed >> 32);
        std::memcpy(&number, &half, sizeof half);
      }
    });
  }

  /// Where parameters, gradients, buffers, states and inputs are; the caller sets them.
  Arenas& arenas() { return arenas_; }

  /// Runs the program.
  void run(int batch) {
    if (batch != arenas_.batch) prepare(batch);
    constexpr int steps = Program::lowered.used.steps;
    if constexpr (steps <= 4)
      StepRunner<Kernels>::template run_unrolled<Program>(*executor_, arenas_,
                                                          std::make_integer_sequence<int, steps>{});
    else
      StepRunner<Kernels>::run(*executor_, arenas_,
                               {Program::lowered.steps, steps, Program::lowered.calls, Program::lowered.inputs,
                                Program::lowered.outputs, Program::ranges.data()});
  }

  /// Result `index` of the last run.
  const float* result(int index) const {
    return static_cast<const float*>(arenas_.at(Program::results[static_cast<std::size_t>(index)]));
  }

  /// Floats held for activations and values without a batch.
  long memory_floats() const { return per_sample_.size() + fixed_.size(); }

 private:
  void prepare(int batch) {
    per_sample_.grow(Program::per_sample_floats * batch);
    arenas_.batch = batch;
    arenas_[Arena::per_sample] = per_sample_.data();
    for_each_number([&](const NumberEntry& entry, float& number) {
      if (entry.source == Source::reciprocal_count)
        number = static_cast<float>(1.0 / (static_cast<double>(batch) * entry.index));
    });
  }

  template <class Function>
  void for_each_number(Function function) {
    int at = 0;
    for (const NumberEntry& entry : Program::numbers) function(entry, numbers_.data()[at++]);
  }

  typename Kernels::Executor* executor_;
  Buffer per_sample_, fixed_, numbers_;
  Arenas arenas_{};
};

}  // namespace tenet
