#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <tenet/core/buffer.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/exec/touched_rows.hpp>
#include <tenet/ops/embedding.hpp>

/// What a training step does with tables of which it touches some rows only (`SparseTable`). The graph computes the
/// gradients of the rows that the tokens have chosen, one for each token; here those of equal tokens are added up, and
/// the optimizer's rule runs over each row once.
namespace tenet {

/// A sparse table in a training step. All of them read the same tokens, the network's input.
struct TableOfStep {
  long offset = 0;  ///< in the arena of the parameters
  int rows = 0, width = 0;
  Place tokens{}, gradients{};  ///< of the rows that the tokens choose, one for each
  long tokens_of_sample = 0;
};

namespace detail {
template <class Program>
inline constexpr int table_count_of = [] {
  int count = 0;
  for (const Output& output : Program::graph.outputs) count += output.destination == Destination::table_rows;
  return count;
}();
}  // namespace detail

template <class Program>
inline constexpr auto tables_of_step = [] {
  std::array<TableOfStep, static_cast<std::size_t>(detail::table_count_of<Program>)> tables{};
  std::size_t next = 0;
  for (const Output& output : Program::graph.outputs) {  // tokens, then gradients, of one table after the other
    const Place place = Program::plan.place[Program::fusion.value[output.node]];
    if (output.destination == Destination::table_tokens) {
      const SlotInfo& slot = Program::slots.slots[output.index];
      tables[next].offset = slot.offset;
      tables[next].rows = slot.type->extents[0];
      tables[next].width = slot.type->extents[1];
      tables[next].tokens = place;
      tables[next].tokens_of_sample = Program::graph.nodes[output.node].type->size();
    }
    if (output.destination == Destination::table_rows) tables[next++].gradients = place;
  }
  return tables;
}();

/// Whether sparse tables alone read their tokens: then numbers of other rows can stand in for these.
template <class Program>
inline constexpr bool tokens_choose_rows_only = [] {
  const Place tokens = tables_of_step<Program>[0].tokens;
  for (const auto& node : Program::graph.nodes) {
    if (!node.is_computed() || node.operation->kind == Kind::view) continue;
    for (int j = 0; j < node.operand_count; ++j)
      if (Program::plan.place[Program::fusion.value[node.operands[j]]] == tokens &&
          std::string_view(node.operation->name) != ops::SparseEmbedding::name)
        return false;
  }
  return true;
}();

/// Numbers that one thread alone reads and writes.
struct PlainAccess {
  static void load(const float* from, float* to, long count) { std::copy_n(from, count, to); }
  static void store(const float*, const float* now, float* to, long count) { std::copy_n(now, count, to); }
};

/// The rows that a step touches, of all sparse tables of a program.
template <class Program>
class SparseTables {
 public:
  /// Finds them, for the inputs that an execution has been given. Before the first step of the program. Tokens that are
  /// no rows of one table, for which there is no loss, choose none of any.
  template <class Execution>
  void find(const Execution& execution, int batch) {
    constexpr int rows = [] {
      int least = tables[0].rows;
      for (const TableOfStep& table : tables) least = std::min(least, table.rows);
      return least;
    }();
    touched_.find(static_cast<const std::int32_t*>(execution.at(tables[0].tokens)), tables[0].tokens_of_sample * batch,
                  rows);
  }

  /// Copies them from tables elsewhere, of the same layout as all parameters: to their places in `to`, or, `packed`,
  /// one behind the other from the beginning of their table. The positions in which they then are stand in for tokens.
  template <class Access, bool packed, class Executor>
  void load(Executor& executor, const float* from, float* to) const {
    for_each_table([&](const TableOfStep& table, std::size_t) {
      for_pieces(executor, table, [&](const Piece& piece) {
        for (long i = piece.first; i < piece.last; ++i) {
          // Rows are far from each other: some are on their way while one is copied.
          if (i + 12 < piece.last) __builtin_prefetch(from + table.offset + row(i + 12) * table.width + piece.column);
          const long at = table.offset + piece.column, there = at + row(i) * table.width;
          Access::load(from + there, to + (packed ? at + i * table.width : there), piece.columns);
        }
      });
    });
  }
  const std::int32_t* positions() const { return touched_.positions().data(); }

  /// Adds up their gradients and updates them. The sums of equal tokens are in the order of these, for any number of
  /// workers. What is to be done before `Execution::update` has been done.
  template <class Access, class Execution, class Executor>
  void update(const Execution& execution, Executor& executor, float* parameters, float* states) {
    const long tokens = static_cast<long>(touched_.positions().size());
    for_each_table([&](const TableOfStep& table, std::size_t k) {
      sums_[k].grow(std::min(tokens, long{table.rows}) * table.width);  // at most
      float* const sums = sums_[k].data();
      run_embedding_gradient(executor, tokens, table.width, static_cast<int>(touched_.rows().size()), positions(),
                             static_cast<const float*>(execution.at(table.gradients)), sums);
      for_pieces(executor, table, [&](const Piece& piece) {
        float before[block], now[block], state[Program::state_count * block + 1];
        const auto each_row = [&](auto task) {  // task(its place in the tables, its place in the arrays above)
          for (long i = piece.first, at = 0; i < piece.last; ++i, at += piece.columns)
            task(table.offset + row(i) * table.width + piece.column, at);
        };
        each_row([&](long there, long here) {
          Access::load(parameters + there, before + here, piece.columns);
          for (int s = 0; s < Program::state_count; ++s)
            std::copy_n(states + s * all + there, piece.columns, state + s * block + here);
        });
        const long count = (piece.last - piece.first) * piece.columns;
        std::copy_n(before, count, now);
        execution.update(now, sums + piece.first * table.width + piece.column, state, count, block);
        each_row([&](long there, long here) {
          Access::store(before + here, now + here, parameters + there, piece.columns);
          for (int s = 0; s < Program::state_count; ++s)
            std::copy_n(state + s * block + here, piece.columns, states + s * all + there);
        });
      });
    });
  }

  /// Writes the gradients of the last update into tables: there they are, and zero in all other rows.
  void show_gradients(float* gradients) {
    for_each_table([&](const TableOfStep& table, std::size_t k) {
      float* const to = gradients + table.offset;
      for (const std::int32_t shown : shown_) std::fill_n(to + long{shown} * table.width, table.width, 0.0f);
      for (std::size_t i = 0; i < touched_.rows().size(); ++i)
        std::copy_n(sums_[k].data() + static_cast<long>(i) * table.width, table.width,
                    to + long{touched_.rows()[i]} * table.width);
    });
    shown_ = touched_.rows();
  }

 private:
  static constexpr auto& tables = tables_of_step<Program>;
  static constexpr long all = Program::slots.parameter_floats;
  static constexpr long block = 1024;  // floats of a piece

  /// Columns of consecutive touched rows: whole rows, or a part of one.
  struct Piece {
    long first, last, column, columns;
  };

  long row(long i) const { return touched_.rows()[static_cast<std::size_t>(i)]; }

  template <class Task>
  static void for_each_table(Task task) {
    for (std::size_t k = 0; k < tables.size(); ++k) task(tables[k], k);
  }
  template <class Executor, class Task>
  void for_pieces(Executor& executor, const TableOfStep& table, const Task& task) const {
    const long rows = static_cast<long>(touched_.rows().size()), columns = std::min<long>(table.width, block);
    const long rows_of_piece = block / columns, parts = (table.width + columns - 1) / columns;
    for_each_task(executor, static_cast<int>((rows + rows_of_piece - 1) / rows_of_piece * parts), [&](int i) {
      const long first = i / parts * rows_of_piece, column = i % parts * columns;
      task({first, std::min(rows, first + rows_of_piece), column, std::min(columns, table.width - column)});
    });
  }

  TouchedRows touched_;
  std::array<Buffer, tables.size()> sums_;  // of each table: the gradients of the touched rows
  std::vector<std::int32_t> shown_;         // rows of the tables of gradients that are not zero
};

}  // namespace tenet
