// Layers alone: program (norms|softmax|attention|update) (train|infer) BATCH FOLDER.
#include "../network.hpp"

using namespace tenet;

struct Norms : Sequential<BatchNorm2d<64>, ReLU, BatchNorm2d<64>, ReLU, GlobalAvgPool2d, Flatten, Linear<64, 10>> {};
struct Update : Sequential<Linear<4096, 1024>> {};

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "norms") return serve_training<Norms, Image<64, 28, 28>>({argc - 1, argv + 1});
  if (name == "softmax") return serve_inference<Softmax, Features<1000>>({argc - 1, argv + 1});
  if (name == "attention")
    return serve_inference<MultiheadAttention<128, 4, Causal<true>>, Batched<128, 128>>({argc - 1, argv + 1});
  if (name == "update") return serve_training<Update, Features<4096>, AdamW>({argc - 1, argv + 1});
  std::fprintf(stderr, "usage: %s (norms|softmax|attention|update) (train|infer) BATCH FOLDER\n", argv[0]);
  return 2;
}
