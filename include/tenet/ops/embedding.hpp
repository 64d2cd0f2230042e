#pragma once

#include <cstdint>
#include <tenet/ops/instance.hpp>

/// Rows of a table, chosen by integers.
namespace tenet {
namespace ops {

/// The sum of the upstream rows of each token: the gradient of the table. Dense, zero for the rows that no token chose.
template <class Table>
struct EmbeddingGradient : KernelOperation {
  static constexpr const char* name = "embedding_gradient";
  static constexpr Table result(auto, auto) { return {}; }
  template <class Tokens>
  static void run(auto& executor, const auto& arguments, Tokens, auto) {
    run_embedding_gradient(executor, Tokens::size * (Tokens::batched ? arguments.batch : 1), Table::info.extents[1],
                           Table::info.extents[0], arguments.template operand<std::int32_t>(0),
                           arguments.template operand<float>(1), arguments.template result<float>());
  }
};

struct Embedding : KernelOperation {
  static constexpr const char* name = "embedding";
  static constexpr bool carries_epilogue = true;
  template <class Tokens, class Table>
  static constexpr auto result(Tokens, Table) {
    return TypeOf<with_dtype(with_last_extent(Tokens::info, Table::info.extents[1]), DType::float32)>{};
  }
  template <class Tokens, class Table>
  static void run(auto& executor, const auto& arguments, Tokens, Table) {
    run_embedding(executor, Tokens::size * (Tokens::batched ? arguments.batch : 1), Table::info.extents[1],
                  Table::info.extents[0], arguments.template operand<std::int32_t>(0),
                  arguments.template operand<float>(1), arguments.template result<float>(), arguments.epilogue);
  }
  template <class Tokens, class Table>
  static constexpr auto gradient(auto, auto upstream, Tokens tokens, Table) {
    return gradients(no_gradient, [=] { return apply<EmbeddingGradient<typename Table::Type>>(tokens, upstream); });
  }
};

/// The same of a sparse table, whose gradient no node of a graph holds: a training step asks for the gradient of the
/// rows that the tokens have chosen, which is the upstream one (train/programs.hpp). A tape holds a whole table.
struct SparseEmbedding : Embedding {
  static constexpr const char* name = "sparse_embedding";
  template <class Context, class Tokens, class Table>
  static constexpr auto gradient(auto y, auto upstream, Symbol<Context, Tokens> tokens, Symbol<Context, Table> table) {
    if constexpr (Context::holds_values)
      return Embedding::gradient(y, upstream, tokens, table);
    else
      return gradients(no_gradient, no_gradient);
  }
};

}  // namespace ops

/// tokens (batch, …) of integers in [0, rows), table (rows, width) -> (batch, …, width).
template <class Operation = ops::Embedding, class Context, class Tokens, class Table>
constexpr auto embedding(Symbol<Context, Tokens> tokens, Symbol<Context, Table> table) {
  static_assert(std::is_same_v<typename Tokens::Element, std::int32_t>, "embedding: tokens are std::int32_t");
  static_assert(Table::rank == 2 && !Table::batched, "embedding: the table is (rows, width)");
  return apply<Operation>(tokens, table);
}

}  // namespace tenet
