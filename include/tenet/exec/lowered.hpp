#pragma once

#include <tenet/core/same_address.hpp>
#include <tenet/device/element.hpp>
#include <tenet/graph/memory_plan.hpp>
#include <tenet/ops/activation.hpp>
#include <tenet/ops/normalization.hpp>
#include <tenet/ops/sum_over_workers.hpp>

/// A program as constants: what is read while it runs.
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
  /// Lengths within a group are those of `sample_lanes` samples side by side: by how much they are too long for a batch
  /// whose samples lie one by one.
  constexpr long lanes_too_many(long batch) const { return in_groups && !lies_in_lanes(batch) ? sample_lanes : 1; }
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
  int region = -1;            ///< of a region alone, or in front of a sum
  int epilogue = -1;          ///< the region behind a kernel or sum
  PointwiseForm pointwise{};  ///< what that is, of devices whose kernels may do it
  Access sum{};               ///< of a sum, or the sums of `Role::store_and_sum`: where the result lies in the operand
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
    signature = signature * 11u + static_cast<unsigned>(2 * wiring.summed + wiring.moments) + wiring.rows * 3u +
                wiring.repeated_inputs * 23u;
    for (int i = 0; i < wiring.inputs; ++i) signature = signature * 3u + wiring.uniform[i];
  }
  friend constexpr bool operator==(const RegionProgram& a, const RegionProgram& b) {
    if (a.signature != b.signature) return false;
    for (int i = 0; i < a.wiring.operations; ++i)
      if (!same_address(a.functions[i], b.functions[i])) return false;
    return a.role == b.role && a.wiring == b.wiring;
  }
};

/// Which operation a function of a region is.
template <class Device>
constexpr Pointwise pointwise_of(typename RegionProgram<Device>::Function function) {
  using Lane = typename Device::Lane;
  if (same_address(function, &detail::element_thunk<ops::Add, Lane>)) return Pointwise::add;
  if (same_address(function, &detail::element_thunk<ops::Relu, Lane>)) return Pointwise::relu;
  if (same_address(function, &detail::element_thunk<ops::Normalize, Lane>)) return Pointwise::normalize;
  return Pointwise::other;
}

/// The form of a region whose input `result` is a kernel's result, and whose inputs `rows` are rows.
template <class Device>
constexpr PointwiseForm pointwise_form(const RegionProgram<Device>& program, int result, unsigned rows) {
  const Wiring& wiring = program.wiring;
  if (wiring.operations < 1 || wiring.operations > PointwiseForm::most || wiring.outputs != 1) return {};
  if (wiring.turned_inputs != 0 || wiring.output[0] != wiring.operations - 1) return {};
  PointwiseForm form;
  for (int k = 0; k < wiring.operations; ++k) {
    form.kinds[k] = pointwise_of<Device>(program.functions[k]);
    if (form.kinds[k] == Pointwise::other) return {};
    for (int j = 0; j < 4; ++j) form.source[k][j] = wiring.source[k][j];
  }
  form.operations = wiring.operations;
  form.result = static_cast<signed char>(result);
  form.rows = static_cast<unsigned short>(rows);
  form.narrow_inputs = wiring.narrow_inputs;
  form.narrow_output = wiring.output_is_narrow(0);
  return form;
}

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

  /// Notes which inputs of a region are rows, for a device that reads these once: one number for each of the columns
  /// that are summed.
  constexpr void note_rows(Wiring& wiring, const RegionCall& call, long columns) const {
    for (int k = 0; k < call.inputs; ++k) {
      const Access& how = inputs[call.first_input + k].access;
      const bool is_row = !how.full && !how.batched && !how.turned && how.inner == 1 && how.count == columns;
      wiring.rows = static_cast<unsigned short>(wiring.rows | is_row << k);
    }
  }

  /// The number of a program, which is added if it is new.
  constexpr int program_index(const RegionProgram<Device>& program) {
    for (int k = 0; k < used.programs; ++k)
      if (programs[k] == program) return k;
    programs[used.programs] = program;
    return used.programs++;
  }

  /// Samples of a batch for which the arena `per_sample` has room.
  constexpr long room_for(long batch) const { return in_groups ? whole_groups(batch) : batch; }
};

/// Whether a step does nothing but bring numbers to another place.
template <class Lowered, class Step>
constexpr bool is_copy(const Lowered& lowered, const Step& step) {
  return step.kind == Kind::element && step.role == Role::store &&
         (step.region < 0 || lowered.programs[lowered.calls[step.region].program].wiring.operations == 0);
}

/// Whether a step adds up numbers over all workers; their count is its attribute.
template <class Device>
constexpr bool is_sum_over_workers(const Step<Device>& step) {
  return same_address(step.kernel, &Instance<ops::SumOverWorkers, Scalar>::template run<Device>);
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
