#pragma once

#include <tenet/core/layout.hpp>
#include <tenet/core/vector.hpp>
#include <tenet/device/cpu/lanes.hpp>
#include <tenet/device/cpu/product.hpp>
#include <tenet/device/cpu/transpose.hpp>
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

inline long begin_of_block(long i, long block) { return i < block ? 0 : quotient(i, block) * block; }

/// The lanes of the last vector; the compiler is told that it is not a whole one.
inline int rest_of(long left) {
  if (left >= vector_width) __builtin_unreachable();
  return static_cast<int>(left);
}

/// The element of an input that element i of the region reads, where that is another. Not inlined: a region asks for it
/// once a block, at each of its inputs, which would be a quarter of its code.
[[gnu::noinline]] inline long element_elsewhere(const ElementArguments::Input& input, long i) {
  const long at = input.inner == 1 ? i : quotient(i, input.inner);
  return at < input.count ? at : at - quotient(at, input.count) * input.count;
}
/// The element of an input that element i of the region reads.
inline long element_of(const ElementArguments::Input& input, long i) {
  return input.count == 0 ? i : element_elsewhere(input, i);
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

/// Where the inputs of a block lie: element j of input k at data[k][j], or, turned, at data[k][j * distance[k]].
/// Uniform ones are broadcast once.
template <Wiring wiring>
struct BlockInputs {
  const float* data[wiring.inputs + 1];
  Vector uniform[wiring.inputs + 1];
  long distance[wiring.inputs + 1];
};

/// Finds input k of the block that element i belongs to.
template <Wiring wiring, int k>
[[gnu::always_inline]] inline void find_input(const ElementArguments& arguments, long i, BlockInputs<wiring>& block) {
  const ElementArguments::Input& input = arguments.inputs[k];
  const auto* const numbers = input_numbers<wiring, k>(input.data);
  if constexpr (wiring.uniform[k]) {
    block.uniform[k] = broadcast<Vector>(numbers[element_of(input, i)]);
  } else if constexpr (wiring.input_is_turned(k)) {
    const long matrix = quotient(i, input.count) * input.count, row = quotient(i - matrix, input.inner);
    block.distance[k] = quotient(input.count, input.inner);
    block.data[k] =
        reinterpret_cast<const float*>(numbers + matrix + row - (matrix + row * input.inner) * block.distance[k]);
  } else {
    block.data[k] = reinterpret_cast<const float*>(numbers + element_of(input, i) - i);
  }
}
template <Wiring wiring, int... K>
[[gnu::always_inline]] inline void find_inputs(const ElementArguments& arguments, long i, BlockInputs<wiring>& block,
                                               std::integer_sequence<int, K...>) {
  (find_input<wiring, K>(arguments, i, block), ...);
}

/// Whether each block reads the same elements of all inputs as the one before, or goes on in them.
[[gnu::noinline]] inline bool are_periodic(const ElementArguments& arguments, const Wiring& wiring) {
  for (int k = 0; k < wiring.inputs; ++k) {
    const ElementArguments::Input& input = arguments.inputs[k];
    if (wiring.input_is_turned(k)) return false;
    if (input.count > 1 && (input.inner != 1 || input.count != arguments.block)) return false;
  }
  return true;
}
/// Goes on to the block that begins `by` elements behind: with periodic inputs no index is computed.
template <Wiring wiring, int... K>
[[gnu::always_inline]] inline void move_inputs(const ElementArguments& arguments, long by, BlockInputs<wiring>& block,
                                               std::integer_sequence<int, K...>) {
  ((block.data[K] = wiring.uniform[K] || arguments.inputs[K].count == 0
                        ? block.data[K]
                        : reinterpret_cast<const float*>(input_numbers<wiring, K>(block.data[K]) - by)),
   ...);
}

/// The lanes of input k from element j on.
template <Wiring wiring, int k>
[[gnu::always_inline]] inline Vector load_input(const BlockInputs<wiring>& block, long j, int lanes) {
  if constexpr (wiring.uniform[k]) {
    return block.uniform[k];
  } else {
    const auto* const numbers = input_numbers<wiring, k>(block.data[k]);
    if constexpr (wiring.input_is_turned(k)) {
      float gathered[vector_width] = {};
      for (int u = 0; u < lanes; ++u) gathered[u] = static_cast<float>(numbers[(j + u) * block.distance[k]]);
      return load(gathered);
    } else {
      return load_lanes(numbers + j, lanes);
    }
  }
}
template <Wiring wiring, int... K>
[[gnu::always_inline]] inline void load_inputs(const BlockInputs<wiring>& block, long j, int lanes, Vector* inputs,
                                               std::integer_sequence<int, K...>) {
  ((inputs[K] = load_input<wiring, K>(block, j, lanes)), ...);
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
[[gnu::always_inline]] inline Vector region_at(const BlockInputs<wiring>& block, float* const* outputs, long j,
                                               int lanes) {
  Vector inputs[wiring.inputs + 1], values[sizeof...(functions) + 1];
  load_inputs<wiring>(block, j, lanes, inputs, std::make_integer_sequence<int, wiring.inputs>{});
  tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
  if constexpr (role == Role::store) {
    store_outputs<wiring>(inputs, values, outputs, j, lanes, std::make_integer_sequence<int, wiring.outputs>{});
    return zero_lanes();
  } else {
    return output_of<wiring, 0>(inputs, values);
  }
}

/// A copy of floats into another order.
template <Role role, Wiring wiring>
inline constexpr bool is_turning_copy =
    role == Role::store && wiring.operations == 0 && wiring.inputs == 1 && wiring.outputs == 1 &&
    wiring.turned_inputs == 1 && wiring.narrow_inputs == 0 && wiring.narrow_outputs == 0;

/// Copies the whole blocks of a turned input in [first, last), where the first begins, those of one matrix at a time;
/// returns where it stopped: at the first element of what is left, part of a block.
inline long copy_turned(const ElementArguments::Input& input, float* output, long first, long last) {
  const long block = input.inner, distance = quotient(input.count, block);
  while (first + block <= last) {
    const long matrix = quotient(first, input.count) * input.count, row = quotient(first - matrix, block);
    const long rows = smaller(distance - row, quotient(last - first, block));
    transpose_vectors(input.data + matrix + row, distance, block, rows, output + first, block);
    first += rows * block;
  }
  return first;
}

/// The sums of so many vectors of columns, which stay in registers over all rows. Inputs are periodic, and the columns
/// lie in one block.
template <int vectors, Wiring wiring, auto... functions>
void sum_columns(const ElementArguments& arguments, long first, long stride, long rows, float* accumulator) {
  constexpr std::make_integer_sequence<int, wiring.inputs> all_inputs{};
  BlockInputs<wiring> inputs{};
  find_inputs<wiring>(arguments, first, inputs, all_inputs);
  [&]<int... K>(std::integer_sequence<int, K...>) {
    Vector sums[vectors] = {load(accumulator + K * vector_width)...};
    for (long r = 0, i = first; r < rows; ++r, i += stride) {
      ((sums[K] +=
        region_at<Role::sum_rows, wiring, functions...>(inputs, nullptr, i + K * vector_width, vector_width)),
       ...);
      move_inputs<wiring>(arguments, stride, inputs, all_inputs);
    }
    (store(accumulator + K * vector_width, sums[K]), ...);
  }(std::make_integer_sequence<int, vectors>{});
}

}  // namespace detail

template <Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  using namespace detail;
  if constexpr (is_turning_copy<role, wiring>) {
    const ElementArguments::Input& input = arguments.inputs[0];
    const long whole = (first + input.inner - 1) / input.inner * input.inner;  // where a block begins
    if (repeat == 1 && whole < last) {
      if (whole > first) element_range<role, wiring>(arguments, first, whole, 0, 1, nullptr);
      first = copy_turned(input, arguments.outputs[0], whole, last);
    }
  }
  constexpr std::make_integer_sequence<int, wiring.inputs> all_inputs{};
  BlockInputs<wiring> inputs{};
  if constexpr (role == Role::store) stride = 0, repeat = 1;  // as they are: the compiler leaves the loop out
  float* outputs[max_region_outputs];
  for (int k = 0; k < wiring.outputs; ++k) outputs[k] = arguments.outputs[k];
  const bool periodic = are_periodic(arguments, wiring);
  const long block = arguments.block;
  const long first_block = begin_of_block(first, block);
  const bool whole_blocks_apart = stride % block == 0;
  if constexpr (role == Role::sum_rows)
    if (periodic && whole_blocks_apart && last <= first_block + block) {
      if (last - first == 4 * vector_width)
        return sum_columns<4, wiring, functions...>(arguments, first, stride, repeat, accumulator);
      if (last - first == 8 * vector_width)
        return sum_columns<8, wiring, functions...>(arguments, first, stride, repeat, accumulator);
    }
  long found = -1;                                  // the block whose inputs are found
  Vector sum = zero_lanes(), other = zero_lanes();  // two of them, as an addition takes four cycles
  for (long r = 0; r < repeat; ++r) {
    const long end = last + r * stride;
    long i = first + r * stride, begin = whole_blocks_apart ? first_block + r * stride : begin_of_block(i, block);
    for (; i < end; begin += block) {
      const long stop = begin + block < end ? begin + block : end;
      if (periodic && found >= 0)
        move_inputs<wiring>(arguments, begin - found, inputs, all_inputs);
      else
        find_inputs<wiring>(arguments, i, inputs, all_inputs);
      found = begin;
      if constexpr (role == Role::store) {
        for (; i + vector_width <= stop; i += vector_width)
          region_at<role, wiring, functions...>(inputs, outputs, i, vector_width);
        if (i < stop) region_at<role, wiring, functions...>(inputs, outputs, i, static_cast<int>(stop - i));
      } else if constexpr (role == Role::sum_rows) {
        float* const to = accumulator - (r * stride + first);
        for (; i + vector_width <= stop; i += vector_width)
          store(to + i, load(to + i) + region_at<role, wiring, functions...>(inputs, outputs, i, vector_width));
        if (const int lanes = rest_of(stop - i); lanes > 0) {
          const Vector value = region_at<role, wiring, functions...>(inputs, outputs, i, lanes);
          store_partial(to + i, load_partial(to + i, lanes) + value, lanes);
        }
      } else {
        if constexpr (wiring.sums_groups)  // in the last group, rows of fewer samples
          for (; begin >= arguments.complete && i < stop; i += sample_lanes)
            for (int lane = 0; lane < arguments.rest; lane += vector_width) {
              const Vector value = region_at<role, wiring, functions...>(inputs, outputs, i + lane, vector_width);
              const int lanes = arguments.rest - lane < vector_width ? arguments.rest - lane : vector_width;
              sum += select(first_lanes(lanes), value, zero_lanes());
            }
        for (; i + 2 * vector_width <= stop; i += 2 * vector_width) {
          sum += region_at<role, wiring, functions...>(inputs, outputs, i, vector_width);
          other += region_at<role, wiring, functions...>(inputs, outputs, i + vector_width, vector_width);
        }
        if (i + vector_width <= stop) {
          sum += region_at<role, wiring, functions...>(inputs, outputs, i, vector_width);
          i += vector_width;
        }
        if (const int lanes = rest_of(stop - i); lanes > 0) {
          const Vector value = region_at<role, wiring, functions...>(inputs, outputs, i, lanes);
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
