#pragma once

#include <tenet/core/bfloat16.hpp>
#include <tenet/core/tensor_type.hpp>
#include <tenet/device/epilogue.hpp>
#include <tenet/ops/region.hpp>
#include <utility>

/// What a device's loop over an element-wise region is given.
namespace tenet {

/// One run of a region over a range of its elements. Pointers to inputs and outputs that `Wiring` calls narrow point to
/// `bfloat16`.
struct ElementArguments {
  struct Input {
    const float* data;
    long inner;  ///< element i reads data[(i / inner) % count]; count 0: data[i]; others if `Wiring` calls it turned
    long count;
  };
  /// An operand that a region reads as `access` says.
  static Input bind(const float* data, const Access& access, long batch) {
    return {data, access.inner, access.full ? 0 : access.count * (access.batched ? batch : 1)};
  }

  Input inputs[max_region_inputs];
  float* outputs[max_region_outputs];
  long total;     ///< elements of the region
  long block;     ///< within an aligned block of so many elements each input is contiguous, uniform, or, turned, spaced
  long complete;  ///< the elements of whole groups of samples; behind them is a group of `rest` samples
  int rest;
  void* executor;  ///< of a device that is told to run a loop instead of running it; else not set
};

/// The elements [first, last), [first + stride, last + stride), … `repeat` ranges in all; sums go to `accumulator`.
using ElementRange = void (*)(const ElementArguments&, long first, long last, long stride, long repeat,
                              float* accumulator);

/// A region behind a kernel that adds a bias to each row of the result, and perhaps takes the positive part: what
/// libraries do as they write. Nothing else reads the kernel's result, and the region has one output.
struct BiasForm {
  signed char input = -1;  ///< of the region: the bias; -1: it is another region
  bool relu = false;

  constexpr explicit operator bool() const { return input >= 0; }
};

/// A region behind a kernel, run on each range that the kernel has written; or done by the kernel as `bias` says.
struct RegionEpilogue {
  ElementRange range;
  const ElementArguments* arguments;
  BiasForm bias{};

  /// The region of an epilogue; null: it is none.
  static const RegionEpilogue* of(const Epilogue& epilogue) {
    return epilogue.run == &run ? static_cast<const RegionEpilogue*>(epilogue.state) : nullptr;
  }

  static void run(const void* state, long first, long last) {
    const auto& self = *static_cast<const RegionEpilogue*>(state);
    self.range(*self.arguments, first, last, 0, 1, nullptr);
  }
  Epilogue epilogue() const { return {&run, this}; }
};

namespace detail {

/// What operation Operation of a region reads as its operand.
template <Wiring wiring, int Operation, int Operand, class Lane>
[[gnu::always_inline]] constexpr Lane region_operand(const Lane* inputs, const Lane* values) {
  constexpr int from = wiring.source[Operation][Operand];
  if constexpr (from >= 0)
    return inputs[from];
  else
    return values[-1 - from];
}

template <Wiring wiring, auto... functions, class Lane, int... I>
[[gnu::always_inline]] constexpr void evaluate_operations(const Lane* inputs, Lane* values,
                                                          std::integer_sequence<int, I...>) {
  ((values[I] = functions(region_operand<wiring, I, 0>(inputs, values), region_operand<wiring, I, 1>(inputs, values),
                          region_operand<wiring, I, 2>(inputs, values), region_operand<wiring, I, 3>(inputs, values))),
   ...);
}

/// Evaluates a region for one Lane (a float or a vector of them): inputs -> the values of all operations.
template <Wiring wiring, auto... functions, class Lane>
[[gnu::always_inline]] constexpr void evaluate_region(const Lane* inputs, Lane* values) {
  if constexpr (sizeof...(functions) > 0)  // nvcc crashes on the empty sequence
    evaluate_operations<wiring, functions...>(inputs, values, std::make_integer_sequence<int, sizeof...(functions)>{});
}

}  // namespace detail
}  // namespace tenet
