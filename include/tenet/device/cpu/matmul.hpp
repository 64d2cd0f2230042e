#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

namespace tenet::cpu {

namespace detail {

/// How products are cut into tasks; a function of the shapes alone.
struct MatmulCut {
  long row_block, column_block, row_blocks, column_blocks, group, groups;

  constexpr explicit MatmulCut(const MatmulGeometry& g) {
    column_blocks = blocks_of(g.columns, 192);
    column_block = round_up(blocks_of(g.columns, column_blocks), vector_width);
    column_blocks = blocks_of(g.columns, column_block);
    const long results = g.accumulate_over_count ? 1 : g.count;
    row_blocks = blocks_of(g.rows, 128);
    if (results * row_blocks * column_blocks < 16) row_blocks = blocks_of(g.rows, 64);
    row_block = round_up(blocks_of(g.rows, row_blocks), tile_rows);
    row_blocks = blocks_of(g.rows, row_block);
    // Small products of a batch share a task.
    const double flops = g.flops() / static_cast<double>(g.count > 0 ? g.count : 1);
    group = row_blocks * column_blocks > 1 || flops > 2e5 ? 1 : static_cast<long>(2e5 / (flops + 1)) + 1;
    groups = blocks_of(results, group);
  }
};

}  // namespace detail

constexpr long scratch_matmul(const Workers*, const MatmulGeometry&) { return detail::product_scratch; }

/// result[c] = op(lhs[c]) * op(rhs[c]), or the sum of these over c; see `MatmulGeometry`.
inline void run_matmul(Workers& workers, const MatmulGeometry& g, const float* lhs, const float* rhs, float* result,
                       Epilogue epilogue = {}) {
  using namespace detail;
  if (g.result_size() == 0) return;
  workers.reserve_scratch(product_scratch);
  const MatmulCut cut(g);
  const long results = g.accumulate_over_count ? 1 : g.count, terms = g.accumulate_over_count ? g.count : 1;
  auto task = [&](int index, int worker) {
    const long column0 = index % cut.column_blocks * cut.column_block;
    const long row0 = index / cut.column_blocks % cut.row_blocks * cut.row_block;
    const long group = index / cut.column_blocks / cut.row_blocks;
    const long rows = smaller(cut.row_block, g.rows - row0), columns = smaller(cut.column_block, g.columns - column0);
    const long end = smaller(results, (group + 1) * cut.group);
    for (long c = group * cut.group; c < end; ++c) {
      float* to = result + (c * g.rows + row0) * g.columns + column0;
      for (long term = 0; term < terms; ++term) {
        Matrix a{lhs + (c + term) * g.lhs_step, g.inner, 1}, b{rhs + (c + term) * g.rhs_step, g.columns, 1};
        if (g.transpose_lhs) a = {a.data, 1, g.rows};
        if (g.transpose_rhs) b = {b.data, 1, g.inner};
        a.data += row0 * a.row;
        b.data += column0 * b.column;
        if (g.columns == 1) {  // a column is the transpose of a row times the transposed matrix
          product(1, rows, g.inner, {b.data, b.column, b.row}, {a.data, a.column, a.row}, to, rows, term > 0,
                  workers.scratch(worker));
        } else {
          product(rows, columns, g.inner, a, b, to, g.columns, term > 0, workers.scratch(worker));
        }
      }
      if (terms == 0) {
        for (long i = 0; i < rows; ++i) fill_floats(to + i * g.columns, 0, columns);
      }
      const long first = to - result;
      if (columns == g.columns) {
        epilogue(first, first + rows * columns);
      } else {
        for (long i = 0; i < rows; ++i) epilogue(first + i * g.columns, first + i * g.columns + columns);
      }
    }
  };
  run_tasks(workers, cut.row_blocks * cut.column_blocks * cut.groups, g.flops() < inline_flops, task);
}

}  // namespace tenet::cpu
