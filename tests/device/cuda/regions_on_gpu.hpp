#pragma once

#include "../regions.hpp"
#include "agreement.hpp"
#include "tenet/device/cuda.hpp"
#include "tenet/device/cuda/element.hpp"
#include "tenet/device/reference.hpp"

/// Regions of tests by the kernels of a place: a GPU's, or the reference's.
namespace regions {

template <class Executor>
struct KernelsOf {
  using type = CudaKernels<Executor>;
};
template <>
struct KernelsOf<reference::Serial> {
  using type = ReferenceKernels;
};
template <class Place>
using KernelsAt = typename KernelsOf<typename Place::Executor>::type;

/// A region's arguments where the executor finds them. Bit k of `narrow`: operand k lies there as bfloat16.
template <class Case, class Place>
ElementArguments arguments_at(Place& place, const Numbers<Case>& numbers, long batch, long block, int narrow = 0) {
  ElementArguments arguments = numbers.arguments(batch, block);
  arguments.executor = &place.executor;
  for (int k = 0; k < 3; ++k) {
    std::vector<float> operand = numbers.operands[k];
    if (narrow >> k & 1) {
      auto* const halves = reinterpret_cast<bfloat16*>(operand.data());
      for (std::size_t i = 0; i < operand.size(); ++i) halves[i] = bfloat16(numbers.operands[k][i]);
    }
    arguments.inputs[k].data = place.keep(std::move(operand));
  }
  return arguments;
}

constexpr Wiring narrowed(Wiring wiring, int inputs, int outputs) {
  wiring.narrow_inputs = static_cast<unsigned short>(inputs);
  wiring.narrow_outputs = static_cast<unsigned char>(outputs);
  return wiring;
}

/// A region without operations, whose input is narrow or turned.
constexpr Wiring copy_of(bool narrow, bool turned) {
  Wiring made;
  made.inputs = made.outputs = 1;
  made.output[0] = -1;
  made.narrow_inputs = narrow;
  made.turned_inputs = turned;
  return made;
}

/// Narrow numbers as floats.
template <class Place>
void widen(Place& place, const float* from, long count, float* to) {
  constexpr Wiring copy = copy_of(true, false);
  ElementArguments arguments{};
  arguments.executor = &place.executor;
  arguments.inputs[0] = {from, 1, 0};
  arguments.outputs[0] = to;
  arguments.total = arguments.block = count;
  run_element(place.executor, KernelsAt<Place>::template element_range<Role::store, copy>, arguments);
}

using Neighbours = Case<Batched<4, 2, 8>, Batched<4, 2, 8>, Fixed<4, 1, 1>, Fixed<8>>;  // read eight or four at a time
using TwoRows = Case<Batched<3, 24>, Batched<3, 24>, Fixed<24>, Fixed<24>>;             // both found by one division

using Repeated = Case<Batched<3, 4, 8>, Batched<3, 4, 8>, Batched<1, 1, 8>, Fixed<8>>;  // a row for each sample

}  // namespace regions
