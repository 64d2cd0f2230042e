#pragma once

#include <tenet/tenet.hpp>

/// A pre-norm transformer block (Radford et al., 2019): (batch, length, width) -> the same.
template <int Width, int Heads>
struct TransformerBlock {
  tenet::LayerNorm<Width> ln_1;
  tenet::MultiheadAttention<Width, Heads, tenet::Causal<true>> attn;
  tenet::LayerNorm<Width> ln_2;
  tenet::Sequential<tenet::Linear<Width, 4 * Width>, tenet::GELU, tenet::Linear<4 * Width, Width>> mlp;

  constexpr auto forward(auto x) const {
    const auto y = x + attn(ln_1(x));
    return y + mlp(ln_2(y));
  }
};

/// Tokens (batch, length) -> scores of the next token at each place (batch, length, vocabulary).
template <int Vocabulary, int Length, int Width, int Layers, int Heads = 4>
struct Gpt {
  tenet::Embedding<Vocabulary, Width> tokens;
  tenet::Parameter<tenet::Fixed<Length, Width>, tenet::Normal<20>> positions;  // standard deviation 0.02
  tenet::Repeat<Layers, TransformerBlock<Width, Heads>> blocks;
  tenet::LayerNorm<Width> norm;
  tenet::Linear<Width, Vocabulary, tenet::Bias<false>> head;

  constexpr auto forward(auto x) const { return head(norm(blocks(tokens(x) + positions.in(x)))); }
};
