#pragma once

#include <array>
#include <tenet/device/arguments.hpp>
#include <tenet/graph/memory_plan.hpp>
#include <tenet/ops/sum_over_workers.hpp>
#include <utility>

namespace tenet {

/// An operand of a region, and how it is read.
struct RegionInput {
  Place place{};
  Access access{};
};

/// One element-wise region of a program: which compiled loop, over what.
struct RegionCall {
  int program = -1;
  int first_input = 0, inputs = 0;    ///< in the program's list of region inputs
  int first_output = 0, outputs = 0;  ///< in the program's list of region outputs
  bool batched = false;
  bool in_groups = false;  ///< over groups of samples, see `Layout::samples_last`
  long total = 0;          ///< elements, of one sample or group if batched
  long block = 0;          ///< 0: the whole range

  constexpr long elements(long batch) const { return size() * (in_groups ? whole_groups(batch) : batched ? batch : 1); }
  /// Elements of one sample, if batched.
  constexpr long size() const { return in_groups ? total / sample_lanes : total; }
};

/// One step of a program: a region alone, a sum behind a region, or a kernel; the latter two with a region behind. Or
/// (kind element, no region) a copy of its operand to another layout.
template <class Device>
struct Step {
  Kind kind = Kind::element;
  int number = 0;  ///< of the scheduled step that it is, or that computes what it copies
  const char* name = "";
  typename Device::Kernel kernel = nullptr;
  int operand_count = 0;
  Place operands[max_operands]{};
  Place result{};
  int attribute = 0;
  int region = -1;    ///< of a region alone, or in front of a sum
  int epilogue = -1;  ///< the region behind a kernel or sum
  Access sum{};       ///< of a sum: where the result lies in the operand
  Relayout relayout{};
  Role role = Role::store;
  Cost flops{};
  long (*workspace)(long batch) = nullptr;  ///< of a kernel, if it needs any
  FreeRoom room{};                          ///< where that could be
};

/// A distinct region: what the device compiles one loop for.
template <class Device>
struct RegionProgram {
  using Function = typename Device::Lane (*)(typename Device::Lane, typename Device::Lane, typename Device::Lane,
                                             typename Device::Lane);
  Wiring wiring{};
  Role role = Role::store;
  Function functions[max_region_operations]{};
  unsigned signature = 0;  ///< differs for most different programs: comparing all of them would be slow

  constexpr void sign() {
    signature = static_cast<unsigned>(role) * 31u + static_cast<unsigned>(wiring.operations);
    for (int i = 0; i < wiring.operations; ++i)
      for (const signed char source : wiring.source[i]) signature = signature * 37u + static_cast<unsigned>(source);
    signature = signature * 41u + wiring.narrow_inputs * 5u + wiring.narrow_outputs + wiring.turned_inputs * 7u;
    signature = signature * 2u + wiring.sums_groups;
    for (int i = 0; i < wiring.inputs; ++i) signature = signature * 3u + wiring.uniform[i];
  }
  friend constexpr bool operator==(const RegionProgram& a, const RegionProgram& b) {
    if (a.signature != b.signature) return false;
    for (int i = 0; i < a.wiring.operations; ++i)
      if (a.functions[i] != b.functions[i]) return false;
    return a.role == b.role && a.wiring == b.wiring;
  }
};

/// Most distinct regions of one program.
inline constexpr int max_region_programs = 256;

/// How much room a lowered program takes.
struct LoweredSize {
  int steps = 0, calls = 0, inputs = 0, outputs = 0, programs = 0;
};

/// A program as constants that are read while it runs, and the distinct regions that the device compiles.
template <class Device, LoweredSize size>
struct Lowered {
  Step<Device> steps[size.steps + 1]{};
  RegionCall calls[size.calls + 1]{};
  RegionInput inputs[size.inputs + 1]{};
  Place outputs[size.outputs + 1]{};
  RegionProgram<Device> programs[size.programs + 1]{};
  LoweredSize used{};
  int prepared_steps = 0;  ///< the first ones, see `Schedule`
  /// The optimizer's steps over all parameters: all gradients are there before the first one.
  int first_update = 0, after_update = 0;
  long scratch = 0;        ///< floats that each worker needs
  bool in_groups = false;  ///< some values are in `Layout::samples_last`: there is room for whole groups of samples

  /// Samples of a batch for which the arena `per_sample` has room.
  constexpr long room_for(long batch) const { return in_groups ? whole_groups(batch) : batch; }
};

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

  constexpr bool is(int i, Kind kind) const { return g.nodes[i].operation && g.nodes[i].operation->kind == kind; }

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
    for (int k = 0; k < lowered.used.programs && call.program < 0; ++k)
      if (lowered.programs[k] == program) call.program = k;
    if (call.program < 0) {
      call.program = lowered.used.programs;
      lowered.programs[lowered.used.programs++] = program;
    }
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
    int members[2 * max_region_operations]{}, count = 0;
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
    if (converted >= 0 && summed < 0 && call.outputs < max_region_outputs && storage.layout[converted] == order)
      convert_result(call, program, space, order);
    return add(call, program);
  }

  /// Where and how a value lies.
  struct Form {
    Place place{};
    Layout layout = Layout::standard;
  };
  constexpr Form stored(int value) const { return {plan.place[value], storage.layout[value]}; }

  int step_number = 0;  ///< of the step that is being lowered
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
    const auto add_conversion = [&](const Conversion& c) {
      const Form from = stored(c.value);
      add_copy_step(from.layout == Layout::channels_last ? *g.nodes[c.value].type : *c.type, from, {c.place, c.layout},
                    c.step);
    };
    int conversion = 0;
    while (conversion < plan.conversion_count && plan.conversions[conversion].prepared)
      add_conversion(plan.conversions[conversion++]);
    lowered.prepared_steps = lowered.used.steps;
    int gradients = 0;  // the leaf that the optimizer's update reads: all gradients have to be there before
    while (gradients < n && g.nodes[gradients].source != Source::gradients) ++gradients;
    bool complete = false;
    for (int s = 0; s < order.count; ++s) {
      const int head = order.head[s];
      if (!complete && head > gradients) {
        complete = true;
        lowered.first_update = lowered.used.steps;
      }
      const auto& node = g.nodes[head];
      step_number = s;
      const int first_conversion = conversion;
      for (; conversion < plan.conversion_count && plan.conversions[conversion].step == s; ++conversion)
        if (plan.conversions[conversion].value != head) add_conversion(plan.conversions[conversion]);
      Step<Device> step;
      step.kind = node.operation->kind;
      step.number = s;
      step.name = node.operation->name;
      step.flops = node.operation->flops;
      step.result = plan.place[head];
      if (step.kind == Kind::element) {
        step.region = region(head, *node.type, Role::store, -1, 0);
      } else {
        step.kernel = node.operation->kernel;
        step.workspace = node.operation->workspace;
        step.room = plan.room[s];
        step.attribute = node.index;
        step.operand_count = node.operand_count;
        for (int j = 0; j < node.operand_count; ++j) step.operands[j] = plan.place[fusion.value[node.operands[j]]];
        for (int k = first_conversion; k < conversion; ++k) {
          const Conversion& c = plan.conversions[k];
          if (c.use != ConversionUse::result) continue;
          converted = head;
          computed = {c.place, c.layout};
          step.result = c.place;
        }
        const KernelNumbers& numbers = node.operation->numbers;
        for (int j = 0; j < node.operand_count && step.kind == Kind::kernel; ++j) {
          const TensorInfo* const type = g.nodes[node.operands[j]].type;
          for (int k = 0; k < plan.conversion_count; ++k) {
            const Conversion& c = plan.conversions[k];
            if (c.serves(s, fusion.value[node.operands[j]], type, numbers.operands, numbers.layout(*type)))
              step.operands[j] = c.place;
          }
        }
        if (node.operation->scratch > lowered.scratch) lowered.scratch = node.operation->scratch;
      }
      if (step.kind == Kind::reduction) {
        const TensorInfo& space = *g.nodes[node.operands[0]].type;
        const Layout order_of_sum = storage.order[head];
        step.sum = access_of(in_layout(space, order_of_sum), in_layout(*node.type, order_of_sum));
        step.role = step.sum.inner == 1 && step.sum.count > 1 ? Role::sum_rows : Role::sum;
        step.region = region(head, space, step.role, node.operands[0], step.sum.block());
      }
      // A region in another order than the result's, whose elements a kernel writes range by range, runs behind it.
      const int behind = step.kind != Kind::element ? fusion.epilogue[head] : -1;
      const Layout lies = converted == head ? computed.layout : storage.layout[head];
      const bool apart = behind >= 0 && storage.order[behind] != lies;
      const auto behind_region = [&] { return region(behind, *g.nodes[behind].type, Role::store, -1, 0); };
      if (behind >= 0 && !apart) step.epilogue = behind_region();
      const bool converts_behind =
          converted >= 0 && behind < 0 && node.operation->carries_epilogue && computed.layout == storage.layout[head];
      if (converts_behind) {
        step.epilogue = copy(*node.type, computed, stored(head));
        converted = -1;
      }
      lowered.steps[lowered.used.steps++] = step;
      const auto store = [&] {
        if (converted >= 0) add_copy_step(*node.type, computed, stored(head), s);
        converted = -1;
      };
      if (lies == Layout::samples_last) store();  // a region apart reads what is stored
      for (int k = first_conversion; k < conversion; ++k)
        if (plan.conversions[k].value == head && plan.conversions[k].use == ConversionUse::region)
          add_conversion(plan.conversions[k]);
      if (apart) {
        const int last = behind_region();
        add_region_step(g.nodes[behind].operation->name, last, s);
      }
      store();
      copies(true, order, s);
      if (s + 1 == order.prepared) lowered.prepared_steps = lowered.used.steps;
    }
    lowered.after_update = lowered.used.steps;
    if (!complete) lowered.first_update = lowered.after_update;
    copies(false, order, -1);
    return lowered;
  }

  /// Outputs whose value lies elsewhere: a region without operations. Gradients right behind the step that computes
  /// them, so that they can leave; the others at the end.
  constexpr void copies(bool of_gradients, const Schedule<n>& order, int behind) {
    for (int i = 0; i < G::output_count; ++i) {
      if (!plan.copied[i] || (g.outputs[i].destination == Destination::gradient) != of_gradients) continue;
      const int node = g.outputs[i].node, step = order.step[fusion.value[node]];
      if (of_gradients && step != behind) continue;
      const int value = fusion.value[node];
      add_copy_step(*g.nodes[value].type, stored(value), {plan.destination[i], Layout::standard}, step);
    }
  }
};

}  // namespace detail

/// Whether a step does nothing but bring numbers to another place.
template <class Lowered, class Step>
constexpr bool is_copy(const Lowered& lowered, const Step& step) {
  return step.kind == Kind::element &&
         (step.region < 0 || lowered.programs[lowered.calls[step.region].program].wiring.operations == 0);
}

/// Whether a step adds up numbers over all workers; their count is its attribute.
template <class Device>
constexpr bool is_sum_over_workers(const Step<Device>& step) {
  return step.kernel == &Instance<ops::SumOverWorkers, Scalar>::template run<Device>;
}

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
  for (int i = 0; i < G::count; ++i) room.outputs += fusion.stored[i] && graph.nodes[i].operation != nullptr;
  return room;
}

template <LoweredSize room, class G, class Plan>
constexpr auto lower(const G& graph, const Fusion<G::count>& fusion, const Storage<G::count>& storage,
                     const Schedule<G::count>& order, const Plan& plan) {
  return detail::LoweringPass<G, Plan, room>{graph, fusion, storage, plan}.run(order);
}

/// The same program without spare room: what is kept in the binary.
template <LoweredSize size, class Device, LoweredSize room>
constexpr auto trimmed(const Lowered<Device, room>& from) {
  Lowered<Device, size> to;
  for (int i = 0; i < size.steps; ++i) to.steps[i] = from.steps[i];
  for (int i = 0; i < size.calls; ++i) to.calls[i] = from.calls[i];
  for (int i = 0; i < size.inputs; ++i) to.inputs[i] = from.inputs[i];
  for (int i = 0; i < size.outputs; ++i) to.outputs[i] = from.outputs[i];
  for (int i = 0; i < size.programs; ++i) to.programs[i] = from.programs[i];
  to.used = size;
  to.prepared_steps = from.prepared_steps;
  to.first_update = from.first_update;
  to.after_update = from.after_update;
  to.scratch = from.scratch;
  to.in_groups = from.in_groups;
  return to;
}

}  // namespace tenet
