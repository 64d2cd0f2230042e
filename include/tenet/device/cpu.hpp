#pragma once

#include <cstdlib>
#include <tenet/core/error.hpp>
#include <tenet/core/processors.hpp>
#include <tenet/device/arguments.hpp>
#include <tenet/device/cpu/attention.hpp>
#include <tenet/device/cpu/convolution_channels_last.hpp>
#include <tenet/device/cpu/convolution_samples_last.hpp>
#include <tenet/device/cpu/copy.hpp>
#include <tenet/device/cpu/cross_entropy.hpp>
#include <tenet/device/cpu/element.hpp>
#include <tenet/device/cpu/embedding.hpp>
#include <tenet/device/cpu/layer_norm.hpp>
#include <tenet/device/cpu/matmul.hpp>
#include <tenet/device/cpu/one_sample.hpp>
#include <tenet/device/cpu/one_sample_conv2d.hpp>
#include <tenet/device/cpu/outer_sum.hpp>
#include <tenet/device/cpu/pool2d_channels_last.hpp>
#include <tenet/device/cpu/pool2d_samples_last.hpp>
#include <tenet/device/cpu/prepared_conv2d.hpp>
#include <tenet/device/cpu/random.hpp>
#include <tenet/device/cpu/softmax.hpp>

namespace tenet {

template <class OfAnyBatch, DType factors = DType::float32>
struct CpuOneSample;
struct CpuDirect;

/// What every `Cpu` device shares: one set of kernels, whatever the number of threads.
struct CpuKernels {
  using Lane = Vector;
  using Executor = cpu::Workers;
  using Arguments = KernelArguments;
  using Kernel = void (*)(Executor&, const Arguments&);

  template <Role role, Wiring wiring, auto... functions>
  static constexpr ElementRange element_range = &cpu::element_range<role, wiring, functions...>;

  static constexpr const char* name = "cpu";
  static constexpr bool turns_images = true;
  using OneSample = CpuOneSample<CpuKernels>;  ///< for a batch of one of a small network
  using Direct = CpuDirect;                    ///< without Winograd's algorithm
};

/// The same with convolutions that multiply as they are defined.
struct CpuDirect : CpuKernels {
  using Executor = cpu::DirectWorkers;
  using Kernel = void (*)(Executor&, const Arguments&);
  using OneSample = CpuOneSample<CpuDirect>;
};

/// The same kernels for a batch that is the constant 1, so that the geometry of every kernel is one, too. Values are
/// floats; matrices that are prepared for inference may be of other numbers.
template <class OfAnyBatch, DType factors>
struct CpuOneSample : OfAnyBatch {
  static constexpr bool turns_images = false;
  using PreparedFactor = std::conditional_t<factors == DType::bfloat16, bfloat16, float>;
  template <DType dtype>
  using WithFactors = CpuOneSample<OfAnyBatch, multiplies_bfloat16 ? dtype : DType::float32>;
  struct Arguments : KernelArguments {
    static constexpr int batch = 1;
  };
  using Kernel = void (*)(typename OfAnyBatch::Executor&, const Arguments&);

  static constexpr long prepared_factor_floats(long columns, long inner) {
    return cpu::prepared_factor_floats<PreparedFactor>(columns, inner);
  }
  template <Role role, Wiring wiring, KnownRegion region, auto... functions>
  [[gnu::always_inline]] static inline void run_region(const float* const* inputs, float* const* outputs) {
    cpu::run_known_region<role, wiring, region, functions...>(inputs, outputs);
  }
};

/// The processor's cores. Logical devices of different Index have their own workers, memory and queue; Threads is the
/// number of workers, 0: what the environment variable TENET_NUM_THREADS says, else all cores that the process may use.
///
/// With Threads = t, device i has the processors i · t to (i + 1) · t of those that the process may use, where there
/// are so many: its workers keep to them, and so does its queue's thread. Whoever calls a step is not bound.
template <int Index = 0, int Threads = 0>
struct Cpu {
  using Kernels = CpuKernels;
  static constexpr int index = Index;

  static int threads() {
    if constexpr (Threads > 0) return Threads;
    const char* const asked = std::getenv("TENET_NUM_THREADS");
    if (asked == nullptr || *asked == '\0') return 0;
    const int count = std::atoi(asked);
    if (count <= 0) fail("TENET_NUM_THREADS", "not a number of threads", "a positive number", asked);
    return count;
  }

  /// Those that the device has to itself; none: it may use all.
  static ProcessorSet processors() {
    return Threads > 0 ? some_processors(own_processors(), Index * Threads, Threads) : ProcessorSet{};
  }
};

}  // namespace tenet
