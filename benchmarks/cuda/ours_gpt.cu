// 4 layers, width 128, 4 heads, context 128, vocabulary 96.
#include "../../examples/models/gpt.hpp"
#include "gpu.hpp"

int main(int argc, char** argv) {
  return serve_on_gpu<Gpt<96, 128, 128, 4>, tenet::Tokens<128>, tenet::AdamW>(argc, argv);
}
