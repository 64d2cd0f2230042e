#pragma once

#include <tenet/core/host_device.hpp>
#include <tenet/core/vector.hpp>

/// How kernels are written: once for the GPU and for the host, as function objects. One kind does the work of element i
/// (`for_each`), the other that of row i together with the other threads of a team (`for_each_row`).
namespace tenet::gpu {

/// One thread that works on a row alone: the host's team.
struct Alone {
  static constexpr int size = 1;
  static constexpr TENET_HOST_DEVICE int rank() { return 0; }
  static constexpr TENET_HOST_DEVICE float sum(float x) { return x; }
  static constexpr TENET_HOST_DEVICE float largest(float x) { return x; }
};

/// `Threads` of a GPU's block that work on one row, the `rank`-th takes elements rank, rank + size, …; all of them call
/// `sum` and `largest`, and all get the result, in an order that is always the same. 32, or a whole block.
template <int Threads>
struct Team {
  static_assert(Threads % 32 == 0, "a team is some warps");
  static constexpr int size = Threads;
  static TENET_HOST_DEVICE int rank() {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x) % Threads;
#else
    return 0;
#endif
  }
  static TENET_HOST_DEVICE float sum(float x) {
    return reduce(x, [](float a, float b) { return a + b; });
  }
  static TENET_HOST_DEVICE float largest(float x) {
    return reduce(x, [](float a, float b) { return a > b || a != a ? a : b; });  // NaN stays
  }

 private:
  template <class Operation>
  static TENET_HOST_DEVICE float reduce(float x, [[maybe_unused]] Operation operation) {
#if defined(__CUDA_ARCH__)
    for (int apart = 16; apart > 0; apart /= 2) x = operation(x, __shfl_xor_sync(~0u, x, apart));
    if constexpr (Threads > 32) {
      constexpr int warps = Threads / 32;
      __shared__ float of_warp[warps];
      if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
      __syncthreads();
      x = of_warp[0];
      for (int warp = 1; warp < warps; ++warp) x = operation(x, of_warp[warp]);
      __syncthreads();  // the next reduction writes there again
    }
#endif
    return x;
  }
};

}  // namespace tenet::gpu
