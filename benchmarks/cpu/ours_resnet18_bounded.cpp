#include "../../examples/models/resnet18.hpp"
#include "../network.hpp"

/// Training steps whose activations take two thirds of what they take without a bound.
int main(int argc, char** argv) {
  return serve_training<ResNet18<>, tenet::Image<1, 28, 28>, tenet::PlainSgd, tenet::MemoryBound<2'400'000>>(
      Arguments(argc, argv));
}
