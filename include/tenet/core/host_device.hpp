#pragma once

/// In front of functions that run inside CUDA kernels, too: nothing for compilers that know the processor only.
/// `constexpr` functions need it not, they are compiled for both by nvcc's --expt-relaxed-constexpr; and templates that
/// are instantiated for `Vector`, too, do without: kernels have no vectors.
#if defined(__CUDACC__)
#define TENET_HOST_DEVICE __host__ __device__
#else
#define TENET_HOST_DEVICE
#endif

/// In front of a loop whose number of rounds is constant, and whose arrays are to lie in registers of a GPU.
#if defined(__CUDA_ARCH__)
#define TENET_UNROLL _Pragma("unroll")
#else
#define TENET_UNROLL
#endif
