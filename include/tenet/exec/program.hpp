#pragma once

#include <tenet/core/same_address.hpp>
#include <tenet/device/element.hpp>
#include <tenet/exec/lower.hpp>
#include <tenet/graph/batch_sums.hpp>
#include <tenet/graph/device_schedule.hpp>
#include <tenet/graph/recompute.hpp>

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

/// A definition may bound its memory: bytes a sample that its plan takes at most.
template <class Definition>
inline constexpr long memory_bound_of = [] {
  if constexpr (requires { Definition::memory_bound; })
    return Definition::memory_bound;
  else
    return 0L;
}();

/// A definition may spread its steps over several devices, see graph/device_schedule.hpp.
template <class Definition>
inline constexpr int devices_of = [] {
  if constexpr (requires { Definition::devices; })
    return Definition::devices;
  else
    return 1;
}();

namespace detail {
/// The graph that is planned: the traced one, or one that computes so much again as its bound asks for.
template <class Definition, const auto& traced>
constexpr auto bounded_graph() {
  if constexpr (memory_bound_of<Definition> == 0)
    return std::pair{traced, BoundedMemory{}};
  else
    return within_bound<traced, Definition::slots, memory_bound_of<Definition>, devices_of<Definition>>();
}
}  // namespace detail

/// What is traced for a definition; empty where the network has a mistake.
template <class Definition>
inline constexpr auto trace_of = detail::make_trace<Definition>();

/// What a definition says, on several devices.
template <class Definition, int Devices>
struct OnDevices : Definition {
  static constexpr int devices = Devices;
};
template <class Definition, int Devices>
inline constexpr auto& trace_of<OnDevices<Definition, Devices>> = trace_of<Definition>;

/// What a definition says, for workers that share a batch.
template <class Definition>
struct OnPartOfBatch : Definition {
  static constexpr bool is_on_part = true;
};
template <class Definition>
inline constexpr auto& trace_of<OnPartOfBatch<Definition>> = trace_of<Definition>;

/// A program: all that is known at compile time about one kind of run of a network. `Definition` says what is traced:
///
///     using Kernels                                   the device's kernels
///     static constexpr SlotTable<…> slots             parameters and buffers
///     template <int Nodes> static constexpr Trace<…> trace()
///     template <MistakeRecord> static constexpr bool explain()   stops the compilation with a sentence
///     template <class Kernels> using For              optional: the same definition for other kernels
///     static constexpr long memory_bound              optional: bytes a sample, see graph/recompute.hpp
///     static constexpr int devices                    optional: how many the steps are spread over
///     static constexpr bool is_on_part                optional: a part of a batch, see graph/batch_sums.hpp
///     static constexpr Text path_of_layer(int slot)   optional: of the layer that has the slot, for names of steps
///
/// Each pass is a constant of its own: trace → live nodes → graph → fusion → schedule → memory plan → steps.
template <class Definition_>
struct Program {
  using Definition = Definition_;
  using Kernels = typename Definition::Kernels;
  static constexpr auto& slots = Definition::slots;

  static constexpr const auto& trace = trace_of<Definition>;
  static_assert(Definition::template explain<trace.mistake>());

  /// Whether workers add up sums over a batch while they run it; results and gradients are parts of sums then.
  static constexpr bool is_on_part = requires { requires Definition::is_on_part; };

  static constexpr auto live = mark_live(trace);
  static constexpr auto live_graph = compact<live.count, trace.output_count>(trace, live);
  static constexpr const auto& traced_graph = detail::GraphOfWorker<live_graph, is_on_part>::graph;
  static constexpr auto bounded = detail::bounded_graph<Definition, traced_graph>();
  static constexpr const auto& graph = bounded.first;
  static constexpr auto fusion = fuse_for<devices_of<Definition>>(graph);
  static constexpr auto order = schedule_on<devices_of<Definition>>(graph, fusion);
  static constexpr auto storage = choose_layout(graph, fusion, order, choose_storage(graph, fusion));
  static constexpr auto plan = plan_memory(graph, fusion, storage, order, slots);
  static constexpr LoweredSize room = room_for(graph, fusion, storage, order, plan);
  static constexpr auto lowered_with_room = lower<room>(graph, fusion, storage, order, plan);
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
  /// Types of inputs and results; null where there is none.
  static constexpr auto input_types = [] {
    std::array<const TensorInfo*, 4> types{};
    for (const auto& node : graph.nodes)
      if (node.source == Source::input) types[static_cast<std::size_t>(node.index)] = node.type;
    return types;
  }();
  static constexpr auto result_types = [] {
    std::array<const TensorInfo*, 4> types{};
    for (const Output& output : graph.outputs)
      if (output.destination == Destination::result)
        types[static_cast<std::size_t>(output.index)] = graph.nodes[output.node].type;
    return types;
  }();
  static constexpr int result_count = [] {
    int count = 0;
    for (const TensorInfo* type : result_types) count += !is_null(type);
    return count;
  }();
  static constexpr bool writes_buffers = [] {
    bool found = false;
    for (const Output& output : graph.outputs) found = found || output.destination == Destination::buffer;
    return found;
  }();
  /// Of the optimizer, for each parameter.
  static constexpr int state_count = [] {
    int count = 0;
    for (const Output& output : graph.outputs) {
      if (output.destination == Destination::state && output.index >= count) count = output.index + 1;
      // Of one parameter: the k-th state of slot i has the number i + k·slots.
      if (output.destination == Destination::slot_state && output.index / slots.count >= count)
        count = output.index / slots.count + 1;
    }
    return count;
  }();
  static constexpr long per_sample_floats = plan.per_sample_floats, fixed_floats = plan.fixed_floats;

  /// Floating point operations of a run.
  static constexpr Cost flops = [] {
    Cost sum;
    for (int i = 0; i < graph.count; ++i)
      if (graph.nodes[i].is_computed()) {
        sum.per_sample += graph.nodes[i].operation->flops.per_sample;
        sum.fixed += graph.nodes[i].operation->flops.fixed;
      }
    return sum;
  }();
};

/// Whether the optimizer's steps leave parameters and states in their places, so that no step behind them brings these
/// there.
template <class Program>
constexpr bool updates_in_place() {
  for (int i = 0; i < Program::graph.output_count; ++i) {
    const Destination to = Program::graph.outputs[i].destination;
    if ((to == Destination::parameters || to == Destination::state) && Program::plan.copied[i]) return false;
  }
  return true;
}
/// Whether they are element-wise over all parameters, too, so that each part of them can be run alone.
template <class Program>
constexpr bool updates_by_elements() {
  if (!updates_in_place<Program>()) return false;
  for (int s = Program::lowered.first_update; s < Program::lowered.after_update; ++s) {
    const auto& step = Program::lowered.steps[s];
    if (step.kind != Kind::element || Program::lowered.calls[step.region].batched) return false;
  }
  return true;
}

/// Whether one of the update's steps is over all parameters; else over numbers that all such need, as 1 - beta.
template <class Program>
constexpr bool is_over_parameters(int step) {
  const int region = Program::lowered.steps[step].region;
  return region >= 0 && Program::lowered.calls[region].total == Program::slots.parameter_floats;
}

}  // namespace tenet
