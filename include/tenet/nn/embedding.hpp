#pragma once

#include <tenet/nn/parameter.hpp>
#include <tenet/ops/embedding.hpp>

namespace tenet {

/// Rows of a trained table: tokens (batch, …) in [0, Rows) -> (batch, …, Width). Starts normal, as in PyTorch.
template <int Rows, int Width>
struct Embedding {
  Parameter<Fixed<Rows, Width>, Normal<>> weight;

  constexpr auto operator()(AnySymbol auto tokens, SourceLine line = SourceLine::current()) const {
    tokens.context->visit(weight.slot, static_cast<int>(line.line()));
    return embedding(tokens, weight.in(tokens));
  }
};

}  // namespace tenet
