#pragma once

#include <tenet/device/element.hpp>
#include <tenet/device/reference/serial.hpp>

/// Element-wise regions and sums on the reference device: one element after the other.
namespace tenet::reference {

namespace detail {

inline float read(const float* data, long i, bool narrow) {
  return narrow ? static_cast<float>(reinterpret_cast<const bfloat16*>(data)[i]) : data[i];
}
/// Which element of an input is read by element i of a region.
inline long element(const ElementArguments::Input& input, long i, bool turned) {
  if (input.repeats > 1) return i / (input.count * input.repeats) * input.count + i % input.count;
  if (!turned) return input.count != 0 ? i / input.inner % input.count : i;
  const long matrix = i / input.count, row = i % input.count / input.inner, column = i % input.inner;
  return matrix * input.count + column * (input.count / input.inner) + row;
}
inline void write(float* data, long i, float value, bool narrow) {
  if (narrow)
    reinterpret_cast<bfloat16*>(data)[i] = bfloat16(value);
  else
    data[i] = value;
}

/// The outputs of element i of a region.
template <Wiring wiring, auto... functions>
void evaluate_element(const ElementArguments& arguments, long i, float* outputs) {
  float inputs[wiring.inputs > 0 ? wiring.inputs : 1]{}, values[sizeof...(functions) + 1]{};
  for (int k = 0; k < wiring.inputs; ++k) {
    const ElementArguments::Input& input = arguments.inputs[k];
    inputs[k] = read(input.data, element(input, i, wiring.input_is_turned(k)), wiring.input_is_narrow(k));
  }
  tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
  for (int k = 0; k < wiring.outputs; ++k) {
    const int output = wiring.output[k];
    outputs[k] = output >= 0 ? values[output] : inputs[-1 - output];
  }
}

/// `Role::store_and_sum` for one of so many columns. Moments are sums about the column's first element: of numbers
/// that are about as large as their deviations.
template <Wiring wiring, auto... functions>
void store_and_sum_column(const ElementArguments& arguments, long column, long columns) {
  const long rows = arguments.total / columns;
  float sums[wiring.outputs]{}, values[wiring.outputs]{}, origin = 0;
  for (long row = 0; row < rows; ++row) {
    const long i = row * columns + column;
    evaluate_element<wiring, functions...>(arguments, i, values);
    if (wiring.moments && row == 0) origin = values[wiring.outputs - 1];
    for (int k = 0; k < wiring.outputs; ++k) {
      if (k < wiring.stored()) write(arguments.outputs[k], i, values[k], wiring.output_is_narrow(k));
      const float x = values[k] - origin;
      sums[k] += wiring.moments && k == wiring.outputs - 1 ? x * x : x;
    }
  }
  if (wiring.moments) {
    float& sum = sums[wiring.outputs - 2];
    const auto count = static_cast<float>(rows);
    sums[wiring.outputs - 1] -= sum * sum / count;
    sum += count * origin;
  }
  for (int k = wiring.stored(); k < wiring.outputs; ++k) arguments.outputs[k][column] = sums[k];
}

}  // namespace detail

template <Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  if constexpr (role == Role::store_and_sum) {
    for (long column = first; column < last; ++column)
      detail::store_and_sum_column<wiring, functions...>(arguments, column, stride);
  } else {
    for (long r = 0; r < repeat; ++r)
      for (long i = first; i < last; ++i) {
        const long at = i + r * stride;
        float outputs[wiring.outputs]{};
        detail::evaluate_element<wiring, functions...>(arguments, at, outputs);
        for (int k = 0; k < wiring.outputs; ++k) {
          if constexpr (role == Role::store)
            detail::write(arguments.outputs[k], at, outputs[k], wiring.output_is_narrow(k));
          else
            accumulator[role == Role::sum_rows ? i - first : 0] += outputs[k];
        }
      }
  }
}

/// Stores and sums, see `Role::store_and_sum`: each sum has a number for each of so many columns.
inline void run_store_and_sum(Serial&, ElementRange range, const ElementArguments& arguments, long columns) {
  range(arguments, 0, columns, columns, arguments.total / columns, nullptr);
}

inline void run_element(Serial&, ElementRange range, const ElementArguments& arguments) {
  range(arguments, 0, arguments.total, 0, 1, nullptr);
}

/// result[c] = sum over i with (i / inner) % count = c; `role` is sum_rows where inner = 1 and count > 1.
inline void run_reduce(Serial&, Role, ElementRange range, const ElementArguments& arguments, long inner, long count,
                       float* result, Epilogue epilogue) {
  const long outer = arguments.total / (inner * count);
  for (long c = 0; c < count; ++c) {
    result[c] = 0;
    range(arguments, c * inner, (c + 1) * inner, inner * count, outer, &result[c]);
  }
  epilogue(0, count);
}

}  // namespace tenet::reference
