#pragma once

#include <tenet/core/geometry.hpp>
#include <tenet/core/vector.hpp>
#include <tenet/device/cpu/element.hpp>
#include <tenet/device/cpu/matmul.hpp>
#include <tenet/device/cpu/tile.hpp>
#include <tenet/device/cpu/transpose.hpp>
#include <tenet/device/cpu/workers.hpp>
#include <tenet/device/known_region.hpp>

/// Loops for one sample of a small network: all extents are constants, one thread runs everything, and nothing is asked
/// at run time.
namespace tenet::cpu {

namespace detail {

/// A region over a known number of elements, row by row. All loops over its inputs, and those over the vectors of a
/// short row, are folds: they would be left loops, which take as long as the arithmetic.
template <Role role, Wiring wiring, KnownRegion region, auto... functions>
class RegionRows {
 public:
  [[gnu::always_inline]] static inline void run(const float* const* data, float* const* outputs, Vector& sum) {
    run(data, outputs, sum, In{}, Together{});
  }

 private:
  using In = std::make_integer_sequence<int, wiring.inputs>;
  using Out = std::make_integer_sequence<int, wiring.outputs>;
  static constexpr long row = region.row(wiring.inputs);
  static constexpr int vectors = static_cast<int>(row / vector_width), rest = static_cast<int>(row % vector_width);
  /// Vectors that stand in line: one row has a loop, several rows are whole vectors.
  static constexpr int together = row == region.total ? 1 : vectors < 4 ? vectors : 4;
  using Together = std::make_integer_sequence<int, together>;

  /// Whether input k is the same in all rows, and stays in registers.
  static constexpr bool stays(int k) {
    if (region.is_number(k)) return region.inputs[k].count == 1;
    return row < region.total && together == vectors && region.inputs[k].count == row;
  }
  template <int k>
  [[gnu::always_inline]] static inline Vector staying(const float* data, int v) {
    if constexpr (!stays(k))
      return zero_lanes();
    else if constexpr (region.is_number(k))
      return broadcast<Vector>(data[0]);
    else
      return load(data + v * vector_width);
  }
  /// The number that input k is in the row from element `first` on.
  template <int k>
  [[gnu::always_inline]] static inline Vector number(const float* data, long first) {
    if constexpr (region.is_number(k) && !stays(k))
      return broadcast<Vector>(data[region.index(k, row, first, 0)]);
    else
      return zero_lanes();
  }
  /// `lanes` lanes of input k from element j of a row on.
  template <int k, int lanes>
  [[gnu::always_inline]] static inline Vector input(const float* data, long first, long j, Vector same, Vector number) {
    if constexpr (stays(k))
      return same;
    else if constexpr (region.is_number(k))
      return number;
    else
      return load_lanes(data + region.index(k, row, first, j), region.padded_input[k] ? vector_width : lanes);
  }

  /// The elements j to j + lanes of a row. `same` is what stays in registers.
  template <int lanes, int... K, int... O>
  [[gnu::always_inline]] static inline void vector(const float* const* data, float* const* outputs, Vector& sum,
                                                   long first, long j, const Vector* same, const Vector* numbers,
                                                   std::integer_sequence<int, K...>, std::integer_sequence<int, O...>) {
    const Vector inputs[sizeof...(K) + 1]{input<K, lanes>(data[K], first, j, same[K], numbers[K])...};
    Vector values[sizeof...(functions) + 1];
    tenet::detail::evaluate_region<wiring, functions...>(inputs, values);
    if constexpr (role == Role::store)
      (store_lanes(outputs[O] + first + j, output_of<wiring, O>(inputs, values),
                   region.padded_output[O] ? vector_width : lanes),
       ...);
    else
      sum += lanes == vector_width ? output_of<wiring, 0>(inputs, values)
                                   : select(first_lanes(lanes), output_of<wiring, 0>(inputs, values), zero_lanes());
  }

  template <int... K, int... V>
  [[gnu::always_inline]] static inline void run(const float* const* data, float* const* outputs, Vector& sum,
                                                std::integer_sequence<int, K...> in, std::integer_sequence<int, V...>) {
    Vector same[together][wiring.inputs + 1];
    (set<V>(same[V], data, in), ...);
    for (long first = 0; first < region.total; first += row) {
      const Vector numbers[sizeof...(K) + 1]{number<K>(data[K], first)...};  // read before the row is written
      int v = 0;
      for (; v + together <= vectors; v += together)
        (vector<vector_width>(data, outputs, sum, first, (v + V) * long{vector_width}, same[V], numbers, in, Out{}),
         ...);
      ((V < vectors % together
            ? vector<vector_width>(data, outputs, sum, first, (v + V) * long{vector_width}, same[V], numbers, in, Out{})
            : void()),
       ...);
      if constexpr (rest > 0) vector<rest>(data, outputs, sum, first, row - rest, same[0], numbers, in, Out{});
    }
  }
  template <int V, int... K>
  [[gnu::always_inline]] static inline void set(Vector* same, const float* const* data,
                                                std::integer_sequence<int, K...>) {
    ((same[K] = staying<K>(data[K], V)), ...);
  }
};

}  // namespace detail

/// Evaluates a region over all of its elements. Role store: writes the values. Role sum: outputs[0][0] is their sum.
template <Role role, Wiring wiring, KnownRegion region, auto... functions>
[[gnu::always_inline]] inline void run_known_region(const float* const* data, float* const* outputs) {
  Vector sum = zero_lanes();
  detail::RegionRows<role, wiring, region, functions...>::run(data, outputs, sum);
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
template <class Factor, int last, int... V>
[[gnu::always_inline]] inline void add_scaled(Vector* sum, const float* x, const float* row,
                                              std::integer_sequence<int, V...>) {
  constexpr int size = (int{sizeof...(V)} - 1) * vector_width + last;
  const typename Term<Factor>::Left scale = Term<Factor>::left(x);
  ((sum[V] = Term<Factor>::added(sum[V], scale, load_within<size>(row, V * vector_width))), ...);
}

/// result[v] = sum over k of x[k] * rows[k * step + v]: each in four parts, as a multiply-add waits four cycles for the
/// one before, or in two where registers do not suffice. Of floats, or pairs of bfloat16 (`Term`).
template <class Factor, int Inner, int last, int... V, int... Way>
[[gnu::always_inline]] inline void scaled_rows(const float* x, const float* rows, long step, Vector* result,
                                               std::integer_sequence<int, V...> vectors,
                                               std::integer_sequence<int, Way...>) {
  constexpr int ways = sizeof...(Way);
  Vector sum[ways][sizeof...(V)] = {};
  for (int k = 0; k + ways <= Inner; k += ways, rows += ways * step)
    (add_scaled<Factor, last>(sum[Way], x + k + Way, rows + Way * step, vectors), ...);
  ((Way < Inner % ways ? add_scaled<Factor, last>(sum[Way], x + Inner / ways * ways + Way, rows + Way * step, vectors)
                       : void()),
   ...);
  if constexpr (ways == 4)
    ((result[V] = (sum[0][V] + sum[1][V]) + (sum[2][V] + sum[3][V])), ...);
  else
    ((result[V] = sum[0][V] + sum[1][V]), ...);
}
template <int Vectors>
using Ways = std::make_integer_sequence<int, (vector_registers == 32 || Vectors < 4) ? 4 : 2>;

/// A row times a matrix [Inner, Columns]; or times one that `run_prepare_factor` has laid out.
template <int Columns, int Inner, bool prepared, class Factor = float>
inline void row_times_matrix(const float* x, const float* matrix, float* result) {
  constexpr int whole = Columns / panel_columns, rest = Columns % panel_columns;
  Vector sum[4];
  for (int p = 0; p < whole; ++p, result += panel_columns) {
    constexpr std::make_integer_sequence<int, 4> vectors{};
    scaled_rows<Factor, Inner, vector_width>(x, matrix, prepared ? panel_columns : Columns, sum, vectors, Ways<4>{});
    store_row(result, sum, vectors);
    matrix += prepared ? Inner * long{panel_columns} : panel_columns;
  }
  if constexpr (rest > 0) {
    constexpr int vectors = (rest + vector_width - 1) / vector_width, last = rest - (vectors - 1) * vector_width;
    scaled_rows<Factor, Inner, prepared ? vector_width : last>(x, matrix, prepared ? vectors * vector_width : Columns,
                                                               sum, std::make_integer_sequence<int, vectors>{},
                                                               Ways<vectors>{});
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
    Vector a = zero_lanes(), b = a, c = a, d = a;
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
    Vector sum = zero_lanes();
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

namespace detail {
/// What a row of so many numbers has in the places of floats.
template <class Factor>
constexpr long terms_of(long inner) {
  return blocks_of(inner, Term<Factor>::products);
}
}  // namespace detail

/// Floats of a matrix that is prepared as numbers of type Factor; 0 where it is multiplied as it is: with few columns,
/// scalar products of rows are faster.
template <class Factor = float>
constexpr long prepared_factor_floats(long columns, long inner) {
  return columns >= vector_width ? detail::round_up(columns, vector_width) * detail::terms_of<Factor>(inner) : 0;
}

/// Lays a matrix [columns, inner] out as its transpose, in panels of columns that are filled up to whole vectors: each
/// panel is read from its first number to its last. Bfloat16 lie in pairs along `inner`, of which the last may end with
/// a zero.
template <class Factor>
void run_prepare_factor(Workers&, Factor, long columns, long inner, const float* matrix, float* to) {
  constexpr long products = detail::Term<Factor>::products;
  auto* numbers = reinterpret_cast<Factor*>(to);
  for (long first = 0; first < columns; first += detail::panel_columns) {
    const long present = columns - first < detail::panel_columns ? columns - first : detail::panel_columns;
    const long width = detail::round_up(present, vector_width), terms = detail::terms_of<Factor>(inner);
    for (long term = 0; term < terms; ++term)
      for (long j = 0; j < width; ++j)
        for (long k = term * products; k < (term + 1) * products; ++k)
          *numbers++ = Factor(j < present && k < inner ? matrix[(first + j) * inner + k] : 0.0f);
  }
}

/// A row times the transpose of a prepared matrix [columns, inner].
template <int columns, int inner>
inline void run_prepared_matmul(Workers&, float, Known<columns>, Known<inner>, const float* row, const float* prepared,
                                float* result) {
  detail::row_times_matrix<columns, inner, true>(row, prepared, result);
}
/// The row is rounded, too; sums are floats.
template <int columns, int inner>
inline void run_prepared_matmul(Workers&, bfloat16, Known<columns>, Known<inner>, const float* row,
                                const float* prepared, float* result) {
  constexpr int terms = detail::terms_of<bfloat16>(inner), whole = inner / vector_width * vector_width;
  alignas(64) bfloat16 rounded[detail::round_up(inner, vector_width)];
  for (int k = 0; k < whole; k += vector_width) store(rounded + k, load(row + k));
  if constexpr (whole < inner) store(rounded + whole, detail::load_lanes(row + whole, inner - whole));
  detail::row_times_matrix<columns, terms, true, bfloat16>(reinterpret_cast<const float*>(rounded), prepared, result);
}

}  // namespace tenet::cpu
