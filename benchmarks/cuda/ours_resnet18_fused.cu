#include "../../examples/models/resnet18.hpp"
#include "gpu.hpp"

/// Inference in bfloat16 alone, with convolutions that cuDNN fuses with what is behind them.
int main(int argc, char** argv) {
  const Arguments given(argc, argv);
  return serve_inference<ResNet18<>, tenet::Image<1, 28, 28>, Gpu, tenet::BFloat16, tenet::FusedConvolution,
                         tenet::CudnnBenchmark>(given, batch_memory);
}
