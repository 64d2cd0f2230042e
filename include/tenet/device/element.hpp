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
    long repeats = 1;  ///< more than 1: data[i / (count · repeats) · count + i % count]
  };
  /// An operand that a region reads as `access` says.
  static Input bind(const float* data, const Access& access, long batch) {
    if (access.repeats > 1) return {data, 1, access.count, access.repeats};
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

/// Stores the elements [first, last), with a stride of 0 and once; or sums them and [first + stride, last + stride), …,
/// `repeat` ranges in all, to `accumulator`.
using ElementRange = void (*)(const ElementArguments&, long first, long last, long stride, long repeat,
                              float* accumulator);

/// An operation of a region that libraries know, too: a + b, max(a, 0), (a - b)·c + d.
enum class Pointwise : signed char { other, add, relu, normalize };

/// A region behind a kernel that consists of these, for libraries that do it as they write. Nothing else reads the
/// kernel's result, the region has one output, that of its last operation, and reads whole values in the order of the
/// result and rows, one number for each column.
struct PointwiseForm {
  static constexpr int most = 8;

  signed char operations = 0;  ///< 0: it is another region
  signed char result = -1;     ///< the input that is the kernel's result
  Pointwise kinds[most]{};
  signed char source[most][4]{};     ///< as in `Wiring`
  unsigned short rows = 0;           ///< bit k: input k is a row
  unsigned short narrow_inputs = 0;  ///< bit k: input k lies in memory as `bfloat16`
  bool narrow_output = false;

  constexpr explicit operator bool() const { return operations > 0; }
  TENET_HOST_DEVICE constexpr bool is_row(int input) const { return (rows >> input & 1) != 0; }
  TENET_HOST_DEVICE constexpr bool is_narrow(int input) const { return (narrow_inputs >> input & 1) != 0; }
  constexpr bool ends_with_relu() const { return operations > 0 && kinds[operations - 1] == Pointwise::relu; }

  /// The input that the region adds to each row of the result, if it does that and at most takes the positive part of
  /// it, in floats; else -1.
  constexpr int bias() const {
    const bool adds = operations >= 1 && kinds[0] == Pointwise::add && narrow_inputs == 0 && !narrow_output;
    if (!adds || operations > 2 || (operations == 2 && !(ends_with_relu() && source[1][0] == -1))) return -1;
    const int other = source[0][0] == result ? source[0][1] : source[0][1] == result ? source[0][0] : -1;
    return other >= 0 && is_row(other) ? other : -1;
  }

  /// Element i of the output, where the kernel's result is `value`.
  TENET_HOST_DEVICE float at(const ElementArguments& arguments, long i, float value) const {
    float values[most] = {};
    const auto read = [&](int from) {
      if (from < 0) return values[-1 - from];
      if (from == result) return value;
      const ElementArguments::Input& input = arguments.inputs[from];
      const long element = is_row(from) ? i % input.count : i;
      return is_narrow(from) ? float{reinterpret_cast<const bfloat16*>(input.data)[element]} : input.data[element];
    };
    for (int k = 0; k < operations; ++k) {
      const float first = read(source[k][0]);
      if (kinds[k] == Pointwise::add)
        values[k] = first + read(source[k][1]);
      else if (kinds[k] == Pointwise::relu)
        values[k] = first > 0 ? first : 0;
      else
        values[k] = (first - read(source[k][1])) * read(source[k][2]) + read(source[k][3]);
    }
    return values[operations - 1];
  }
};

/// A region behind a kernel, run on each range that the kernel has written; or done by the kernel, if `form` says how.
struct RegionEpilogue {
  ElementRange range;
  const ElementArguments* arguments;
  const PointwiseForm* form = nullptr;

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
