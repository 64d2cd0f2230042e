#pragma once

#include <tenet/exec/join_steps.hpp>
#include <tenet/exec/lowered.hpp>
#include <utility>

/// From a planned graph to the constants of a program.
namespace tenet {

namespace detail {

template <class G, class Plan, LoweredSize room>
struct LoweringPass {
  static constexpr int n = G::count;
  using Device = typename G::Context::Device;
  const G& g;
  const Fusion<n>& fusion;
  const Storage<n>& storage;
  const Plan& plan;
  Lowered<Device, room> lowered{};

  constexpr bool is(int i, Kind kind) const { return g.nodes[i].is(kind); }

  /// How elements of `space` with channels last, or not, read those of `type` that lie the other way round.
  static constexpr Access across(const TensorInfo& space, Layout order, const TensorInfo& type) {
    const bool channels_last = order == Layout::channels_last;
    return planes_of(channels_last ? space : type).turned(channels_last);
  }
  /// How a region over the elements of `space` reads a node for an operation whose result has the type `reader`.
  constexpr RegionInput read(const TensorInfo& space, Layout order, const TensorInfo& reader, int node) const {
    const TensorInfo& type = *g.nodes[node].type;
    const int value = fusion.value[node];
    const Form lies = value == converted ? computed : stored(value);
    const Access access = access_of(reader, type);
    if (!access.full) return {lies.place, access_of(in_layout(reader, order), in_layout(type, order))};
    if (lies.layout == order) return {lies.place, access};
    if (lies.layout != Layout::samples_last && order != Layout::samples_last)
      return {lies.place, across(space, order, *g.nodes[value].type)};
    for (int k = 0; k < plan.conversion_count; ++k)
      if (plan.conversions[k].serves(step_number, value, &type, lies.place.dtype, order))
        return {plan.conversions[k].place, access};
    throw "a region reads a value in another layout, for which there is no copy";
  }

  /// The index of an input of the region, added if it is new. Equal values read in the same way are one input.
  constexpr int input(RegionCall& call, Wiring& wiring, const RegionInput& read) {
    return input(call, wiring, read.access, read.place);
  }
  constexpr int input(RegionCall& call, Wiring& wiring, const Access& how, const Place& place) {
    for (int k = 0; k < call.inputs; ++k) {
      const RegionInput& known = lowered.inputs[call.first_input + k];
      if (known.place == place && known.access == how) return k;
    }
    const int k = call.inputs++;
    lowered.inputs[lowered.used.inputs++] = {place, how};
    wiring.uniform[k] = how.uniform();
    if (place.dtype == DType::bfloat16)
      wiring.narrow_inputs = static_cast<unsigned short>(wiring.narrow_inputs | 1 << k);
    if (how.turned) wiring.turned_inputs = static_cast<unsigned short>(wiring.turned_inputs | 1 << k);
    if (how.repeats > 1) wiring.repeated_inputs = static_cast<unsigned short>(wiring.repeated_inputs | 1 << k);
    call.block = greatest_common_divisor(how.block(), call.block);
    return k;
  }

  constexpr void output(RegionCall& call, Wiring& wiring, int from, Place to) {
    if (to.dtype == DType::bfloat16)
      wiring.narrow_outputs = static_cast<unsigned char>(wiring.narrow_outputs | 1 << call.outputs);
    wiring.output[call.outputs++] = static_cast<signed char>(from);
    lowered.outputs[lowered.used.outputs++] = to;
  }

  /// Finishes a call: its program is found among those that exist, or added.
  constexpr int add(RegionCall& call, RegionProgram<Device>& program) {
    program.wiring.inputs = static_cast<signed char>(call.inputs);
    program.wiring.outputs = static_cast<signed char>(call.outputs);
    program.sign();
    call.program = lowered.program_index(program);
    lowered.calls[lowered.used.calls] = call;
    return lowered.used.calls++;
  }

  constexpr RegionCall begin(const TensorInfo& space, Layout order, long block) {
    RegionCall call;
    call.first_input = lowered.used.inputs;
    call.first_output = lowered.used.outputs;
    call.batched = space.batched;
    call.in_groups = order == Layout::samples_last;
    lowered.in_groups = lowered.in_groups || call.in_groups;
    call.total = in_layout(space, order).size();
    call.block = call.in_groups ? greatest_common_divisor(block, call.total) : block;
    return call;
  }

  /// The region of `root` as a call; `space` is the type over which it is evaluated. In front of a sum the value of
  /// node `summed` is what counts, else the stored values are written.
  constexpr int region(int root, const TensorInfo& space, Role role, int summed, long block) {
    const Layout order = storage.order[root];
    RegionCall call = begin(space, order, block);
    RegionProgram<Device> program;
    program.role = role;
    program.wiring.sums_groups = role != Role::store && call.in_groups;
    int members[2 * max_fused_operations]{}, count = 0;
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) members[count++] = fusion.member[m];
    for (int a = 0; a < count / 2; ++a) std::swap(members[a], members[count - 1 - a]);  // operands before consumers
    // -1 - k: operation k; k: input k. `type` is the reader's: it has the region's elements, perhaps in another shape.
    const auto value_of = [&](int node, const TensorInfo& type) -> int {
      const int value = fusion.value[node];
      for (int k = 0; k < count; ++k)
        if (members[k] == value) return -1 - k;
      return input(call, program.wiring, read(space, order, type, node));
    };
    for (int k = 0; k < count; ++k) {
      const auto& node = g.nodes[members[k]];
      program.functions[k] = node.operation->element;
      for (int j = 0; j < max_operands; ++j)
        program.wiring.source[k][j] = j < node.operand_count
                                          ? static_cast<signed char>(value_of(node.operands[j], *node.type))
                                          : program.wiring.source[k][0];
      if (summed < 0 && fusion.stored[members[k]]) output(call, program.wiring, k, plan.place[members[k]]);
    }
    program.wiring.operations = static_cast<signed char>(count);
    if (summed >= 0) output(call, program.wiring, -1 - value_of(summed, space), {});
    if (joins_steps<Device> && role == Role::sum_rows) lowered.note_rows(program.wiring, call, block);
    if (converted >= 0 && summed < 0 && call.outputs < max_fused_outputs && storage.layout[converted] == order)
      convert_result(call, program, space, order);
    return add(call, program);
  }

  /// Where and how a value lies.
  struct Form {
    Place place{};
    Layout layout = Layout::standard;
  };
  constexpr Form stored(int value) const { return {plan.place[value], storage.layout[value]}; }

  int copied[G::output_count + 1]{}, copied_outputs = 0;  ///< outputs whose value lies elsewhere
  int step_number = 0;                                    ///< of the step that is being lowered
  int next_conversion = 0;                                ///< the first one of the steps behind it
  /// Of the kernel that is being lowered: its value if it is stored in another form than computed, else -1, and the
  /// form in which the kernel leaves it.
  int converted = -1;
  Form computed{};

  /// A region's further output: what the kernel before it has computed, where it is stored.
  constexpr void convert_result(RegionCall& call, RegionProgram<Device>& program, const TensorInfo& space,
                                Layout order) {
    const RegionInput from = read(space, order, *g.nodes[converted].type, converted);
    output(call, program.wiring, -1 - input(call, program.wiring, from), plan.place[converted]);
    converted = -1;
  }

  /// A region without operations: the elements of `from` at `to`.
  constexpr int copy(const TensorInfo& type, const Form& from, const Form& to) {
    RegionCall call = begin(type, from.layout == to.layout ? to.layout : Layout::standard, 0);
    RegionProgram<Device> program;
    const Access how = from.layout == to.layout ? access_of(type, type) : across(type, to.layout, type);
    output(call, program.wiring, -1 - input(call, program.wiring, how, from.place), to.place);
    return add(call, program);
  }
  constexpr void add_conversion(const Conversion& c) {
    const Form from = stored(c.value);
    add_copy_step(from.layout == Layout::channels_last ? *g.nodes[c.value].type : *c.type, from, {c.place, c.layout},
                  c.step);
  }
  constexpr void add_region_step(const char* name, int region, int number) {
    Step<Device> step;
    step.number = number;
    step.name = name;
    step.region = region;
    lowered.steps[lowered.used.steps++] = step;
  }
  constexpr void add_copy_step(const TensorInfo& type, const Form& from, const Form& to, int number) {
    const bool in_lanes = from.layout == Layout::samples_last || to.layout == Layout::samples_last;
    if (!in_lanes || from.layout == to.layout) return add_region_step("copy", copy(type, from, to), number);
    Step<Device> step;
    step.number = number;
    step.name = "copy";
    step.operand_count = 1;
    step.operands[0] = from.place;
    step.result = to.place;
    step.relayout = relayout_of(type, from.layout, to.layout);
    lowered.in_groups = true;
    lowered.steps[lowered.used.steps++] = step;
  }

  constexpr Lowered<Device, room> run(const Schedule<n>& order) {
    for (int i = 0; i < G::output_count; ++i)
      if (plan.copied[i]) copied[copied_outputs++] = i;
    while (next_conversion < plan.conversion_count && plan.conversions[next_conversion].prepared)
      add_conversion(plan.conversions[next_conversion++]);
    lowered.prepared_steps = lowered.used.steps;
    int gradients = 0;  // the leaf that the optimizer's update reads: all gradients have to be there before
    while (gradients < n && g.nodes[gradients].source != Source::gradients) ++gradients;
    bool complete = false;
    for (int s = 0; s < order.count; ++s) {
      if (!complete && order.head[s] > gradients) {
        complete = true;
        lowered.first_update = lowered.used.steps;
      }
      add_steps(order.head[s], s);
      copies(true, order, s);
      if (s + 1 == order.prepared) lowered.prepared_steps = lowered.used.steps;
    }
    lowered.after_update = lowered.used.steps;
    if (!complete) lowered.first_update = lowered.after_update;
    copies(false, order, -1);
    return lowered;
  }

  /// Scheduled step s, which computes `head`: copies of what it reads in another form, itself, and behind it what
  /// cannot be its epilogue.
  constexpr void add_steps(int head, int s) {
    step_number = s;
    const int first_conversion = next_conversion;
    while (next_conversion < plan.conversion_count && plan.conversions[next_conversion].step == s) ++next_conversion;
    const auto for_conversions = [&](auto&& visit) {
      for (int k = first_conversion; k < next_conversion; ++k) visit(plan.conversions[k]);
    };
    for_conversions([&](const Conversion& c) {
      if (c.value != head) add_conversion(c);
      if (c.use != ConversionUse::result) return;
      converted = head;
      computed = {c.place, c.layout};
    });
    Step<Device> step = step_of(head);
    // A region in another order than the result's, whose elements a kernel writes range by range, runs behind it.
    const int behind = step.kind != Kind::element ? fusion.epilogue[head] : -1;
    const Layout lies = converted == head ? computed.layout : storage.layout[head];
    const bool apart = behind >= 0 && storage.order[behind] != lies;
    const auto behind_region = [&] { return region(behind, *g.nodes[behind].type, Role::store, -1, 0); };
    const TensorInfo& type = *g.nodes[head].type;
    if (behind >= 0 && !apart) {
      step.epilogue = behind_region();
      if constexpr (requires { requires Device::kernels_add_bias; })
        if (fusion.absorbed[head] && converted < 0) step.pointwise = pointwise_behind(step, type, lies);
    }
    if (converted >= 0 && behind < 0 && g.nodes[head].operation->carries_epilogue && lies == storage.layout[head]) {
      step.epilogue = copy(type, computed, stored(head));
      converted = -1;
    }
    lowered.steps[lowered.used.steps++] = step;
    const auto store = [&] {
      if (converted >= 0) add_copy_step(type, computed, stored(head), s);
      converted = -1;
    };
    if (lies == Layout::samples_last) store();  // a region apart reads what is stored
    for_conversions([&](const Conversion& c) {
      if (c.value == head && c.use == ConversionUse::region) add_conversion(c);
    });
    if (apart) {
      const int last = behind_region();
      add_region_step(g.nodes[behind].operation->name, last, s);
    }
    store();
  }

  /// What the region behind a step does, if its device's kernels may do it: a bias of a product, and what is behind a
  /// convolution where the device fuses such.
  constexpr PointwiseForm pointwise_behind(const Step<Device>& step, const TensorInfo& type, Layout lies) const {
    const RegionCall& call = lowered.calls[step.epilogue];
    const RegionInput* const inputs = lowered.inputs + call.first_input;
    const TensorInfo laid = in_layout(type, lies);
    const long row = laid.rank > 0 ? laid.extents[laid.rank - 1] : 1;
    int result = -1;
    unsigned rows = 0;
    for (int k = 0; k < call.inputs; ++k) {
      const Access& how = inputs[k].access;
      if (how.full) {
        if (inputs[k].place == step.result) result = k;
      } else if (!how.batched && !how.turned && how.inner == 1 && how.count == row) {
        rows |= 1u << k;
      } else {
        return {};
      }
    }
    if (result < 0) return {};
    const PointwiseForm form = pointwise_form(lowered.programs[call.program], result, rows);
    if (lies == Layout::standard && form.bias() >= 0) return form;
    if constexpr (requires { requires Device::fuses_convolutions; })
      if (lies == Layout::channels_last) return form;
    return {};
  }

  /// The step that computes `head`, without what is behind it.
  constexpr Step<Device> step_of(int head) {
    const auto& node = g.nodes[head];
    Step<Device> step;
    step.kind = node.operation->kind;
    step.number = step_number;
    step.name = node.operation->name;
    step.flops = node.operation->flops;
    if (step.kind == Kind::element) {
      step.result = plan.place[head];
      step.region = region(head, *node.type, Role::store, -1, 0);
      return step;
    }
    step.result = converted == head ? computed.place : plan.place[head];
    step.kernel = node.operation->kernel;
    step.workspace = node.operation->workspace;
    step.room = plan.room[step_number];
    step.attribute = node.index;
    step.operand_count = node.operand_count;
    for (int j = 0; j < node.operand_count; ++j) step.operands[j] = operand(head, j);
    lowered.scratch = node.operation->scratch > lowered.scratch ? node.operation->scratch : lowered.scratch;
    if (step.kind == Kind::reduction) {
      const TensorInfo& space = *g.nodes[node.operands[0]].type;
      const Layout order = storage.order[head];
      step.sum = access_of(in_layout(space, order), in_layout(*node.type, order));
      step.role = step.sum.inner == 1 && step.sum.count > 1 ? Role::sum_rows : Role::sum;
      step.region = region(head, space, step.role, node.operands[0], step.sum.block());
    }
    return step;
  }

  /// Where a kernel finds operand j: perhaps a copy in the form that it reads.
  constexpr Place operand(int head, int j) const {
    const auto& node = g.nodes[head];
    const int value = fusion.value[node.operands[j]];
    const TensorInfo* const type = g.nodes[node.operands[j]].type;
    const KernelNumbers& numbers = node.operation->numbers;
    for (int k = 0; k < plan.conversion_count && node.operation->kind == Kind::kernel; ++k)
      if (plan.conversions[k].serves(step_number, value, type, numbers.operand(j), numbers.layout(*type)))
        return plan.conversions[k].place;
    return plan.place[value];
  }

  /// Outputs whose value lies elsewhere: a region without operations. Gradients right behind the step that computes
  /// them, so that they can leave; the others at the end.
  constexpr void copies(bool of_gradients, const Schedule<n>& order, int behind) {
    for (int c = 0; c < copied_outputs; ++c) {
      const int i = copied[c];
      if ((g.outputs[i].destination == Destination::gradient) != of_gradients) continue;
      const int node = g.outputs[i].node, step = order.step[fusion.value[node]];
      if (of_gradients && step != behind) continue;
      const int value = fusion.value[node];
      add_copy_step(*g.nodes[value].type, stored(value), {plan.destination[i], Layout::standard}, step);
    }
  }
};

}  // namespace detail

/// An upper bound of what a program takes: a step for each scheduled one, each copy and each region that may run apart.
template <class G, class Plan>
constexpr LoweredSize room_for(const G& graph, const Fusion<G::count>& fusion, const Storage<G::count>& storage,
                               const Schedule<G::count>& order, const Plan& plan) {
  LoweredSize room;
  room.programs = max_region_programs;
  room.steps = order.count + plan.conversion_count;
  for (const bool copied : plan.copied) room.steps += copied;
  for (int s = 0; s < order.count; ++s) {
    const int behind = fusion.epilogue[order.head[s]];
    room.steps += behind >= 0 && (storage.order[behind] != Layout::standard ||
                                  graph.nodes[order.head[s]].operation->numbers.turned != Turned::nothing);
  }
  room.calls = 2 * room.steps;
  room.inputs = room.outputs = room.steps;
  for (int m = 0; m < fusion.members; ++m) room.inputs += graph.nodes[fusion.member[m]].operand_count;
  for (int i = 0; i < G::count; ++i) room.outputs += fusion.stored[i] && graph.nodes[i].is_computed();
  for (int i = 0; i < G::count && joins_steps<typename G::Context::Device>; ++i) {
    if (!graph.nodes[i].is(Kind::reduction)) continue;
    ++room.calls, ++room.steps;
    room.inputs += max_region_inputs;
    room.outputs += max_region_outputs;
  }
  return room;
}

template <LoweredSize room, class G, class Plan>
constexpr auto lower(const G& graph, const Fusion<G::count>& fusion, const Storage<G::count>& storage,
                     const Schedule<G::count>& order, const Plan& plan) {
  return join_steps(graph, order, plan, detail::LoweringPass<G, Plan, room>{graph, fusion, storage, plan}.run(order));
}

}  // namespace tenet
