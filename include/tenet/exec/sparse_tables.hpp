#pragma once

#include <algorithm>
#include <array>
#include <tenet/core/buffer.hpp>
#include <tenet/exec/execution.hpp>
#include <tenet/exec/touched_rows.hpp>

/// What a training step does with tables of which it touches some rows only (`SparseTable`). The graph computes the
/// gradients of the rows that the tokens have chosen, one for each token; here those of equal tokens are added up, and
/// the optimizer's rule runs over each row once.
namespace tenet {

/// A sparse table in a training step.
struct TableOfStep {
  long offset = 0;  ///< in the arena of the parameters
  int rows = 0, width = 0;
  long tokens_of_sample = 0, tokens_of_batch = 0;  ///< one of them is zero
  Place tokens{}, gradients{};                     ///< of the rows that the tokens choose, one for each
};

namespace detail {
template <class Program>
inline constexpr int table_count_of = [] {
  int count = 0;
  for (const Output& output : Program::graph.outputs) count += output.destination == Destination::table_rows;
  return count;
}();
}  // namespace detail

/// Those of a program that its loss depends on.
template <class Program>
inline constexpr auto tables_of_step = [] {
  std::array<TableOfStep, static_cast<std::size_t>(detail::table_count_of<Program>)> tables{};
  std::size_t next = 0;
  for (const Output& output : Program::graph.outputs) {  // tokens, then gradients, of one table after the other
    const Place place = Program::plan.place[Program::fusion.value[output.node]];
    if (output.destination == Destination::table_tokens) {
      const SlotInfo& slot = Program::slots.slots[output.index];
      const TensorInfo& type = *Program::graph.nodes[output.node].type;
      tables[next].offset = slot.offset;
      tables[next].rows = slot.type->extents[0];
      tables[next].width = slot.type->extents[1];
      (type.batched ? tables[next].tokens_of_sample : tables[next].tokens_of_batch) = type.size();
      tables[next].tokens = place;
    }
    if (output.destination == Destination::table_rows) tables[next++].gradients = place;
  }
  return tables;
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
  /// Finds them, for the inputs that an execution has been given. Before the first step of the program.
  template <class Execution>
  void find(const Execution& execution, int batch) {
    for_each_table([&](const TableOfStep& table, Found& found) {
      found.rows.find(static_cast<const std::int32_t*>(execution.at(table.tokens)),
                      table.tokens_of_sample * batch + table.tokens_of_batch, table.rows);
    });
  }

  /// Copies them from a table elsewhere, of the same layout as all parameters.
  template <class Access, class Executor>
  void load(Executor& executor, const float* from, float* to) {
    for_each_table([&](const TableOfStep& table, Found& found) {
      const std::vector<std::int32_t>& rows = found.rows.rows();
      for_pieces(executor, table, found, [&](const Piece& piece) {
        for (long i = piece.first; i < piece.last; ++i) {
          const long at = table.offset + long{rows[static_cast<std::size_t>(i)]} * table.width + piece.column;
          Access::load(from + at, to + at, piece.columns);
        }
      });
    });
  }

  /// Adds up their gradients and updates them. The sums of equal tokens are in the order of these, for any number of
  /// workers. What is to be done before `Execution::update` has been done.
  template <class Access, class Execution, class Executor>
  void update(const Execution& execution, Executor& executor, float* parameters, float* states) {
    for_each_table([&](const TableOfStep& table, Found& found) {
      const std::vector<std::int32_t>&rows = found.rows.rows(), &positions = found.rows.positions();
      found.sums.grow(std::min(static_cast<long>(positions.size()), long{table.rows}) * table.width);  // at most
      run_embedding_gradient(executor, static_cast<long>(positions.size()), table.width, static_cast<int>(rows.size()),
                             positions.data(), static_cast<const float*>(execution.at(table.gradients)),
                             found.sums.data());
      for_pieces(executor, table, found, [&](const Piece& piece) {
        float before[block], now[block], state[Program::state_count * block + 1];
        const auto each_row = [&](auto task) {  // task(its place in the tables, its place in the arrays above)
          for (long i = piece.first, at = 0; i < piece.last; ++i, at += piece.columns)
            task(table.offset + long{rows[static_cast<std::size_t>(i)]} * table.width + piece.column, at);
        };
        each_row([&](long there, long here) {
          Access::load(parameters + there, before + here, piece.columns);
          for (int k = 0; k < Program::state_count; ++k)
            std::copy_n(states + k * all + there, piece.columns, state + k * block + here);
        });
        const long count = (piece.last - piece.first) * piece.columns;
        std::copy_n(before, count, now);
        execution.update(now, found.sums.data() + piece.first * table.width + piece.column, state, count, block);
        each_row([&](long there, long here) {
          Access::store(before + here, now + here, parameters + there, piece.columns);
          for (int k = 0; k < Program::state_count; ++k)
            std::copy_n(state + k * block + here, piece.columns, states + k * all + there);
        });
      });
    });
  }

  /// Writes the gradients of the last update into tables: there they are, and zero in all other rows.
  void show_gradients(float* gradients) {
    for_each_table([&](const TableOfStep& table, Found& found) {
      float* const to = gradients + table.offset;
      for (const std::int32_t row : found.shown) std::fill_n(to + long{row} * table.width, table.width, 0.0f);
      found.shown = found.rows.rows();
      for (std::size_t i = 0; i < found.shown.size(); ++i)
        std::copy_n(found.sums.data() + static_cast<long>(i) * table.width, table.width,
                    to + long{found.shown[i]} * table.width);
    });
  }

 private:
  static constexpr long all = Program::slots.parameter_floats;
  static constexpr long block = 1024;  // floats of a piece

  struct Found {
    TouchedRows rows;
    Buffer sums;                      // of the gradients, for each of the rows
    std::vector<std::int32_t> shown;  // rows of the table of gradients that are not zero
  };
  /// Columns of consecutive rows that have been found: whole rows, or a part of one.
  struct Piece {
    long first, last, column, columns;
  };

  template <class Task>
  void for_each_table(Task task) {
    for (std::size_t i = 0; i < found_.size(); ++i) task(tables_of_step<Program>[i], found_[i]);
  }
  template <class Executor, class Task>
  static void for_pieces(Executor& executor, const TableOfStep& table, const Found& found, const Task& task) {
    const long rows = static_cast<long>(found.rows.rows().size()), columns = std::min<long>(table.width, block);
    const long rows_of_piece = block / columns, parts = (table.width + columns - 1) / columns;
    for_each_task(executor, static_cast<int>((rows + rows_of_piece - 1) / rows_of_piece * parts), [&](int i) {
      const long first = i / parts * rows_of_piece, column = i % parts * columns;
      task({first, std::min(rows, first + rows_of_piece), column, std::min(columns, table.width - column)});
    });
  }

  std::array<Found, tables_of_step<Program>.size()> found_;
};

}  // namespace tenet
