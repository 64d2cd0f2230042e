#pragma once

#include <tenet/core/vector.hpp>
#include <tenet/device/cpu/lanes.hpp>
#include <tenet/device/cpu/workers.hpp>
#include <tenet/device/element.hpp>

/// Element-wise regions and sums on the CPU: one loop over vectors, compiled once for every distinct region. How work
/// is cut depends on shapes only, so that results are the same for any number of workers.
namespace tenet::cpu {

/// Elements of one task of an element-wise region, and of one partial sum.
inline constexpr long element_grain = 16384;

namespace detail {

/// a / b of numbers that are not negative, in 32 bits where they fit: that takes a third of the time on many machines.
inline long quotient(long a, long b) {
  return ((a | b) >> 32) == 0 ? static_cast<long>(static_cast<unsigned>(a) / static_cast<unsigned>(b)) : a / b;
}

/// The lanes of the last vector; the compiler is told that it is not a whole one.
inline int rest_of(long left) {
  if (left >= vector_width) __builtin_unreachable();
  return static_cast<int>(left);
}

/// The element of an input that element i of the region reads.
inline long element_of(const ElementArguments::Input& input, long i) {
  if (input.count == 0) return i;
  const long at = input.inner == 1 ? i : quotient(i, input.inner);
  return at < input.count ? at : at - quotient(at, input.count) * input.count;
}

// What follows is unrolled by folds, so that all values of a region stay in registers.

/// Where numbers lie that may be narrow.
template <bool narrow>
using Numbers = std::conditional_t<narrow, bfloat16, float>;
template <Wiring wiring, int k>
[[gnu::always_inline]] inline auto* input_numbers(const float* data) {
  return reinterpret_cast<const Numbers<wiring.input_is_narrow(k)>*>(data);
}
template <Wiring wiring, int k>
[[gnu::always_inline]] inline auto* output_numbers(float* data) {
  return reinterpret_cast<Numbers<wiring.output_is_narrow(k)>*>(data);
}

/// Where input k of the piece at i lies: element j at [j], if it is not uniform.
template <Wiring wiring, int k>
[[gnu::always_inline]] inline const float* find_input(const ElementArguments& arguments, long i) {
  const ElementArguments::Input& input = arguments.inputs[k];
  return reinterpret_cast<const float*>(input_numbers<wiring, k>(input.data) + element_of(input, i) -
                                        (wiring.uniform[k] ? 0 : i));
}

/// Where the inputs of a piece lie. Uniform ones are broadcast once.
template <Wiring wiring, int... K>
[[gnu::always_inline]] inline void find_inputs(const ElementArguments& arguments, long i, const float** data,
                                               Vector* inputs, std::integer_sequence<int, K...>) {
  ((data[K] = find_input<wiring, K>(arguments, i)), ...);
  ((inputs[K] = wiring.uniform[K] ? broadcast<Vector>(*input_numbers<wiring, K>(data[K])) : zero_lanes()), ...);
}

template <Wiring wiring, int... K>
[[gnu::always_inline]] inline void load_inputs(const float* const* data, const Vector* uniform, long j, int lanes,
                                               Vector* inputs, std::integer_sequence<int, K...>) {
  ((inputs[K] = wiring.uniform[K] ? uniform[K] : load_lanes(input_numbers<wiring, K>(data[K]) + j, lanes)), ...);
}

/// Output k of a region.
template <Wiring wiring, int k>
[[gnu::always_inline]] inline Vector output_of(const Vector* inputs, const Vector* values) {
  if constexpr (wiring.output[k] >= 0)
    return values[wiring.output[k]];
  else
    return inputs[-1 - wiring.output[k]];
}

template <Wiring wiring, int... K>
[[gnu::always_inline]] inline void store_outputs(const Vector* inputs, const Vector* values, float* const* outputs,
                                                 long j, int lanes, std::integer_sequence<int, K...>) {
  ((store_lanes(output_numbers<wiring, K>(outputs[K]) + j, output_of<wiring, K>(inputs, values), lanes)), ...);
}

/// The region at the elements j … j + lanes - 1: stores its outputs, or returns what is to be summed.
template <Role role, Wiring wiring, auto... functions>
[[gnu::always_inline]] inline Vector region_at(const float* const* data, const Vector* uniform, float* const* outputs,
                                               long j, int lanes) {
  Vector inputs[wiring.inputs + 1], values[sizeof...(functions) + 1];
  load_inputs<wiring>(data, uniform, j, lanes, inputs, std::make_integer_sequence<int, wiring.inputs>{});
  tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
  if constexpr (role == Role::store) {
    store_outputs<wiring>(inputs, values, outputs, j, lanes, std::make_integer_sequence<int, wiring.outputs>{});
    return zero_lanes();
  } else {
    return output_of<wiring, 0>(inputs, values);
  }
}

}  // namespace detail

template <Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  using namespace detail;
  const float* data[wiring.inputs + 1];
  Vector uniform[wiring.inputs + 1];
  float* outputs[max_region_outputs];
  for (int k = 0; k < wiring.outputs; ++k) outputs[k] = arguments.outputs[k];
  const long block = arguments.block;
  Vector sum = zero_lanes(), other = zero_lanes();  // two of them, as an addition takes four cycles
  for (long r = 0; r < repeat; ++r) {
    const long end = last + r * stride;
    for (long i = first + r * stride; i < end;) {
      const long block_end = i < block ? block : quotient(i, block) * block + block;
      const long stop = block_end < end ? block_end : end;
      find_inputs<wiring>(arguments, i, data, uniform, std::make_integer_sequence<int, wiring.inputs>{});
      if constexpr (role == Role::store) {
        for (; i + vector_width <= stop; i += vector_width)
          region_at<role, wiring, functions...>(data, uniform, outputs, i, vector_width);
        if (i < stop) region_at<role, wiring, functions...>(data, uniform, outputs, i, static_cast<int>(stop - i));
      } else if constexpr (role == Role::sum_rows) {
        float* const to = accumulator - (r * stride + first);
        for (; i + vector_width <= stop; i += vector_width)
          store(to + i, load(to + i) + region_at<role, wiring, functions...>(data, uniform, outputs, i, vector_width));
        if (const int lanes = rest_of(stop - i); lanes > 0) {
          const Vector value = region_at<role, wiring, functions...>(data, uniform, outputs, i, lanes);
          store_partial(to + i, load_partial(to + i, lanes) + value, lanes);
        }
      } else {
        for (; i + 2 * vector_width <= stop; i += 2 * vector_width) {
          sum += region_at<role, wiring, functions...>(data, uniform, outputs, i, vector_width);
          other += region_at<role, wiring, functions...>(data, uniform, outputs, i + vector_width, vector_width);
        }
        if (i + vector_width <= stop) {
          sum += region_at<role, wiring, functions...>(data, uniform, outputs, i, vector_width);
          i += vector_width;
        }
        if (const int lanes = rest_of(stop - i); lanes > 0) {
          const Vector value = region_at<role, wiring, functions...>(data, uniform, outputs, i, lanes);
          sum += select(first_lanes(lanes), value, zero_lanes());
        }
      }
      i = stop;
    }
  }
  if constexpr (role == Role::sum) accumulator[0] += horizontal_sum(sum + other);
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

/// Rows of a task of `sum_rows`.
constexpr long rows_of_chunk(long rows, long count) {
  constexpr long piece = 1024, most_chunks = 64;
  const long width = count < piece ? count : piece, chunk = (2 * element_grain + width - 1) / width;
  return chunk * most_chunks < rows ? (rows + most_chunks - 1) / most_chunks : chunk;
}

/// Floats of workspace for `run_reduce` of `total` elements: the sums of chunks of rows.
constexpr long workspace_reduce(const Workers*, Role role, long total, long inner, long count) {
  if (role != Role::sum_rows || count == 1) return 0;
  const long rows = total / (inner * count), chunk = rows_of_chunk(rows, count), chunks = (rows + chunk - 1) / chunk;
  return chunks > 1 ? chunks * count : 0;
}

/// result[c] = sum over r < rows of element r * count + c. Tasks are pieces of rows, as long as fits a cache beside
/// what they are added from, of some rows; sums of the same piece are then added in their order.
inline void sum_rows(Workers& workers, ElementRange range, const ElementArguments& arguments, long rows, long count,
                     float* result, Epilogue epilogue) {
  constexpr long piece = 1024;
  const long pieces = (count + piece - 1) / piece, chunk = rows_of_chunk(rows, count);
  const long chunks = (rows + chunk - 1) / chunk;
  float* const partial = chunks > 1 ? workers.workspace(chunks * count) : result;
  workers.for_each(static_cast<int>(pieces * chunks), [&](int task, int) {
    const long c = task % pieces * piece, last = c + piece < count ? c + piece : count, row = task / pieces * chunk;
    float* const to = partial + task / pieces * count;
    for (long i = c; i < last; ++i) to[i] = 0;
    range(arguments, row * count + c, row * count + last, count, row + chunk < rows ? chunk : rows - row, to + c);
    if (chunks == 1) epilogue(c, last);
  });
  if (chunks == 1) return;
  for (long c = 0; c < count; ++c) {
    float sum = 0;
    for (long i = 0; i < chunks; ++i) sum += partial[i * count + c];
    result[c] = sum;
  }
  epilogue(0, count);
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
  if (role == Role::sum_rows) return sum_rows(workers, range, arguments, outer, count, result, epilogue);
  // Results per task: enough elements to be worth a task.
  const long each = arguments.total / count, width = (element_grain + each - 1) / each;
  workers.for_each(static_cast<int>((count + width - 1) / width), [&](int task, int) {
    const long first = task * width, last = first + width < count ? first + width : count;
    for (long c = first; c < last; ++c) {
      result[c] = 0;
      range(arguments, c * inner, (c + 1) * inner, inner * count, outer, &result[c]);
    }
    epilogue(first, last);
  });
}

}  // namespace tenet::cpu
