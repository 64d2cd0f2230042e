#include "../../examples/models/resnet18.hpp"
#include "gpu.hpp"

/// In training a convolution's bias is added by its kernel.
int main(int argc, char** argv) {
  return serve_on_gpu<ResNet18<>, tenet::Image<1, 28, 28>, tenet::PlainSgd, tenet::FusedConvolution>(argc, argv);
}
