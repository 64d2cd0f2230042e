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
  template <int count>
  static constexpr TENET_HOST_DEVICE void sum_of_lanes(float*, int) {}
  static TENET_HOST_DEVICE bool is_last([[maybe_unused]] unsigned* arrived, [[maybe_unused]] long teams) {
#if defined(__CUDA_ARCH__)
    return false;  // no kernel of a GPU has several teams of one thread
#else
    return arrives_last(arrived, teams);
#endif
  }

  /// Counts one more of so many teams, on the host; the last one begins anew.
  static bool arrives_last(unsigned* arrived, long teams) {
    if (__atomic_add_fetch(arrived, 1u, __ATOMIC_ACQ_REL) != static_cast<unsigned>(teams)) return false;
    __atomic_store_n(arrived, 0u, __ATOMIC_RELAXED);
    return true;
  }
};

/// `Threads` of a GPU's block that work on one row, the `rank`-th takes elements rank, rank + size, …; all of them call
/// `sum`, `largest` and the others, and all get the result, in an order that is always the same. 32, or a whole block.
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
  /// Each of x[0 … count) becomes the sum of those of all threads whose rank has the same rest when it is divided by
  /// `lanes`, a power of two up to 32: in the threads of rank below `lanes`.
  template <int count>
  static TENET_HOST_DEVICE void sum_of_lanes([[maybe_unused]] float* x, [[maybe_unused]] int lanes) {
#if defined(__CUDA_ARCH__)
    for (int apart = 16; apart >= lanes; apart /= 2)
#pragma unroll
      for (int k = 0; k < count; ++k) x[k] += __shfl_xor_sync(~0u, x[k], apart);
    if constexpr (Threads > 32) {
      constexpr int warps = Threads / 32;
      __shared__ float of_warp[warps][count][32];
      const int warp = static_cast<int>(threadIdx.x) / 32, thread = static_cast<int>(threadIdx.x) % 32;
      if (thread < lanes)
#pragma unroll
        for (int k = 0; k < count; ++k) of_warp[warp][k][thread] = x[k];
      __syncthreads();
      if (rank() < lanes)
        for (int other = 1; other < warps; ++other)
#pragma unroll
          for (int k = 0; k < count; ++k) x[k] += of_warp[other][k][thread];
      __syncthreads();  // the next sum writes there again
    }
#endif
  }
  /// Whether all others of so many teams have called it for `arrived`, which is 0 before and behind that. What these
  /// wrote before is there for the last one to read.
  static TENET_HOST_DEVICE bool is_last([[maybe_unused]] unsigned* arrived, [[maybe_unused]] long teams) {
    float last = 0;
#if defined(__CUDA_ARCH__)
    __threadfence();
    if constexpr (Threads > 32)
      __syncthreads();
    else
      __syncwarp();
    if (rank() == 0) {
      last = atomicAdd(arrived, 1u) + 1 == static_cast<unsigned>(teams) ? 1.0f : 0.0f;
      if (last != 0) *arrived = 0;
      __threadfence();
    }
#endif
    return largest(last) != 0;
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
