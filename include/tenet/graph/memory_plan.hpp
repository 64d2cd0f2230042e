#pragma once

#include <tenet/core/same_address.hpp>
#include <tenet/graph/free_ranges.hpp>
#include <tenet/graph/layout.hpp>
#include <tenet/graph/place.hpp>
#include <tenet/graph/slots.hpp>

namespace tenet {

/// Calls function(node) for what the region of `root`, or that in front of the sum `root`, reads element by element of
/// values that lie in another layout, where that cannot be read across.
template <class G, class Function>
constexpr void for_each_copied(const G& graph, const Fusion<G::count>& fusion, const Storage<G::count>& storage,
                               int root, Function function) {
  const Layout order = storage.order[root];
  const auto copied = [&](int reader, int operand) {
    const int value = fusion.value[operand];
    const Layout lies = storage.layout[value];
    if (lies == order || (lies != Layout::samples_last && order != Layout::samples_last)) return;
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m])
      if (fusion.member[m] == value) return;
    if (access_of(*graph.nodes[reader].type, *graph.nodes[operand].type).full) function(operand);
  };
  for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) {
    const auto& node = graph.nodes[fusion.member[m]];
    for (int j = 0; j < node.operand_count; ++j) copied(fusion.member[m], node.operands[j]);
  }
  const auto& node = graph.nodes[root];
  if (node.operation->kind == Kind::reduction) copied(node.operands[0], node.operands[0]);
}

/// Whether a device takes sums over the batch where their terms are at hand, see exec/join_steps.hpp.
template <class Kernels>
inline constexpr bool joins_steps = requires { requires Kernels::joins_steps; };

/// Most states of an optimizer.
inline constexpr int max_states = 8;

/// A number of the arena `numbers` that the program fills in.
struct NumberEntry {
  Source source = Source::constant;
  float value = 0;
  int index = 0;
};

/// Who needs a value in another form than it is stored in: a kernel as its operand or its result, a region or sum as
/// what it reads.
enum class ConversionUse : unsigned char { operand, result, region };

/// A value that is needed in another form than it is stored in: room for that during the step. Regions read narrow
/// numbers, and channels in another place, as they are; they have what has samples last copied, or to samples last.
///
/// Leaves, as weights, are converted once a run, for all kernels that read them; if they stay as they are from run to
/// run, once for all runs.
struct Conversion {
  int step = 0;  ///< of leaves the first one that reads it so
  int value = 0;
  const TensorInfo* type = nullptr;  ///< of the operand, the value itself or a view of it, or of the result
  Place place{};
  Layout layout = Layout::standard;
  ConversionUse use = ConversionUse::operand;
  bool lasts = false;     ///< of a leaf
  bool prepared = false;  ///< before the first run

  /// Whether it is what is read in a step of value `of`.
  constexpr bool serves(int in_step, int of, const TensorInfo* as, DType dtype, Layout wanted) const {
    return (step == in_step || lasts) && use != ConversionUse::result && value == of && type == as &&
           place.dtype == dtype && layout == wanted;
  }
};

/// Memory that holds nothing during a step: so many floats, of one sample in the arena `per_sample`.
struct Room {
  Place place{};
  long floats = 0;
};

/// What holds nothing during a step.
struct FreeRoom {
  Room largest[2]{};  ///< in `per_sample` and in `fixed`
  long end = -1;      ///< from there on all of `per_sample`, whose end may be moved; -1: another device's part follows
};

template <int Nodes, int Outputs, int Conversions>
struct MemoryPlan {
  Place place[Nodes]{};
  bool copied[Outputs]{};  ///< the output's value lies elsewhere and is copied at the end
  Place destination[Outputs]{};
  long per_sample_floats = 0, fixed_floats = 0;
  long unplanned_per_sample_floats = 0;  ///< with a buffer of its own for every value
  int reused_in_place = 0;
  NumberEntry numbers[Nodes]{};
  int number_count = 0;
  Conversion conversions[Conversions + 1]{};  ///< those that are prepared, and the others in the order of their steps
  int conversion_count = 0;
  FreeRoom room[Nodes]{};  ///< of each step that may have a workspace
};

namespace detail {

template <int Slots>
constexpr Place place_of_slot_state(const SlotTable<Slots>& slots, int index) {
  constexpr int count = Slots > 0 ? Slots : 1;  // a network without parameters has none to place
  return {Arena::states, index / count * slots.parameter_floats + slots.slots[index % count].offset};
}

}  // namespace detail

/// Gives every stored value its place. A place is given back after the last step that reads it; the result of a region
/// takes the place of an input that it reads element by element for the last time. Each device has a part of the arenas
/// for what its steps compute.
template <class G, int Slots, class Order>
constexpr auto plan_memory(const G& graph, const Fusion<G::count>& fusion, const Storage<G::count>& storage,
                           const Order& order, const SlotTable<Slots>& slots) {
  constexpr int n = G::count, forever = Schedule<n>::forever;
  using Device = typename G::Context::Device;
  constexpr bool converts = keeps_narrow_values<Device> || turns_images<Device>;
  MemoryPlan<n, G::output_count, converts ? (max_operands + 1) * n : 0> plan;
  bool placed[n]{};
  const auto floats = [&](int i, DType dtype) { return rounded_up(floats_of(graph.nodes[i].type->size(), dtype)); };
  const auto size_of = [&](int i) { return floats(i, storage.dtype[i]); };

  for (int i = 0; i < n; ++i) {
    const auto& node = graph.nodes[i];
    if (node.is_computed()) {
      if (node.operation->kind != Kind::view && node.type->batched)
        plan.unplanned_per_sample_floats += rounded_up(node.type->size());
      continue;
    }
    placed[i] = true;
    switch (node.source) {
      case Source::input:
        plan.place[i] = {Arena::inputs, node.index};
        break;
      case Source::parameter:
        plan.place[i] = {Arena::parameters, slots.slots[node.index].offset};
        break;
      case Source::buffer:
        plan.place[i] = {Arena::buffers, slots.slots[node.index].offset};
        break;
      case Source::parameters:
        plan.place[i] = {Arena::parameters, 0};
        break;
      case Source::gradients:
        plan.place[i] = {Arena::gradients, 0};
        break;
      case Source::state:
        plan.place[i] = {Arena::states, node.index * slots.parameter_floats};
        break;
      case Source::slot_state:
        plan.place[i] = detail::place_of_slot_state(slots, node.index);
        break;
      default:
        plan.place[i] = {Arena::numbers, plan.number_count};
        plan.numbers[plan.number_count++] = {node.source, node.value, node.index};
        if (node.source == Source::seed) plan.numbers[plan.number_count++] = {node.source, 0, 1};
    }
  }

  // The leaves that hold the old contents of parameters, buffers and states, + 1: a new value may not be written before
  // the last step that reads the old one, nor in it, but where that reads it element by element.
  int in_slot[Slots + 1]{}, in_state[max_states]{}, in_slot_state[max_states * Slots + 1]{}, in_parameters = 0;
  for (int i = 0; i < n; ++i) {
    const auto& leaf = graph.nodes[i];
    if (leaf.source == Source::parameter || leaf.source == Source::buffer) in_slot[leaf.index] = i + 1;
    if (leaf.source == Source::state) in_state[leaf.index] = i + 1;
    if (leaf.source == Source::slot_state) in_slot_state[leaf.index] = i + 1;
    if (leaf.source == Source::parameters) in_parameters = i + 1;
  }
  const auto old_value = [&](const Output& output) {
    switch (output.destination) {
      case Destination::buffer:
      case Destination::parameter:
        return in_slot[output.index] - 1;
      case Destination::state:
        return in_state[output.index] - 1;
      case Destination::slot_state:
        return in_slot_state[output.index] - 1;
      case Destination::parameters:
        return in_parameters - 1;
      default:
        return -1;
    }
  };
  const auto old_value_is_needed = [&](const Output& output, int step) {
    const int old = old_value(output);
    if (old < 0) return false;
    return order.last_use[old] > step || (order.last_use[old] == step && !order.in_place[old]);
  };
  bool kept[n]{};  // until the end, where it is copied

  // Values whose place is outside of the arenas: gradients, new parameters, new statistics.
  for (int i = 0; i < G::output_count; ++i) {
    const Output& output = graph.outputs[i];
    const int value = fusion.value[output.node];
    switch (output.destination) {
      case Destination::result:
      case Destination::table_tokens:
      case Destination::table_rows:
        continue;
      case Destination::gradient:
        plan.destination[i] = {Arena::gradients, slots.slots[output.index].offset};
        break;
      case Destination::buffer:
        plan.destination[i] = {Arena::buffers, slots.slots[output.index].offset};
        break;
      case Destination::parameters:
        plan.destination[i] = {Arena::parameters, 0};
        break;
      case Destination::state:
        plan.destination[i] = {Arena::states, output.index * slots.parameter_floats};
        break;
      case Destination::parameter:
        plan.destination[i] = {Arena::parameters, slots.slots[output.index].offset};
        break;
      case Destination::slot_state:
        plan.destination[i] = detail::place_of_slot_state(slots, output.index);
        break;
    }
    if (placed[value]) {  // a leaf, or one value for two destinations
      plan.copied[i] = true;
    } else if (old_value_is_needed(output, order.step[value])) {
      plan.copied[i] = kept[value] = true;
    } else {
      plan.place[value] = plan.destination[i];
      placed[value] = true;
    }
  }

  detail::FreeRanges per_sample[Order::devices], fixed[Order::devices];
  int next_expiring[n]{}, first_expiring[n + 1]{};
  for (int& first : first_expiring) first = -1;
  const auto ranges_at = [&](int i, int step) -> detail::FreeRanges& {
    return (graph.nodes[i].type->batched ? per_sample : fixed)[order.device_of(step)];
  };
  const auto ranges = [&](int i) -> detail::FreeRanges& { return ranges_at(i, order.step[i]); };
  const auto arena = [&](int i) { return graph.nodes[i].type->batched ? Arena::per_sample : Arena::fixed; };
  const auto expires = [&](int i) {
    if (order.last_use[i] >= forever || kept[i]) return;
    const int step = order.last_use[i] < order.step[i] ? order.step[i] : order.last_use[i];
    next_expiring[i] = first_expiring[step];
    first_expiring[step] = i;
  };
  bool taken[n]{};  // its place went on to another value
  const auto allocate = [&](int i) {
    if (placed[i]) return;
    placed[i] = true;
    plan.place[i] = {arena(i), ranges(i).take(size_of(i)), storage.dtype[i]};
    expires(i);
  };
  // If a node is read or written as `wanted`, but its value is stored in another form.
  const auto convert = [&](int node, DType wanted, Layout layout, int step, ConversionUse use) {
    const int value = fusion.value[node];
    const TensorInfo* const type = graph.nodes[node].type;
    if (type->dtype == DType::int32 || (storage.dtype[value] == wanted && storage.layout[value] == layout)) return;
    for (int k = 0; k < plan.conversion_count && use != ConversionUse::result; ++k)
      if (plan.conversions[k].serves(step, value, type, wanted, layout)) return;
    const Place place{arena(value), ranges_at(value, step).take(floats(value, wanted)), wanted};
    plan.conversions[plan.conversion_count++] = {
        step, value, type, place, layout, use, !graph.nodes[value].is_computed()};
  };
  const auto convert_operand = [&](const auto& node, int j, int step) {
    const KernelNumbers& numbers = node.operation->numbers;
    const int operand = node.operands[j];
    convert(operand, numbers.operand(j), numbers.layout(*graph.nodes[operand].type), step, ConversionUse::operand);
  };
  // What the region of `root` reads.
  const auto convert_read = [&](int root, int step) {
    for_each_copied(graph, fusion, storage, root, [&](int node) {
      convert(node, storage.dtype[fusion.value[node]], storage.order[root], step, ConversionUse::region);
    });
  };
  const auto is_element = [&](int i) { return graph.nodes[i].is(Kind::element); };

  // What is converted once for all runs has its room before everything that a run computes.
  for (int s = 0; converts && changes_nothing(graph) && s < order.count; ++s) {
    const auto& node = graph.nodes[order.head[s]];
    for (int j = 0; node.operation->kind == Kind::kernel && j < node.operand_count; ++j) {
      const auto& leaf = graph.nodes[fusion.value[node.operands[j]]];
      if (!leaf.is_computed() && leaf.source != Source::input) convert_operand(node, j, s);
    }
  }
  for (int k = 0; k < plan.conversion_count; ++k) plan.conversions[k].prepared = true;

  // Sums over the batch may be taken before their turn: nothing else has their places, which are small.
  for (int i = 0; joins_steps<Device> && i < n; ++i) {
    const auto& node = graph.nodes[i];
    if (!node.is(Kind::reduction) || node.type->batched || placed[i]) continue;
    placed[i] = true;
    plan.place[i] = {Arena::fixed, ranges(i).take(size_of(i)), storage.dtype[i]};
  }

  bool has_room[n]{};  // of each step
  long end_of_taken[n][2]{};
  for (int s = 0; s < order.count; ++s) {
    const int head = order.head[s];
    if (is_element(head)) {
      if (converts) convert_read(head, s);
      for (int m = fusion.first_member[head]; m >= 0; m = fusion.next_member[m]) {
        const int i = fusion.member[m];
        if (!fusion.stored[i] || placed[i]) continue;
        for (int k = fusion.first_member[head]; k >= 0 && !placed[i]; k = fusion.next_member[k]) {
          const auto& node = graph.nodes[fusion.member[k]];
          for (int j = 0; j < node.operand_count && !placed[i]; ++j) {
            const int input = fusion.value[node.operands[j]];
            if (!graph.nodes[input].is_computed() || !fusion.stored[input] || taken[input] || kept[input] || input == i)
              continue;
            if (order.last_use[input] != s || order.step[input] == s || !order.in_place[input]) continue;
            if (plan.place[input].arena > Arena::fixed || size_of(input) != size_of(i) || !storage.same_form(input, i))
              continue;
            placed[i] = taken[input] = true;
            plan.place[i] = plan.place[input];
            ++plan.reused_in_place;
            expires(i);
          }
        }
        allocate(i);
      }
    } else {
      const int epilogue = fusion.epilogue[head];
      const auto& node = graph.nodes[head];
      if (converts && node.operation->kind == Kind::kernel) {  // loops and sums read narrow values as they are
        const KernelNumbers numbers = node.operation->numbers;
        for (int j = 0; j < node.operand_count; ++j) convert_operand(node, j, s);
        convert(head, numbers.result, numbers.layout(*node.type), s, ConversionUse::result);
      }
      if (converts && node.operation->kind == Kind::reduction) convert_read(head, s);
      if (converts && epilogue >= 0) convert_read(epilogue, s);
      for (int m = epilogue >= 0 ? fusion.first_member[epilogue] : -1; m >= 0; m = fusion.next_member[m])
        if (fusion.stored[fusion.member[m]]) allocate(fusion.member[m]);
      // Not in the place of an old value, which the region behind may have to read.
      if (!placed[head] && fusion.absorbed[head] && !holds_old_values(plan.place[epilogue].arena) &&
          storage.same_form(head, epilogue))
        plan.place[head] = plan.place[epilogue];
      else
        allocate(head);
    }
    if (lends_workspace<Device> &&
        (!is_null(graph.nodes[head].operation->workspace) || graph.nodes[head].operation->kind == Kind::reduction)) {
      has_room[s] = true;
      for (int k = 0; k < 2; ++k) {
        const detail::FreeRanges& now = (k == 0 ? per_sample : fixed)[order.device_of(s)];
        plan.room[s].largest[k] = {{k == 0 ? Arena::per_sample : Arena::fixed, now.largest().offset},
                                   now.largest().size};
        end_of_taken[s][k] = now.end_of_taken();
      }
      if (Order::devices == 1) plan.room[s].end = end_of_taken[s][0];
    }
    for (int i = first_expiring[s]; i >= 0; i = next_expiring[i])
      if (!taken[i]) ranges(i).give_back(plan.place[i].offset, size_of(i));
    for (int k = plan.conversion_count - 1; k >= 0 && plan.conversions[k].step == s; --k) {
      const Conversion& c = plan.conversions[k];
      if (!c.lasts) ranges_at(c.value, s).give_back(c.place.offset, floats(c.value, c.place.dtype));
    }
  }
  for (int d = 0; d < Order::devices; ++d) {  // the parts one behind the other
    const auto move = [&](Place& place) {
      if (place.arena == Arena::per_sample) place.offset += plan.per_sample_floats;
      if (place.arena == Arena::fixed) place.offset += plan.fixed_floats;
    };
    for (int s = 0; s < order.count; ++s) {  // behind what is taken, up to where later steps make the arena end
      for (int k = 0; k < 2 && has_room[s] && order.device_of(s) == d; ++k) {
        Room& room = plan.room[s].largest[k];
        const long behind = (k == 0 ? per_sample : fixed)[d].top() - end_of_taken[s][k];
        if (behind > room.floats) room = {{room.place.arena, end_of_taken[s][k]}, behind};
        move(room.place);
      }
    }
    if (d > 0) {
      for (int i = 0; i < n; ++i)
        if (fusion.stored[i] && graph.nodes[i].is_computed() && order.device_of(order.step[i]) == d)
          move(plan.place[i]);
      for (int k = 0; k < plan.conversion_count; ++k)
        if (order.device_of(plan.conversions[k].step) == d) move(plan.conversions[k].place);
    }
    plan.per_sample_floats += per_sample[d].top();
    plan.fixed_floats += fixed[d].top();
  }
  return plan;
}

}  // namespace tenet
