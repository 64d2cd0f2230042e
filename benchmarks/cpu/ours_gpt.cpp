// 4 layers, width 128, 4 heads, context 128, vocabulary 96.
#include "network.hpp"

using namespace tenet;

constexpr int length = 128, width = 128, vocabulary = 96;

struct Block {
  LayerNorm<width> ln_1;
  MultiheadAttention<width, 4, Causal<true>> attn;
  LayerNorm<width> ln_2;
  Sequential<Linear<width, 4 * width>, GELU, Linear<4 * width, width>> mlp;

  constexpr auto forward(auto x) const {
    const auto y = x + attn(ln_1(x));
    return y + mlp(ln_2(y));
  }
};

struct Gpt {
  Embedding<vocabulary, width> tokens;
  Parameter<Fixed<length, width>, Normal<20>> positions;
  Repeat<4, Block> blocks;
  LayerNorm<width> norm;
  Linear<width, vocabulary, Bias<false>> head;

  constexpr auto forward(auto x) const { return head(norm(blocks(tokens(x) + positions.in(x)))); }
};

int main(int argc, char** argv) { return serve_network<Gpt, Tokens<length>, AdamW>(argc, argv); }
