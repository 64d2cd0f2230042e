#pragma once

#include <utility>

#include "tenet/core/bfloat16.hpp"

/// The inner kernel of every product: one tile of the result held in registers.
namespace tenet::cpu::detail {

/// A tile is 8 x 3 vectors with 32 registers (24 sums, 3 of the right operand, 1 of the left), 4 x 3 with 16.
inline constexpr int tile_rows = vector_registers == 32 ? 8 : 4;
inline constexpr int tile_vectors = 3;
inline constexpr int tile_columns = tile_vectors * vector_width;
/// The widest tile is 6 x 4 vectors with 32 registers, 4 x 3 with 16: it loads least, 10 times for 24 multiply-adds.
inline constexpr int wide_rows = vector_registers == 32 ? 6 : 4;
inline constexpr int wide_vectors = vector_registers == 32 ? 4 : 3;
inline constexpr int wide_columns = wide_vectors * vector_width;

/// Keeps a value in a register: GCC would load it again from memory for each use.
inline void keep_in_register([[maybe_unused]] Vector& x) {
#if defined(__AVX512F__)
  asm("" : "+v"(x));
#elif defined(__SSE2__)
  asm("" : "+x"(x));
#elif defined(__aarch64__)
  asm("" : "+w"(x));
#endif
}

/// What a tile multiplies: floats, or pairs of bfloat16, each in the place of one float; then every `term` of a sum is
/// two products.
template <class Factor>
struct Term;
template <>
struct Term<float> {
  static constexpr int products = 1;
  using Left = float;
  [[gnu::always_inline]] static Left left(const float* a) { return *a; }
  template <class L>
  [[gnu::always_inline]] static Vector added(Vector sum, L a, Vector b) {
    return sum + a * b;
  }
};
template <>
struct Term<bfloat16> {
  static constexpr int products = 2;
  using Left = Vector;
  [[gnu::always_inline]] static Left left(const float* a) {
    std::uint32_t pair;
    __builtin_memcpy(&pair, a, sizeof pair);
    return (Vector)(tenet::detail::Words{} + pair);
  }
  [[gnu::always_inline]] static Vector added(Vector sum, Vector a, Vector b) { return add_products(sum, a, b); }
};

// The loops over a tile are unrolled by folds: pragmas for this differ between compilers, and nvcc drops them and the
// attributes of lambdas.

template <int... J>
[[gnu::always_inline]] inline void load_right(const float* b, Vector* right, std::integer_sequence<int, J...>) {
  ((right[J] = load(b + J * vector_width), keep_in_register(right[J])), ...);
}

template <class Factor, int... J>
[[gnu::always_inline]] inline void multiply_row(typename Term<Factor>::Left left, const Vector* right, Vector* sum,
                                                std::integer_sequence<int, J...>) {
  ((sum[J] = Term<Factor>::added(sum[J], left, right[J])), ...);
}

template <class Factor, int Vectors, int... I>
[[gnu::always_inline]] inline void multiply_rows(const float* a, long a_row, const Vector* right,
                                                 Vector (*sum)[Vectors], std::integer_sequence<int, I...>) {
  (multiply_row<Factor>(Term<Factor>::left(a + I * a_row), right, sum[I], std::make_integer_sequence<int, Vectors>{}),
   ...);
}

template <int... J>
[[gnu::always_inline]] inline void add_row(const float* c, Vector* sum, std::integer_sequence<int, J...>) {
  ((sum[J] += load(c + J * vector_width)), ...);
}

template <int Vectors, int... I>
[[gnu::always_inline]] inline void add_rows(const float* c, long c_row, Vector (*sum)[Vectors],
                                            std::integer_sequence<int, I...>) {
  (add_row(c + I * c_row, sum[I], std::make_integer_sequence<int, Vectors>{}), ...);
}

template <int... J>
[[gnu::always_inline]] inline void store_row(float* c, const Vector* sum, std::integer_sequence<int, J...>) {
  (store(c + J * vector_width, sum[J]), ...);
}

template <int Vectors, int... I>
[[gnu::always_inline]] inline void store_rows(float* c, long c_row, const Vector (*sum)[Vectors],
                                              std::integer_sequence<int, I...>) {
  (store_row(c + I * c_row, sum[I], std::make_integer_sequence<int, Vectors>{}), ...);
}

template <int... J>
[[gnu::always_inline]] inline void fetch_row(const float* c, std::integer_sequence<int, J...>) {
  (__builtin_prefetch(c + J * vector_width, 1), ...);
}

/// What a tile does besides for each row of b.
enum class TileTask {
  none,
  pack,   ///< writes its vectors to `packed`, one row after the other
  fetch,  ///< fetches up to two cache lines, the next `ahead_step` floats from `ahead` on
};

/// `tile`, and a task besides.
template <class Factor, int Rows, int Vectors, TileTask besides = TileTask::none>
[[gnu::always_inline]] inline void multiply_tile(long inner, const float* a, long a_row, long a_step, const float* b,
                                                 long b_step, float* c, long c_row, bool accumulate,
                                                 [[maybe_unused]] float* packed = nullptr,
                                                 [[maybe_unused]] const float* ahead = nullptr,
                                                 [[maybe_unused]] long ahead_step = 0) {
  constexpr std::make_integer_sequence<int, Rows> rows{};
  constexpr std::make_integer_sequence<int, Vectors> vectors{};
  Vector sum[Rows][Vectors] = {};
  const long part = inner / (2 * Rows);
  for (int i = 0; i <= Rows; ++i) {  // the lines of the result come to the first cache while the first half is summed
    if (i < Rows) fetch_row(c + i * c_row, vectors);
    for (long k = i < Rows ? part : inner - Rows * part; k > 0; --k, a += a_step, b += b_step) {
      Vector right[Vectors];
      load_right(b, right, vectors);
      if constexpr (besides == TileTask::pack) {
        store_row(packed, right, vectors);
        packed += Vectors * vector_width;
      }
      if constexpr (besides == TileTask::fetch) {
        __builtin_prefetch(ahead);
        __builtin_prefetch(ahead + 16);
        ahead += ahead_step;
      }
      multiply_rows<Factor, Vectors>(a, a_row, right, sum, rows);
    }
  }
  if (accumulate) add_rows<Vectors>(c, c_row, sum, rows);
  store_rows<Vectors>(c, c_row, sum, rows);
}

/// c [Rows, Vectors * vector_width] = (or +=) the sum over k < inner of a[i * a_row + k * a_step] * b[k * b_step + j].
template <class Factor, int Rows, int Vectors>
void tile(long inner, const float* a, long a_row, long a_step, const float* b, long b_step, float* c, long c_row,
          bool accumulate) {
  multiply_tile<Factor, Rows, Vectors>(inner, a, a_row, a_step, b, b_step, c, c_row, accumulate);
}

/// The highest tile of wide_vectors; what it reads of b is kept in `packed` for the tiles below it.
template <class Factor>
void packing_tile(long inner, const float* a, long a_row, const float* b, long b_step, float* c, long c_row,
                  bool accumulate, float* packed) {
  multiply_tile<Factor, wide_rows, wide_vectors, TileTask::pack>(inner, a, a_row, 1, b, b_step, c, c_row, accumulate,
                                                                 packed);
}

/// A tile of wide_vectors that fetches what is multiplied next.
template <class Factor, int Rows>
void fetching_tile(long inner, const float* a, long a_row, const float* b, long b_step, float* c, long c_row,
                   bool accumulate, const float* ahead, long ahead_step) {
  multiply_tile<Factor, Rows, wide_vectors, TileTask::fetch>(inner, a, a_row, 1, b, b_step, c, c_row, accumulate,
                                                             nullptr, ahead, ahead_step);
}

using Tile = void (*)(long, const float*, long, long, const float*, long, float*, long, bool);

/// Tiles of so many heights, each of 1 vector to `wide_vectors`.
template <class Function, int Heights>
struct TileTable {
  Function of[Heights][wide_vectors];
  constexpr const Function* operator[](int height) const { return of[height]; }
};

/// The tiles of 1, 2, 4 and more rows.
template <class F>
inline constexpr auto tile_choices = []<int... V>(std::integer_sequence<int, V...>) {
  return TileTable<Tile, 4>{{{tile<F, 1, V + 1>...},
                             {tile<F, 2, V + 1>...},
                             {tile<F, 4, V + 1>...},
                             {tile<F, (V < tile_vectors ? tile_rows : wide_rows), V + 1>...}}};
}(std::make_integer_sequence<int, wide_vectors>{});

/// Like `tile`, for any number of rows and up to `wide_vectors` vectors.
template <class Factor = float>
void tiles(long rows, int vectors, long inner, const float* a, long a_row, long a_step, const float* b, long b_step,
           float* c, long c_row, bool accumulate) {
  const long most = vectors > tile_vectors ? wide_rows : tile_rows;
  while (rows > 0) {
    // 8 rows are 4 + 4, not 6 + 2, as flat tiles wait for their sums.
    const int kind = rows >= most && (most != 6 || rows != 8) ? 3 : rows >= 4 ? 2 : rows >= 2 ? 1 : 0;
    const long height = kind == 3 ? most : 1 << kind;
    tile_choices<Factor>[kind][vectors - 1](inner, a, a_row, a_step, b, b_step, c, c_row, accumulate);
    a += height * a_row;
    c += height * c_row;
    rows -= height;
  }
}

/// Floats that are multiplied next.
struct Ahead {
  const float* from = nullptr;
  long count = 0;
};

/// `tiles` whose right operand comes from a far memory, as the weights of a large network do: those `ahead` are fetched
/// meanwhile, spread over the tiles' steps. Reading and multiplying then take as long as the longer one.
template <class Factor = float>
void tiles_fetching(long rows, int vectors, long inner, const float* a, long a_row, const float* b, long b_step,
                    float* c, long c_row, bool accumulate, Ahead ahead) {
  const long steps = (rows - 4 + wide_rows) / wide_rows * inner;  // of the tiles of 4 rows and more
  if (vectors == wide_vectors && steps > 0 && ahead.count > 0) {
    const long even = (ahead.count + steps - 1) / steps, step = even < 32 ? even : 32;
    while (rows >= 4) {
      const long height = rows >= wide_rows && rows != 8 ? wide_rows : 4;
      (height == 4 ? fetching_tile<Factor, 4> : fetching_tile<Factor, wide_rows>)(inner, a, a_row, b, b_step, c, c_row,
                                                                                  accumulate, ahead.from, step);
      a += height * a_row;
      c += height * c_row;
      rows -= height;
      ahead.from += inner * step;
    }
  }
  tiles<Factor>(rows, vectors, inner, a, a_row, 1, b, b_step, c, c_row, accumulate);
}

}  // namespace tenet::cpu::detail
