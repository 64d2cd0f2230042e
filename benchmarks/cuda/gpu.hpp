#pragma once

#include <tenet/cuda.hpp>

#include "../network.hpp"

#if defined(TENET_BENCH_ON_HOST)  // the rehearsal: everything but the times
#include <tenet/device/cuda_on_host.hpp>
using Gpu = tenet::CudaOnHost<tenet::gpu::ParallelHost>;
inline const tenet::BatchMemory batch_memory;
#else
using Gpu = tenet::Cuda<0>;
inline const tenet::BatchMemory batch_memory{tenet::gpu::allocate_page_locked, tenet::gpu::free_page_locked};
#endif

/// `serve_network` on the GPU: products in bfloat16, or of floats that are rounded to TF32; convolutions by the kernels
/// that were measured to be the quickest, as the peers' are. `Policies` are those of training steps.
template <class Net, class Input, class Optimizer = tenet::PlainSgd, class... Policies>
int serve_on_gpu(int argc, char** argv) {
  const Arguments given(argc, argv);
  const auto serve_with = [&]<class... Precision>() {
    return given.kind == "train"
               ? serve_training<Net, Input, Optimizer, Gpu, tenet::CudnnBenchmark, Policies..., Precision...>(
                     given, batch_memory)
               : serve_inference<Net, Input, Gpu, tenet::CudnnBenchmark, Precision...>(given, batch_memory);
  };
  return given.mixed ? serve_with.template operator()<tenet::BFloat16>()
                     : serve_with.template operator()<tenet::TensorFloat32>();
}
