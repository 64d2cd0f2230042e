#pragma once

#include <array>
#include <utility>

#include <tenet/device/arguments.hpp>
#include <tenet/graph/memory_plan.hpp>

namespace tenet {

/// One element-wise region of a program: which compiled loop, over what.
struct RegionCall {
  int program = -1;
  Wiring wiring{};
  Place inputs[max_region_inputs]{};
  Access access[max_region_inputs]{};
  Place outputs[max_region_outputs]{};
  bool output_batched = false;
  bool batched = false;
  long total = 0;  ///< elements, of one sample if batched
  long block = 0;  ///< 0: the whole range
};

/// One step of a program: a region alone, a sum behind a region, or a kernel; the latter two with a region behind.
template <class Device>
struct Step {
  Kind kind = Kind::element;
  const char* name = "";
  typename Device::Kernel kernel = nullptr;
  int operand_count = 0;
  Place operands[max_operands]{};
  Place result{};
  int attribute = 0;
  int region = -1;    ///< of a region alone, or in front of a sum
  int epilogue = -1;  ///< the region behind a kernel or sum
  Access sum{};       ///< of a sum: where the result lies in the operand
  Role role = Role::store;
  Cost flops{};
};

/// A distinct region: what the device compiles one loop for.
template <class Device>
struct RegionProgram {
  using Function = typename Device::Lane (*)(typename Device::Lane, typename Device::Lane, typename Device::Lane,
                                             typename Device::Lane);
  Wiring wiring{};
  Role role = Role::store;
  Function functions[max_region_operations]{};
  friend constexpr bool operator==(const RegionProgram& a, const RegionProgram& b) {
    if (a.role != b.role || a.wiring != b.wiring) return false;
    for (int i = 0; i < a.wiring.operations; ++i)
      if (a.functions[i] != b.functions[i]) return false;
    return true;
  }
};

template <class Device, int Steps>
struct Lowered {
  Step<Device> steps[Steps > 0 ? Steps : 1]{};
  RegionCall calls[2 * Steps + 1]{};
  RegionProgram<Device> programs[2 * Steps + 1]{};
  int step_count = 0, call_count = 0, program_count = 0;
  long scratch = 0;  ///< floats that each worker needs
};

namespace detail {

template <class G, class Plan, int Steps>
struct LoweringPass {
  static constexpr int n = G::count;
  using Device = typename G::Context::Device;
  const G& g;
  const Fusion<n>& fusion;
  const Plan& plan;
  Lowered<Device, Steps> lowered{};

  constexpr bool is(int i, Kind kind) const { return g.nodes[i].operation && g.nodes[i].operation->kind == kind; }

  /// The index of an input of the region, added if it is new. Equal values read in the same way are one input.
  constexpr int input(RegionCall& call, const TensorInfo& reader, int node) {
    const int value = fusion.value[node];
    const Access how = access_of(reader, *g.nodes[node].type);
    for (int k = 0; k < call.wiring.inputs; ++k)
      if (call.inputs[k].arena == plan.place[value].arena && call.inputs[k].offset == plan.place[value].offset &&
          call.access[k] == how)
        return k;
    const int k = call.wiring.inputs++;
    call.inputs[k] = plan.place[value];
    call.access[k] = how;
    call.wiring.uniform[k] = how.uniform();
    call.block = greatest_common_divisor(how.block(), call.block);
    return k;
  }

  /// The region of `root` as a call; `space` is the type over which it is evaluated.
  constexpr int region(int root, const TensorInfo& space, Role role, int summed, long block) {
    RegionCall call;
    RegionProgram<Device> program;
    call.batched = space.batched;
    call.total = space.size();
    call.block = block;
    int members[2 * max_region_operations]{}, count = 0;  // rising order: operands before their consumers
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) members[count++] = fusion.member[m];
    for (int a = 0; a < count / 2; ++a) {
      const int other = members[a];
      members[a] = members[count - 1 - a];
      members[count - 1 - a] = other;
    }
    // -1 - k: operation k; k: input k. `type` is the reader's: it has the region's elements, perhaps in another shape.
    const auto value_of = [&](int node, const TensorInfo& type) -> int {
      const int value = fusion.value[node];
      for (int k = 0; k < count; ++k)
        if (members[k] == value) return -1 - k;
      return input(call, type, node);
    };
    for (int k = 0; k < count; ++k) {
      const auto& node = g.nodes[members[k]];
      program.functions[k] = node.operation->element;
      for (int j = 0; j < node.operand_count; ++j)
        call.wiring.source[k][j] = static_cast<signed char>(value_of(node.operands[j], *node.type));
      for (int j = node.operand_count; j < 4; ++j) call.wiring.source[k][j] = call.wiring.source[k][0];
      if (summed < 0 && fusion.stored[members[k]]) {
        call.wiring.output[call.wiring.outputs] = static_cast<signed char>(k);
        call.outputs[call.wiring.outputs++] = plan.place[members[k]];
      }
    }
    call.wiring.operations = static_cast<signed char>(count);
    if (summed >= 0) {
      call.wiring.output[0] = static_cast<signed char>(-1 - value_of(summed, space));
      call.wiring.outputs = 1;
    }
    program.wiring = call.wiring;
    program.role = role;
    call.program = -1;
    for (int k = 0; k < lowered.program_count; ++k)
      if (lowered.programs[k] == program) call.program = k;
    if (call.program < 0) {
      call.program = lowered.program_count;
      lowered.programs[lowered.program_count++] = program;
    }
    lowered.calls[lowered.call_count] = call;
    return lowered.call_count++;
  }

  constexpr Lowered<Device, Steps> run(const Schedule<n>& order) {
    for (int s = 0; s < order.count; ++s) {
      const int head = order.head[s];
      const auto& node = g.nodes[head];
      Step<Device> step;
      step.kind = node.operation->kind;
      step.name = node.operation->name;
      step.flops = node.operation->flops;
      step.result = plan.place[head];
      if (step.kind == Kind::element) {
        step.region = region(head, *node.type, Role::store, -1, 0);
      } else {
        step.kernel = node.operation->kernel;
        step.attribute = node.index;
        step.operand_count = node.operand_count;
        for (int j = 0; j < node.operand_count; ++j) step.operands[j] = plan.place[fusion.value[node.operands[j]]];
        if (node.operation->scratch > lowered.scratch) lowered.scratch = node.operation->scratch;
      }
      if (step.kind == Kind::reduction) {
        const TensorInfo& space = *g.nodes[node.operands[0]].type;
        step.sum = access_of(space, *node.type);
        step.role = step.sum.inner == 1 && step.sum.count > 1 ? Role::sum_rows : Role::sum;
        step.region = region(head, space, step.role, node.operands[0], step.sum.block());
      }
      if (step.kind != Kind::element && fusion.epilogue[head] >= 0)
        step.epilogue = region(fusion.epilogue[head], *g.nodes[fusion.epilogue[head]].type, Role::store, -1, 0);
      lowered.steps[lowered.step_count++] = step;
    }
    copies();
    return lowered;
  }

  /// Outputs whose value lies elsewhere: a region without operations.
  constexpr void copies() {
    for (int i = 0; i < G::output_count; ++i) {
      if (!plan.copied[i]) continue;
      RegionCall call;
      const int value = fusion.value[g.outputs[i].node];
      call.total = g.nodes[value].type->size();
      call.wiring.inputs = call.wiring.outputs = 1;
      call.wiring.output[0] = -1;
      call.inputs[0] = plan.place[value];
      call.access[0] = access_of(*g.nodes[value].type, *g.nodes[value].type);
      call.outputs[0] = plan.destination[i];
      RegionProgram<Device> program;
      program.wiring = call.wiring;
      for (int k = 0; k < lowered.program_count; ++k)
        if (lowered.programs[k] == program) call.program = k;
      if (call.program < 0) {
        call.program = lowered.program_count;
        lowered.programs[lowered.program_count++] = program;
      }
      Step<Device> step;
      step.name = "copy";
      step.region = lowered.call_count;
      lowered.calls[lowered.call_count++] = call;
      lowered.steps[lowered.step_count++] = step;
    }
  }
};

}  // namespace detail

/// Steps of `graph` plus one for each copied output.
template <int Steps, class G, class Plan>
constexpr auto lower(const G& graph, const Fusion<G::count>& fusion, const Schedule<G::count>& order, const Plan& plan) {
  return detail::LoweringPass<G, Plan, Steps>{graph, fusion, plan}.run(order);
}

}  // namespace tenet
