#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

namespace detail {

/// The same products as one, where the operands of all lie in one matrix.
constexpr MatmulGeometry merged(MatmulGeometry g) {
  if (g.count <= 1) return g;
  if (g.accumulate_over_count) {  // [count * inner, rows]ᵀ * [count * inner, columns]
    if (g.transpose_lhs && !g.transpose_rhs && g.lhs_step == g.inner * g.rows && g.rhs_step == g.inner * g.columns) {
      g.inner *= g.count;
      g.count = 1;
    }
  } else if (!g.transpose_lhs && g.lhs_step == g.rows * g.inner && g.rhs_step == 0) {
    g.rows *= g.count;
    g.count = 1;
  }
  return g;
}

/// How products are cut into tasks; a function of the shapes alone.
struct MatmulCut {
  PanelCut panels;
  long row_blocks = 1, column_blocks = 1, inner_blocks = 1;  ///< of one product; sums of inner blocks are added up
  bool lay_right = false;                                    ///< Panels are packed once, for all tasks.
  long group = 1, groups;                                    ///< Small products of a batch share a task.

  constexpr explicit MatmulCut(const MatmulGeometry& g) : panels(g.columns) {
    const long results = g.accumulate_over_count ? 1 : g.count;
    const double flops = g.flops() / static_cast<double>(g.count > 0 ? g.count : 1), parts = flops / 2e6;
    if (flops < 2e5) group = static_cast<long>(2e5 / (flops + 1)) + 1;
    groups = blocks_of(results, group);
    const double most = 8 / static_cast<double>(results > 0 ? results : 1);
    if (parts >= 2 && most >= 2) choose(g, parts < most ? parts : most);
  }

  constexpr long first_row(const MatmulGeometry& g, long block) const { return block * g.rows / row_blocks; }
  constexpr long first_panel(long block) const { return block * panels.count / column_blocks; }
  constexpr long first_term(const MatmulGeometry& g, long block) const { return block * g.inner / inner_blocks; }
  constexpr long tasks() const { return inner_blocks * row_blocks * column_blocks * groups; }
  constexpr long right_floats(const MatmulGeometry& g) const {
    return lay_right ? g.inner * panels.first(panels.count) : 0;
  }
  constexpr long partial_floats(const MatmulGeometry& g) const {
    return inner_blocks > 1 ? inner_blocks * g.rows * g.columns : 0;
  }
  /// Of workspace: both.
  constexpr long floats(const MatmulGeometry& g) const { return right_floats(g) + partial_floats(g); }

 private:
  /// The cheapest cut into at most so many tasks, by measured cycles for a cache line of 16 floats: 10 to re-lay it in
  /// cache, 40 to do so for all tasks, which leaves the cache, 2 to 4 to read it, 20 to write a sum of an inner block
  /// and read it. More tasks serve more threads, as if those took 0.2 of the time.
  [[gnu::noinline]] constexpr void choose(const MatmulGeometry& g, double most) {
    const double left = static_cast<double>(g.rows * g.inner), right = static_cast<double>(g.columns * g.inner),
                 sums = static_cast<double>(g.rows * g.columns), multiplying = sums * static_cast<double>(g.inner) / 2;
    const double left_cost = g.transpose_lhs ? 10 : 2, right_cost = g.transpose_rhs || g.columns > 400 ? 10 : 4;
    double least = -1;
    for (long inner = 1; inner <= 4 && (inner == 1 || (g.count == 1 && g.inner >= 512 * inner)); inner *= 2)
      for (long r = 1; r <= 8 && (r == 1 || g.rows >= 24 * r); r *= 2)
        for (long c = 1; c <= 8 && c <= panels.count; c *= 2) {
          const auto tasks = static_cast<double>(inner * r * c);
          if (tasks > 1 && tasks > most) continue;
          if (panels.count % c != 0 && panels.count < 3 * c) continue;  // unequal tasks
          // A block of the left operand that leaves the cache is read for each panel.
          const bool streams = g.rows / r * smaller(g.inner, most_terms) > (1 << 17) + 4096;
          const auto reads = static_cast<double>(streams ? 2 * panels.count : c);
          const double once = 40 + 2 * static_cast<double>(r), each = right_cost * static_cast<double>(r);
          const bool lay = right_cost == 10 && g.count == 1 && inner == 1 && once < each;
          const double cost = left * left_cost * reads + right * (lay ? once : each) +
                              (inner > 1 ? sums * (10 + 20 * static_cast<double>(inner)) : 0) +
                              0.2 * multiplying / tasks;
          if (least >= 0 && cost >= least) continue;
          least = cost;
          inner_blocks = inner;
          row_blocks = r;
          column_blocks = c;
          lay_right = lay;
        }
  }
};

/// Packs all panels of the right operand.
inline void lay_panels(Workers& workers, const MatmulGeometry& g, const PanelCut& panels, Matrix b, float* to) {
  const long terms = blocks_of(g.inner, blocks_of(g.inner, most_terms)), term_blocks = blocks_of(g.inner, terms);
  auto task = [&](int index, int) {
    const long panel = index / term_blocks, k0 = index % term_blocks * terms;
    const long j0 = panels.first(panel), width = panels.width(panel);
    pack_panel(smaller(terms, g.inner - k0), smaller(width, g.columns - j0), width,
               {b.data + k0 * b.row + j0 * b.column, b.row, b.column}, to + j0 * g.inner + k0 * width);
  };
  run_tasks(workers, panels.count * term_blocks, false, task);
}

/// result = the sum of `count` matrices of `size` floats, one after the other.
inline void add_partial_sums(Workers& workers, const float* partial, long count, long size, float* result,
                             Epilogue epilogue) {
  run_ranges(
      workers, size, count,
      [=](long first, long last) {
        copy_floats(result + first, partial + first, last - first);
        for (long i = 1; i < count; ++i) add_floats(result + first, partial + i * size + first, last - first);
        epilogue(first, last);
      },
      vector_width);
}

/// The products of a merged geometry, of operands as `Term<Factor>` takes them; `own`: room for what the cut says.
template <class Factor>
void run_products(Workers& workers, const MatmulGeometry& g, const MatmulCut& cut, const float* lhs, const float* rhs,
                  float* own, float* result, Epilogue epilogue) {
  workers.reserve_scratch(product_scratch);
  Matrix a{lhs, g.inner, 1}, b{rhs, g.columns, 1};
  if (g.transpose_lhs) a = {lhs, 1, g.rows};
  if (g.transpose_rhs) b = {rhs, 1, g.inner};
  const long partial_floats = cut.partial_floats(g);
  float* const sums = partial_floats > 0 ? own + cut.right_floats(g) : result;
  if (cut.lay_right) lay_panels(workers, g, cut.panels, b, own);
  const long results = g.accumulate_over_count ? 1 : g.count, terms = g.accumulate_over_count ? g.count : 1;
  auto task = [&](int index, int worker) {
    const long column_block = index % cut.column_blocks, rest = index / cut.column_blocks;
    const long row_block = rest % cut.row_blocks, inner_block = rest / cut.row_blocks % cut.inner_blocks;
    const long group = rest / cut.row_blocks / cut.inner_blocks;
    const long panel0 = cut.first_panel(column_block), panel1 = cut.first_panel(column_block + 1);
    const long column0 = cut.panels.first(panel0), columns = smaller(cut.panels.first(panel1), g.columns) - column0;
    const long row0 = cut.first_row(g, row_block), rows = cut.first_row(g, row_block + 1) - row0;
    const long k0 = cut.first_term(g, inner_block), inner = cut.first_term(g, inner_block + 1) - k0;
    const long end = smaller(results, (group + 1) * cut.group);
    float* const scratch = workers.scratch(worker);
    for (long c = group * cut.group; c < end; ++c) {
      float* const to = sums + ((c + inner_block) * g.rows + row0) * g.columns;
      for (long term = 0; term < terms; ++term) {
        const Matrix left{a.data + (c + term) * g.lhs_step + row0 * a.row + k0 * a.column, a.row, a.column};
        const Matrix right{b.data + (c + term) * g.rhs_step + k0 * b.row, b.row, b.column};
        if (g.columns == 1) {  // a column is the transpose of a row times the transposed matrix
          product<Factor>(1, rows, inner, {right.data, right.column, right.row}, {left.data, left.column, left.row}, to,
                          rows, term > 0, scratch);
        } else if (inner == 0 || rows <= 4) {
          product<Factor>(rows, columns, inner, left, {right.data + column0 * right.column, right.row, right.column},
                          to + column0, g.columns, term > 0, scratch);
        } else {
          multiply_panels<Factor>(rows, g.columns, inner, left, right, cut.lay_right ? own : nullptr, panel0, panel1,
                                  to, g.columns, term > 0, scratch);
        }
      }
      if (terms == 0) {
        for (long i = 0; i < rows; ++i) fill_floats(to + i * g.columns + column0, 0, columns);
      }
      if (partial_floats > 0) continue;
      const long first = to + column0 - result;
      if (columns == g.columns) {
        epilogue(first, first + rows * columns);
      } else {
        for (long i = 0; i < rows; ++i) epilogue(first + i * g.columns, first + i * g.columns + columns);
      }
    }
  };
  run_tasks(workers, cut.tasks(), g.flops() < inline_flops, task);
  if (partial_floats > 0) add_partial_sums(workers, sums, cut.inner_blocks, g.rows * g.columns, result, epilogue);
}

/// The matrices of one operand of a product as pairs along the sum, each in the place of a float: where they lie, or,
/// where the numbers of a pair are not neighbours, laid so.
struct PairedOperand {
  long matrices, step, terms, others;
  bool terms_last;  ///< neighbours in memory are terms of the same sum

  /// `step`: numbers from one matrix to the next, 0 if there is one; `others`: the extent that is not summed over.
  constexpr PairedOperand(long count, long step_, long terms_, long others_, bool terms_last_)
      : matrices(step_ == 0 ? 1 : count), step(step_), terms(terms_), others(others_), terms_last(terms_last_) {}

  constexpr long pairs() const { return blocks_of(terms, 2); }
  constexpr bool lies_in_pairs() const { return terms_last && terms % 2 == 0 && step % 2 == 0; }
  constexpr long floats() const { return lies_in_pairs() ? 0 : matrices * pairs() * others; }
  constexpr long pair_step() const { return step == 0 ? 0 : lies_in_pairs() ? step / 2 : pairs() * others; }

  /// The pairs, laid to `room` if need be: `floats()` floats.
  const float* paired(Workers& workers, const bfloat16* from, float* room) const {
    if (lies_in_pairs()) return reinterpret_cast<const float*>(from);
    // Runs that lie together in memory: a row of all others' two terms, or all terms of one of the others.
    const long runs = terms_last ? others : pairs();
    auto lay = [&](long first, long last) {
      for (long i = first; i < last; ++i) {
        const bfloat16* const matrix = from + i / runs * step;
        float* const to = room + i * (terms_last ? pairs() : others);
        if (terms_last)
          lay_terms(matrix + i % runs * terms, to);
        else
          lay_others(matrix + i % runs * 2 * others, 2 * (i % runs) + 1 < terms, to);
      }
    };
    run_ranges(workers, matrices * runs, terms_last ? terms : 2 * others, lay);
    return room;
  }

 private:
  void lay_terms(const bfloat16* from, float* to) const {
    if (terms % 2 != 0) to[pairs() - 1] = 0;
    std::memcpy(to, from, sizeof(bfloat16) * static_cast<std::size_t>(terms));
  }
  /// `two`: there is a second row, else zeros stand for it.
  void lay_others(const bfloat16* from, bool two, float* to) const {
    const bfloat16 zeros[vector_width]{};
    for (long j = 0; j < others; j += vector_width) {
      if (others - j >= vector_width) {
        store(to + j, load_pairs(from + j, two ? from + others + j : zeros));
        continue;
      }
      bfloat16 first[vector_width]{}, second[vector_width]{};
      for (long i = 0; i < others - j; ++i) {
        first[i] = from[j + i];
        if (two) second[i] = from[others + j + i];
      }
      store_partial(to + j, load_pairs(first, second), static_cast<int>(others - j));
    }
  }
};

}  // namespace detail

constexpr long scratch_matmul(const Workers*, const MatmulGeometry&) { return detail::product_scratch; }

/// Floats of workspace for `run_matmul` of such factors.
[[gnu::noinline]] inline long workspace_matmul(const Workers*, const MatmulGeometry& geometry, float) {
  const MatmulGeometry g = detail::merged(geometry);
  return g.result_size() == 0 ? 0 : detail::MatmulCut(g).floats(g);
}

/// result[c] = op(lhs[c]) * op(rhs[c]), or the sum of these over c; see `MatmulGeometry`.
inline void run_matmul(Workers& workers, const MatmulGeometry& geometry, const float* lhs, const float* rhs,
                       float* result, Epilogue epilogue = {}) {
  using namespace detail;
  const MatmulGeometry g = merged(geometry);
  if (g.result_size() == 0) return;
  const MatmulCut cut(g);
  const long floats = cut.floats(g);
  run_products<float>(workers, g, cut, lhs, rhs, floats > 0 ? workers.workspace(floats) : nullptr, result, epilogue);
}

namespace detail {
/// A product of bfloat16 factors as one of pairs, and how they are laid for it.
struct PairedProduct {
  MatmulGeometry g;  ///< of the pairs
  PairedOperand left, right;

  constexpr explicit PairedProduct(const MatmulGeometry& of)
      : g(of),
        left(of.count, of.lhs_step, of.inner, of.rows, !of.transpose_lhs),
        right(of.count, of.rhs_step, of.inner, of.columns, of.transpose_rhs) {
    g.inner = left.pairs();
    g.lhs_step = left.pair_step();
    g.rhs_step = right.pair_step();
  }
};
}  // namespace detail

/// Floats of workspace for `run_bfloat16_matmul`.
[[gnu::noinline]] inline long workspace_matmul(const Workers*, const MatmulGeometry& geometry, bfloat16) {
  const detail::PairedProduct pairs(detail::merged(geometry));
  return pairs.g.result_size() == 0
             ? 0
             : detail::MatmulCut(pairs.g).floats(pairs.g) + pairs.left.floats() + pairs.right.floats();
}

/// The same of bfloat16 factors, added up as floats: pairs of products, by the processor's instructions for them.
inline void run_bfloat16_matmul(Workers& workers, const MatmulGeometry& geometry, const bfloat16* lhs,
                                const bfloat16* rhs, float* result, Epilogue epilogue = {}) {
  using namespace detail;
  const PairedProduct pairs(merged(geometry));
  const auto& [g, left, right] = pairs;
  if (g.result_size() == 0) return;
  const MatmulCut cut(g);
  const long own = cut.floats(g);
  float* const room = workers.workspace(own + left.floats() + right.floats());
  run_products<bfloat16>(workers, g, cut, left.paired(workers, lhs, room + own),
                         right.paired(workers, rhs, room + own + left.floats()), room, result, epilogue);
}

/// In programs in mixed precision, where that is quicker than to widen the factors.
template <class Executor>
  requires(multiplies_bfloat16 && std::is_base_of_v<Workers, Executor>)
void run_matmul(Executor& workers, const MatmulGeometry& geometry, const bfloat16* lhs, const bfloat16* rhs,
                float* result, Epilogue epilogue = {}) {
  run_bfloat16_matmul(workers, geometry, lhs, rhs, result, epilogue);
}

}  // namespace tenet::cpu
