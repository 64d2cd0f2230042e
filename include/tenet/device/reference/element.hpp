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

}  // namespace detail

template <Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  for (long r = 0; r < repeat; ++r)
    for (long i = first; i < last; ++i) {
      const long at = i + r * stride;
      float inputs[wiring.inputs > 0 ? wiring.inputs : 1]{}, values[sizeof...(functions) + 1]{};
      for (int k = 0; k < wiring.inputs; ++k) {
        const ElementArguments::Input& input = arguments.inputs[k];
        inputs[k] =
            detail::read(input.data, detail::element(input, at, wiring.input_is_turned(k)), wiring.input_is_narrow(k));
      }
      tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
      for (int k = 0; k < wiring.outputs; ++k) {
        const int output = wiring.output[k];
        const float value = output >= 0 ? values[output] : inputs[-1 - output];
        if constexpr (role == Role::store)
          detail::write(arguments.outputs[k], at, value, wiring.output_is_narrow(k));
        else
          accumulator[role == Role::sum_rows ? i - first : 0] += value;
      }
    }
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
