#pragma once

#include <tenet/nn/options.hpp>
#include <tenet/nn/parameter.hpp>
#include <tenet/ops/embedding.hpp>

namespace tenet {

/// Rows of a trained table: tokens (batch, …) in [0, Rows) -> (batch, …, Width). Starts normal, as in PyTorch.
/// Option: Sparse.
///
/// A `Sparse` table costs a step the rows that the batch's tokens choose, however many it has. All other rows keep
/// their numbers and their optimizer state, as with PyTorch's sparse=True and SparseAdam: for SGD without momentum and
/// weight decay that is the same, for other optimizers it is another rule, which decays and carries on nothing
/// meanwhile. Its tokens have to be the network's input, and one call has to be its only use.
template <int Rows, int Width, class... Options>
struct Embedding {
  static constexpr bool is_sparse = (std::is_same_v<Sparse, Options> || ...);
  static constexpr bool options_known = (std::is_same_v<Sparse, Options> && ...);
  using Table = Fixed<Rows, Width>;
  std::conditional_t<is_sparse, SparseTable<Table, Normal<>>, Parameter<Table, Normal<>>> weight;

  constexpr auto operator()(AnySymbol auto tokens, SourceLine line = SourceLine::current()) const {
    const int number = static_cast<int>(line.line());
    tokens.context->visit(weight.slot, number);
    if constexpr (!options_known)
      mistake::report<Mistake::option, Table::info, Table::info>(tokens.context, weight.slot, number);
    return embedding<std::conditional_t<is_sparse, ops::SparseEmbedding, ops::Embedding>>(tokens, weight.in(tokens));
  }
};

}  // namespace tenet
