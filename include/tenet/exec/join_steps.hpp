#pragma once

#include <tenet/exec/memory_access.hpp>

/// Steps of a program that one loop does: sums where their terms are at hand, and small regions.
namespace tenet {

namespace detail {

/// Sums over the rows of a matrix, as batch norm's, read large values for a few numbers: what they cost is reading. The
/// pass takes a sum to the nearest step before it that goes through the same elements, if they read the same values or
/// the sum reads what that step stores, and no step between them needs the one order: to a region, alone or behind a
/// kernel that does not do it itself, or to another sum. One loop does both then. So a batch norm's gradient is two
/// loops: the gradient of what is behind it is stored and summed, alone and times (x - mean); the gradient of x is
/// stored, and summed for the convolution's bias.
///
/// The sum of (x - mean)² cannot begin before the mean is there, but its value follows from sums about any other
/// number: it is joined with that of x as `Wiring::moments`.
///
/// Of regions over a few numbers, as the statistics and parameters of a batch norm, those that follow each other become
/// one: of such a loop nothing costs but its start.
///
/// A step is one unit of work, and the region behind it another one. Sums have a region in front: it is their unit's.
template <class G, class Order, class Plan, class Device, LoweredSize room>
struct JoinStepsPass {
  /// How many units are looked through, back from a sum.
  static constexpr int window = 24;

  const G& g;
  const Order& order;
  const Plan& plan;
  Lowered<Device, room> given;  ///< joined calls and their programs are added

  struct Unit {
    int step = 0, region = -1;
    bool is_behind = false;  ///< the region behind the step
    bool is_joined = false;  ///< `region` does what another unit did, too
    bool is_taken = false;   ///< another unit does it
    Role role = Role::store;
    Access sum{};
  };
  Unit units[2 * room.steps + 2]{};
  int count = 0;

  constexpr const Step<Device>& step_of(const Unit& unit) const { return given.steps[unit.step]; }
  constexpr const RegionProgram<Device>& program_of(const Unit& unit) const {
    return given.programs[given.calls[unit.region].program];
  }
  constexpr bool is_sum(const Unit& unit) const {
    const auto& step = step_of(unit);
    return !unit.is_behind && !unit.is_joined && !unit.is_taken && step.kind == Kind::reduction &&
           step.role == Role::sum_rows && !step.sum.batched;
  }
  /// Whether it is a region that stores, which may do more.
  constexpr bool stores(const Unit& unit) const {
    const auto& step = step_of(unit);
    if (unit.is_behind) return !step.pointwise;
    return step.kind == Kind::element && !step.relayout.is_needed();
  }

  /// The unit's work as a step of its own.
  constexpr Step<Device> as_step(const Unit& unit) const {
    Step<Device> step = step_of(unit);
    if (unit.is_behind || unit.is_joined) {
      step = {};
      step.number = step_of(unit).number;
      step.name = step_of(unit).name;
      step.region = unit.region;
      step.sum = unit.sum;
      step.role = unit.role;
    }
    step.epilogue = -1;
    return step;
  }

  constexpr bool conflicts(const Unit& unit, const MemoryAccess& access) const {
    bool found = false;
    if (!unit.is_taken)
      for_each_access(g, order, given, as_step(unit), 0,
                      [&](const MemoryAccess& other) { found = found || conflict(access, other); });
    return found;
  }

  /// Which operand of an operation of a's region has what the other region reads: an output that is stored, as in
  /// `Wiring::source`; or `none`.
  static constexpr int none = 1000;
  constexpr int stored_by(const Unit& a, const RegionInput& input) const {
    if (!stores(a) || !input.access.full) return none;
    const RegionCall& call = given.calls[a.region];
    const Wiring& wiring = program_of(a).wiring;
    for (int k = 0; k < wiring.stored(); ++k)
      if (given.outputs[call.first_output + k] == input.place) return -1 - wiring.output[k];
    return none;
  }

  /// Whether sum b may be taken in front of unit a, or with it; `mean`: the place of an input that is not read then.
  constexpr bool may_pass(const Unit& a, const Unit& b, bool with_it, const Place* mean = nullptr) const {
    const auto& sum = step_of(b);
    const RegionCall& call = given.calls[b.region];
    bool may = !conflicts(a, access_at(0, sum.result, sum.sum.count, true));
    for (int k = 0; k < call.inputs && may; ++k) {
      const RegionInput& input = given.inputs[call.first_input + k];
      if (input.place.arena == Arena::inputs || input.place.arena == Arena::numbers) continue;
      if ((with_it && stored_by(a, input) != none) || (mean != nullptr && input.place == *mean)) continue;
      may = !conflicts(a, read_by(0, call, input));
    }
    return may;
  }

  /// Whether sum b is that of (x - mean)², and sum a that of the same x, from which the region behind it makes the
  /// mean. Gives the mean's place.
  constexpr const Place* mean_between(const Unit& a, const Unit& b) const {
    if (!is_sum(a) || step_of(a).epilogue < 0) return nullptr;
    const RegionProgram<Device>&of_a = program_of(a), &of_b = program_of(b);
    const RegionCall &call_a = given.calls[a.region], &call_b = given.calls[b.region];
    if (of_a.wiring.operations != 0 || of_b.wiring.operations != 1 || of_b.wiring.inputs != 2 ||
        of_b.functions[0] != &element_thunk<ops::SquaredDifference, typename Device::Lane>)
      return nullptr;
    const RegionInput& x = given.inputs[call_b.first_input + of_b.wiring.source[0][0]];
    const RegionInput& mean = given.inputs[call_b.first_input + of_b.wiring.source[0][1]];
    const RegionInput& summed = given.inputs[call_a.first_input];
    const bool same = x.place == summed.place && x.access == summed.access && step_of(a).sum == step_of(b).sum;
    if (!same || mean.access.inner != 1 || mean.access.count != step_of(a).sum.count) return nullptr;
    // Behind a: mean = sum · 1/n.
    const RegionCall& behind = given.calls[step_of(a).epilogue];
    const RegionProgram<Device>& of_behind = given.programs[behind.program];
    for (int k = 0; k < behind.outputs; ++k) {
      const int operation = of_behind.wiring.output[k];
      if (operation < 0 || given.outputs[behind.first_output + k] != mean.place ||
          of_behind.functions[operation] != &element_thunk<ops::Multiply, typename Device::Lane>)
        continue;
      bool of_sum = false, by_count = false;
      for (int j = 0; j < 2; ++j) {
        const int from = of_behind.wiring.source[operation][j];
        if (from < 0) continue;
        const Place& place = given.inputs[behind.first_input + from].place;
        of_sum = of_sum || place == step_of(a).result;
        by_count = by_count || (place.arena == Arena::numbers && call_a.batched &&
                                plan.numbers[place.offset].source == Source::reciprocal_count &&
                                plan.numbers[place.offset].index == call_a.total / step_of(a).sum.count);
      }
      if (of_sum && by_count) return &given.outputs[behind.first_output + k];
    }
    return nullptr;
  }

  /// What joins the region of one unit with that of another one, which is to be done with it.
  struct Joint {
    RegionProgram<Device> program{};
    RegionCall call{};
    LoweredSize before{};              ///< what was used without it
    bool shares = false;               ///< both read one whole value, or the other one what the first stores
    int first_operation = 0;           ///< of the other one
    int operand[max_region_inputs]{};  ///< in the joint wiring, by the other one's inputs

    /// What the other one calls so in its wiring.
    constexpr int source(int from) const { return from >= 0 ? operand[from] : from - first_operation; }
  };

  /// Whether both go through the same elements, in their order.
  constexpr bool same_elements(const Unit& a, const Unit& b) const {
    const RegionCall &call_a = given.calls[a.region], &call_b = given.calls[b.region];
    return call_a.total == call_b.total && call_a.batched == call_b.batched &&
           program_of(a).wiring.turned_inputs == 0 && program_of(b).wiring.turned_inputs == 0;
  }

  /// Begins with the inputs, operations and outputs of unit a.
  constexpr Joint begin(const Unit& a, const Unit& b) {
    Joint joint;
    joint.before = given.used;
    joint.program = program_of(a);
    const RegionCall& call = given.calls[a.region];
    joint.call = call;
    joint.call.program = -1;
    joint.call.first_input = given.used.inputs;
    joint.call.first_output = given.used.outputs;
    joint.call.block = greatest_common_divisor(call.block, given.calls[b.region].block);
    for (int k = 0; k < call.inputs; ++k) given.inputs[given.used.inputs++] = given.inputs[call.first_input + k];
    for (int k = 0; k < call.outputs; ++k)
      given.outputs[given.used.outputs++] = is_sum(a) ? step_of(a).result : given.outputs[call.first_output + k];
    joint.first_operation = joint.program.wiring.operations;
    return joint;
  }
  /// Adds unit b's inputs and operations; false: they do not fit.
  constexpr bool add_operations(Joint& joint, const Unit& a, const Unit& b) {
    const RegionProgram<Device>& other = program_of(b);
    const RegionCall& from = given.calls[b.region];
    Wiring& wiring = joint.program.wiring;
    if (wiring.operations + other.wiring.operations > max_region_operations) return false;
    for (int k = 0; k < from.inputs; ++k) {
      const RegionInput& input = given.inputs[from.first_input + k];
      int& operand = joint.operand[k] = stored_by(a, input);
      for (int j = 0; j < joint.call.inputs && operand == none; ++j) {
        const RegionInput& known = given.inputs[joint.call.first_input + j];
        if (known.place == input.place && known.access == input.access) operand = j;
      }
      joint.shares = joint.shares || (operand != none && input.access.full);
      if (operand != none) continue;
      if (joint.call.inputs == max_region_inputs) return false;
      operand = joint.call.inputs++;
      wiring.uniform[operand] = other.wiring.uniform[k];
      wiring.narrow_inputs =
          static_cast<unsigned short>(wiring.narrow_inputs | other.wiring.input_is_narrow(k) << operand);
      wiring.repeated_inputs =
          static_cast<unsigned short>(wiring.repeated_inputs | other.wiring.input_is_repeated(k) << operand);
      given.inputs[given.used.inputs++] = input;
    }
    for (int i = 0; i < other.wiring.operations; ++i) {
      joint.program.functions[joint.first_operation + i] = other.functions[i];
      for (int j = 0; j < max_operands; ++j)
        wiring.source[joint.first_operation + i][j] = static_cast<signed char>(joint.source(other.wiring.source[i][j]));
    }
    wiring.operations = static_cast<signed char>(joint.first_operation + other.wiring.operations);
    return true;
  }
  /// Adds an output, in floats: what unit b calls so.
  constexpr void add_output(Joint& joint, const Unit& b, int k, const Place& to) {
    Wiring& wiring = joint.program.wiring;
    wiring.output[joint.call.outputs++] =
        static_cast<signed char>(-1 - joint.source(-1 - program_of(b).wiring.output[k]));
    given.outputs[given.used.outputs++] = to;
  }
  constexpr bool give_up(const Joint& joint) {
    given.used = joint.before;
    return false;
  }
  /// Unit a is the joint one; unit b has nothing to do any more.
  constexpr bool take(Unit& a, Unit& b, Joint& joint) {
    Wiring& wiring = joint.program.wiring;
    wiring.inputs = static_cast<signed char>(joint.call.inputs);
    wiring.outputs = static_cast<signed char>(joint.call.outputs);
    joint.program.sign();
    joint.call.program = given.program_index(joint.program);
    a.is_joined = b.is_taken = true;
    a.region = given.used.calls;
    given.calls[given.used.calls++] = joint.call;
    return true;
  }

  /// Joins sum b with unit a, if they read the same or one what the other stores.
  constexpr bool join_sum(Unit& a, Unit& b, bool as_moments) {
    const auto& sum = step_of(b);
    const bool joins_two_sums = is_sum(a), sums = joins_two_sums || a.role == Role::store_and_sum;
    const Wiring& before = program_of(a).wiring;
    if (!same_elements(a, b) || (sums && a.sum != sum.sum) || before.moments) return false;
    if (before.outputs == max_region_outputs) return false;
    Joint joint = begin(a, b);
    Wiring& wiring = joint.program.wiring;
    if (as_moments) {
      wiring.output[joint.call.outputs++] = wiring.output[0];
      given.outputs[given.used.outputs++] = sum.result;
    } else {
      if (!add_operations(joint, a, b) || !joint.shares) return give_up(joint);
      add_output(joint, b, 0, sum.result);
    }
    wiring.summed = static_cast<signed char>(wiring.summed + 1 + joins_two_sums);
    wiring.moments = as_moments;
    given.note_rows(wiring, joint.call, sum.sum.count);
    joint.program.role = a.role = Role::store_and_sum;
    a.sum = sum.sum;
    return take(a, b, joint);
  }

  /// Joins small region b with a, the unit before it, if that is one, too.
  constexpr bool join_region(Unit& a, Unit& b) {
    const auto is_small = [&](const Unit& unit) {
      return unit.role == Role::store && unit.region >= 0 && !given.calls[unit.region].batched &&
             (unit.is_behind ? step_of(unit).kind == Kind::reduction
                             : step_of(unit).kind == Kind::element && !step_of(unit).relayout.is_needed());
    };
    if (!is_small(a) || !is_small(b) || !same_elements(a, b)) return false;
    const RegionCall &call_a = given.calls[a.region], &call_b = given.calls[b.region];
    if (call_a.outputs + call_b.outputs > max_region_outputs) return false;
    for (int k = 0; k < call_b.inputs; ++k) {
      const RegionInput& input = given.inputs[call_b.first_input + k];
      for (int j = 0; j < call_a.outputs && stored_by(a, input) == none; ++j)
        if (conflict(access_at(0, given.outputs[call_a.first_output + j], call_a.size(), true),
                     read_by(0, call_b, input)))
          return false;
    }
    // What b writes, a's threads have read: each its own element.
    for (int k = 0; k < call_b.outputs; ++k) {
      const MemoryAccess write = access_at(0, given.outputs[call_b.first_output + k], call_b.size(), true);
      for (int j = 0; j < call_a.outputs; ++j)
        if (conflict(write, access_at(0, given.outputs[call_a.first_output + j], call_a.size(), true))) return false;
      for (int j = 0; j < call_a.inputs; ++j) {
        const RegionInput& input = given.inputs[call_a.first_input + j];
        const bool same = input.access.full && input.place == given.outputs[call_b.first_output + k];
        if (!same && conflict(write, read_by(0, call_a, input))) return false;
      }
    }
    Joint joint = begin(a, b);
    if (!add_operations(joint, a, b)) return give_up(joint);
    for (int k = 0; k < call_b.outputs; ++k) add_output(joint, b, k, given.outputs[call_b.first_output + k]);
    return take(a, b, joint);
  }

  /// Looks for a unit before that of a sum with which this may be joined.
  constexpr void take_back(int at) {
    Unit& sum = units[at];
    const int last = at > window ? at - window : 0;
    // The sum of x that (x - mean)² may go with: nothing between them gives x or the mean another value, which may lie
    // in the same place; but for the region behind that sum, from which the mean comes.
    const Place* mean = nullptr;
    for (int a = at - 1; a >= last && mean == nullptr; --a)
      if (mean = mean_between(units[a], sum); mean != nullptr) {
        bool free = true;
        for (int between = at - 1; between >= a && free; --between)
          free = may_pass(units[between], sum, false, between <= a + 1 ? mean : nullptr);
        if (free && join_sum(units[a], sum, true)) return;
      }
    for (int a = at - 1; a >= last; --a) {
      if (units[a].is_taken) continue;
      if ((stores(units[a]) || units[a].role == Role::store_and_sum || is_sum(units[a])) &&
          may_pass(units[a], sum, true) && join_sum(units[a], sum, false))
        return;
      if (!may_pass(units[a], sum, false)) return;
    }
  }

  /// A region of `from` that is needed: with its program.
  static constexpr int copy_call(const Lowered<Device, room>& from, Lowered<Device, room>& to, int number) {
    if (number < 0) return -1;
    RegionCall call = from.calls[number];
    const int first_input = to.used.inputs, first_output = to.used.outputs;
    for (int k = 0; k < call.inputs; ++k) to.inputs[to.used.inputs++] = from.inputs[call.first_input + k];
    for (int k = 0; k < call.outputs; ++k) to.outputs[to.used.outputs++] = from.outputs[call.first_output + k];
    call.first_input = first_input;
    call.first_output = first_output;
    call.program = to.program_index(from.programs[call.program]);
    to.calls[to.used.calls] = call;
    return to.used.calls++;
  }

  constexpr Lowered<Device, room> run() {
    for (int s = given.prepared_steps; s < given.first_update; ++s) {
      const auto& step = given.steps[s];
      Unit own, behind;
      own.step = behind.step = s;
      own.region = step.region;
      own.role = step.role;
      own.sum = step.sum;
      units[count++] = own;
      if (step.epilogue < 0) continue;
      behind.region = step.epilogue;
      behind.is_behind = true;
      units[count++] = behind;
    }
    for (int u = 0; u < count; ++u)
      if (is_sum(units[u])) take_back(u);
    bool any = false;
    for (int u = 1; u < count; ++u) {
      int before = u - 1;
      while (before > 0 && units[before].is_taken) --before;
      any = units[u].is_taken || join_region(units[before], units[u]) || any;
    }
    return any ? rebuilt() : given;
  }

  /// The program with joined steps, and without what nothing needs any more.
  constexpr Lowered<Device, room> rebuilt() const {
    Lowered<Device, room> result;
    result.scratch = given.scratch;
    result.in_groups = given.in_groups;
    const auto add = [&](Step<Device> step) {
      step.region = copy_call(given, result, step.region);
      step.epilogue = copy_call(given, result, step.epilogue);
      result.steps[result.used.steps++] = step;
    };
    for (int s = 0; s < given.prepared_steps; ++s) add(given.steps[s]);
    result.prepared_steps = result.used.steps;
    for (int u = 0; u < count; ++u) {
      const Unit& unit = units[u];
      if (unit.is_taken) continue;
      Step<Device> step = as_step(unit);
      const bool has_behind = u + 1 < count && units[u + 1].is_behind;
      if (has_behind && !unit.is_joined && !units[u + 1].is_joined) step.epilogue = units[++u].region;
      add(step);
    }
    result.first_update = result.used.steps;
    result.after_update = result.first_update + given.after_update - given.first_update;
    for (int s = given.first_update; s < given.used.steps; ++s) add(given.steps[s]);
    return result;
  }
};

}  // namespace detail

/// The program with sums joined, where the device can.
template <class G, class Order, class Plan, class Device, LoweredSize room>
constexpr Lowered<Device, room> join_steps(const G& graph, const Order& order, const Plan& plan,
                                           const Lowered<Device, room>& lowered) {
  if constexpr (joins_steps<Device> && Order::devices == 1)
    return detail::JoinStepsPass<G, Order, Plan, Device, room>{graph, order, plan, lowered}.run();
  else
    return lowered;
}

}  // namespace tenet
