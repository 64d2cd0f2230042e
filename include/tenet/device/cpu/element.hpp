#pragma once

#include <tenet/core/vector.hpp>
#include <tenet/device/cpu/workers.hpp>
#include <tenet/device/element.hpp>

/// Element-wise regions and sums on the CPU: one loop over vectors, compiled once for every distinct region. How work
/// is cut depends on shapes only, so that results are the same for any number of workers.
namespace tenet::cpu {

/// Elements of one task of an element-wise region, and of one partial sum.
inline constexpr long element_grain = 16384;

template <Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  constexpr int input_count = wiring.inputs > 0 ? wiring.inputs : 1;
  Vector sum = broadcast<Vector>(0.0f);
  for (long r = 0; r < repeat; ++r) {
    const long end = last + r * stride;
    for (long i = first + r * stride; i < end;) {
      const long block_end = i / arguments.block * arguments.block + arguments.block;
      const long stop = block_end < end ? block_end : end;
      const float* data[input_count]{};
      Vector inputs[input_count];
      for (int k = 0; k < wiring.inputs; ++k) {
        const ElementArguments::Input& input = arguments.inputs[k];
        const long at = input.count ? i / input.inner % input.count : i;
        data[k] = input.data + at - (wiring.uniform[k] ? 0 : i);
        if (wiring.uniform[k]) inputs[k] = broadcast<Vector>(*data[k]);
      }
      const auto at = [&](long j, int lanes) {
        for (int k = 0; k < wiring.inputs; ++k)
          if (!wiring.uniform[k])
            inputs[k] = lanes == vector_width ? load(data[k] + j) : load_partial(data[k] + j, lanes);
        Vector values[sizeof...(functions) + 1];
        tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
        for (int k = 0; k < wiring.outputs; ++k) {
          const Vector value = wiring.output[k] >= 0 ? values[wiring.output[k]] : inputs[-1 - wiring.output[k]];
          if constexpr (role == Role::store) {
            if (lanes == vector_width)
              store(arguments.outputs[k] + j, value);
            else
              store_partial(arguments.outputs[k] + j, value, lanes);
          } else if constexpr (role == Role::sum_rows) {
            float* const to = accumulator + (j - r * stride - first);
            if (lanes == vector_width)
              store(to, load(to) + value);
            else
              store_partial(to, load_partial(to, lanes) + value, lanes);
          } else {
            sum += lanes == vector_width ? value : select(first_lanes(lanes), value, Vector{});
          }
        }
      };
      for (; i + vector_width <= stop; i += vector_width) at(i, vector_width);
      if (i < stop) at(i, static_cast<int>(stop - i));
      i = stop;
    }
  }
  if constexpr (role == Role::sum) accumulator[0] += horizontal_sum(sum);
}

/// Runs a region over all of its elements.
inline void run_element(Workers& workers, ElementRange range, const ElementArguments& arguments) {
  if (arguments.total <= 2 * element_grain) return range(arguments, 0, arguments.total, 0, 1, nullptr);
  const long tasks = (arguments.total + element_grain - 1) / element_grain;
  workers.for_each(static_cast<int>(tasks), [&](int task, int) {
    const long first = task * element_grain;
    range(arguments, first, first + element_grain < arguments.total ? first + element_grain : arguments.total, 0, 1,
          nullptr);
  });
}

/// result[c] = sum over i with (i / inner) % count = c; `role` is sum_rows where inner = 1 and count > 1.
inline void run_reduce(Workers& workers, Role role, ElementRange range, const ElementArguments& arguments, long inner,
                       long count, float* result, Epilogue epilogue) {
  const long outer = arguments.total / (inner * count);
  if (count == 1) {  // partial sums over fixed chunks, added in their order
    constexpr int max_chunks = 64;
    float partial[max_chunks]{};
    long chunk = element_grain;
    while (chunk * max_chunks < arguments.total) chunk *= 2;
    const int chunks = static_cast<int>((arguments.total + chunk - 1) / chunk);
    workers.for_each(chunks, [&](int task, int) {
      const long first = task * chunk;
      range(arguments, first, first + chunk < arguments.total ? first + chunk : arguments.total, 0, 1, &partial[task]);
    });
    result[0] = 0;
    for (int i = 0; i < chunks; ++i) result[0] += partial[i];
    return epilogue(0, 1);
  }
  // Results per task: enough elements to be worth a task.
  const long each = arguments.total / count;
  long width = (element_grain + each - 1) / each;
  if (role == Role::sum_rows && width < 64) width = 64;
  const long tasks = (count + width - 1) / width;
  workers.for_each(static_cast<int>(tasks), [&](int task, int) {
    const long first = task * width, last = first + width < count ? first + width : count;
    for (long c = first; c < last; ++c) result[c] = 0;
    if (role == Role::sum_rows)
      range(arguments, first, last, count, outer, result + first);
    else
      for (long c = first; c < last; ++c)
        range(arguments, c * inner, (c + 1) * inner, inner * count, outer, &result[c]);
    epilogue(first, last);
  });
}

}  // namespace tenet::cpu
