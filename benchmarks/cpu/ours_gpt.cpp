// 4 layers, width 128, 4 heads, context 128, vocabulary 96.
#include "../../examples/models/gpt.hpp"
#include "../network.hpp"

int main(int argc, char** argv) {
  return serve_precisions<Gpt<96, 128, 128, 4>, tenet::Tokens<128>, tenet::AdamW>(argc, argv);
}
