#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/core/vector.hpp>
#include <tenet/device/cpu/element.hpp>
#include <tenet/device/cpu/matmul.hpp>
#include <tenet/device/cpu/transpose.hpp>
#include <tenet/device/cpu/workers.hpp>
#include <tenet/device/known_region.hpp>

/// Loops for one sample of a small network: all extents are constants, one thread runs everything, and nothing is asked
/// at run time.
namespace tenet::cpu {

namespace detail {

/// The number that input k is in the row of element i.
template <KnownRegion region, int k>
[[gnu::always_inline]] inline Vector region_number(const float* data, long i) {
  if constexpr (region.is_number(k))
    return broadcast<Vector>(data[region.index(k, i)]);
  else
    return Vector{};
}
/// `lanes` lanes of input k from element i.
template <KnownRegion region, int k, int lanes>
[[gnu::always_inline]] inline Vector region_input(const float* data, long i, Vector number) {
  if constexpr (region.is_number(k))
    return number;
  else
    return load_lanes(data + region.index(k, i), region.padded_input[k] ? vector_width : lanes);
}

/// The elements i to i + lanes of a region. All loops are folds: one over `wiring.inputs` would be left a loop.
template <Role role, Wiring wiring, KnownRegion region, int lanes, auto... functions, int... In, int... Out>
[[gnu::always_inline]] inline void region_vector(long i, const float* const* data, const Vector* numbers,
                                                 float* const* outputs, Vector& sum, std::integer_sequence<int, In...>,
                                                 std::integer_sequence<int, Out...>) {
  const Vector inputs[sizeof...(In) + 1]{region_input<region, In, lanes>(data[In], i, numbers[In])...};
  Vector values[sizeof...(functions) + 1];
  tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
  if constexpr (role == Role::store)
    (store_lanes(outputs[Out] + i, output_of<wiring, Out>(inputs, values),
                 region.padded_output[Out] ? vector_width : lanes),
     ...);
  else
    sum += lanes == vector_width ? output_of<wiring, 0>(inputs, values)
                                 : select(first_lanes(lanes), output_of<wiring, 0>(inputs, values), Vector{});
}

/// The row from element `first` on. Its numbers are read before it is written.
template <Role role, Wiring wiring, KnownRegion region, auto... functions, int... In, int... Out>
[[gnu::always_inline]] inline void region_row(long first, const float* const* data, float* const* outputs, Vector& sum,
                                              std::integer_sequence<int, In...> in,
                                              std::integer_sequence<int, Out...> out) {
  constexpr long length = region.row(wiring.inputs), whole = length / vector_width * vector_width;
  constexpr int rest = static_cast<int>(length - whole);
  const Vector numbers[sizeof...(In) + 1]{region_number<region, In>(data[In], first)...};
  for (long i = first; i < first + whole; i += vector_width)
    region_vector<role, wiring, region, vector_width, functions...>(i, data, numbers, outputs, sum, in, out);
  if constexpr (rest > 0)
    region_vector<role, wiring, region, rest, functions...>(first + whole, data, numbers, outputs, sum, in, out);
}

}  // namespace detail

/// Evaluates a region over all of its elements. Role store: writes the values. Role sum: outputs[0][0] is their sum.
template <Role role, Wiring wiring, KnownRegion region, auto... functions>
[[gnu::always_inline]] inline void run_known_region(const float* const* data, float* const* outputs) {
  constexpr std::make_integer_sequence<int, wiring.inputs> in{};
  constexpr std::make_integer_sequence<int, wiring.outputs> out{};
  Vector sum{};
  for (long first = 0; first < region.total; first += region.row(wiring.inputs))
    detail::region_row<role, wiring, region, functions...>(first, data, outputs, sum, in, out);
  if constexpr (role == Role::sum) outputs[0][0] = horizontal_sum(sum);
}

namespace detail {

/// The vector of row[i], …, zeros behind the last of `size`.
template <int size>
[[gnu::always_inline]] inline Vector load_within(const float* row, int i) {
  return load_lanes(row + i, i + vector_width <= size ? vector_width : size % vector_width);
}
template <int size>
[[gnu::always_inline]] inline void store_within(float* row, int i, Vector value) {
  store_lanes(row + i, value, i + vector_width <= size ? vector_width : size % vector_width);
}

/// Columns that are summed at once.
inline constexpr int panel_columns = 4 * vector_width;

/// `last`: lanes of the last vector that are there.
template <int last, int... V>
[[gnu::always_inline]] inline void add_scaled(Vector* sum, float scale, const float* row,
                                              std::integer_sequence<int, V...>) {
  constexpr int size = (int{sizeof...(V)} - 1) * vector_width + last;
  ((sum[V] += scale * load_within<size>(row, V * vector_width)), ...);
}

/// result[v] = sum over k of x[k] * rows[k * step + v]: each in two parts, or four where there are few, as a
/// multiply-add waits four cycles for the one before.
template <int Inner, int Vectors, int last>
[[gnu::always_inline]] inline void scaled_rows(const float* x, const float* rows, long step, Vector* result) {
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  constexpr int ways = Vectors >= 4 ? 2 : 4;
  Vector sum[4][Vectors] = {};
  int k = 0;
  for (; k + ways <= Inner; k += ways, rows += ways * step) {
    add_scaled<last>(sum[0], x[k], rows, vectors);
    add_scaled<last>(sum[1], x[k + 1], rows + step, vectors);
    if constexpr (ways == 4) {
      add_scaled<last>(sum[2], x[k + 2], rows + 2 * step, vectors);
      add_scaled<last>(sum[3], x[k + 3], rows + 3 * step, vectors);
    }
  }
  for (; k < Inner; ++k, rows += step) add_scaled<last>(sum[0], x[k], rows, vectors);
  for (int v = 0; v < Vectors; ++v) result[v] = (sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v]);
}

/// A row times a matrix [Inner, Columns]; or times one that `run_prepare_factor` has laid out.
template <int Columns, int Inner, bool prepared>
inline void row_times_matrix(const float* x, const float* matrix, float* result) {
  constexpr int whole = Columns / panel_columns, rest = Columns % panel_columns;
  Vector sum[4];
  for (int p = 0; p < whole; ++p, result += panel_columns) {
    scaled_rows<Inner, 4, vector_width>(x, matrix, prepared ? panel_columns : Columns, sum);
    for (int v = 0; v < 4; ++v) store(result + v * vector_width, sum[v]);
    matrix += prepared ? Inner * long{panel_columns} : panel_columns;
  }
  if constexpr (rest > 0) {
    constexpr int vectors = (rest + vector_width - 1) / vector_width, last = rest - (vectors - 1) * vector_width;
    scaled_rows<Inner, vectors, prepared ? vector_width : last>(x, matrix, prepared ? vectors * vector_width : Columns,
                                                                sum);
    for (int v = 0; v < vectors; ++v) store_within<rest>(result, v * vector_width, sum[v]);
  }
}

/// A row times the transpose of a matrix [Columns, Inner]: scalar products of rows, four at a time. The sums of their
/// lanes share the shuffles: after a transpose of quarters lane j of each quarter belongs to product j.
template <int Columns, int Inner>
inline void row_times_transposed(const float* x, const float* rows, float* result) {
  constexpr int whole = Columns / 4 * 4;
  for (int n = 0; n < whole; n += 4) {
    const float* const row = rows + n * long{Inner};
    Vector a{}, b{}, c{}, d{};
    for (int k = 0; k < Inner; k += vector_width) {
      const Vector left = load_within<Inner>(x, k);
      a += left * load_within<Inner>(row, k);
      b += left * load_within<Inner>(row + Inner, k);
      c += left * load_within<Inner>(row + 2 * Inner, k);
      d += left * load_within<Inner>(row + 3 * Inner, k);
    }
    transpose_quarters(a, b, c, d);
    const Quarter four = sum_quarters((a + b) + (c + d));
    __builtin_memcpy(result + n, &four, sizeof four);
  }
  for (int n = whole; n < Columns; ++n) {
    Vector sum{};
    for (int k = 0; k < Inner; k += vector_width)
      sum += load_within<Inner>(x, k) * load_within<Inner>(rows + n * long{Inner}, k);
    result[n] = horizontal_sum(sum);
  }
}

}  // namespace detail

/// A product whose extents are constants, the batch among them; see `MatmulGeometry`. A row times a matrix is here,
/// other products are what they are for any batch.
template <MatmulGeometry g>
inline void run_matmul(Workers& workers, Known<g>, const float* lhs, const float* rhs, float* result,
                       Epilogue epilogue = {}) {
  constexpr int columns = g.columns, inner = g.inner;
  if constexpr (g.count == 1 && g.rows == 1 && columns > 0 && inner > 0) {
    if constexpr (g.transpose_rhs && inner > 1)
      detail::row_times_transposed<columns, inner>(lhs, rhs, result);
    else
      detail::row_times_matrix<columns, inner, false>(lhs, rhs, result);
    epilogue(0, columns);
  } else {
    run_matmul(workers, g, lhs, rhs, result, epilogue);
  }
}

/// Floats of a prepared matrix; 0 where it is multiplied as it is: with few columns, scalar products of rows are
/// faster.
constexpr long prepared_factor_floats(long columns, long inner) {
  return columns >= vector_width ? detail::round_up(columns, vector_width) * inner : 0;
}

/// Lays a matrix [columns, inner] out as its transpose, in panels of columns that are filled up to whole vectors: each
/// panel is read from its first number to its last.
inline void run_prepare_factor(Workers&, long columns, long inner, const float* matrix, float* to) {
  for (long first = 0; first < columns; first += detail::panel_columns) {
    const long present = columns - first < detail::panel_columns ? columns - first : detail::panel_columns;
    const long width = detail::round_up(present, vector_width);
    for (long k = 0; k < inner; ++k)
      for (long j = 0; j < width; ++j) to[k * width + j] = j < present ? matrix[(first + j) * inner + k] : 0.0f;
    to += inner * width;
  }
}

/// A row times the transpose of a prepared matrix [columns, inner].
template <int columns, int inner>
inline void run_prepared_matmul(Workers&, Known<columns>, Known<inner>, const float* row, const float* prepared,
                                float* result) {
  detail::row_times_matrix<columns, inner, true>(row, prepared, result);
}

}  // namespace tenet::cpu
