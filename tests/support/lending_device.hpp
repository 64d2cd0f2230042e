#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <tenet/device/reference.hpp>
#include <tenet/tenet.hpp>

/// The reference device, but that its kernels say that they need workspaces, and that what is lent to them is
/// overwritten with what is not a number: whoever reads there afterwards what lay there before has wrong results.
namespace lending {

struct Executor : tenet::reference::Serial {
  void lend_workspace(float* memory = nullptr, long floats = 0) {
    std::fill_n(memory, floats, std::numeric_limits<float>::quiet_NaN());
    if (floats > 0) ++lent;
    if (floats > most) most = floats;
  }
  void reserve_workspace(long floats) {
    if (floats > reserved) reserved = floats;
  }

  // Of all executors.
  inline static std::atomic<long> lent{0};               ///< how often
  inline static std::atomic<long> most{0}, reserved{0};  ///< floats, of one kernel and of an executor's own
};

// Some that only fit where much is free, and some that are larger than all that is.
inline long workspace_conv2d(const Executor*, const auto&, long batch) { return 40 + 100 * batch; }
inline long workspace_conv2d_input_gradient(const Executor*, const auto&, long batch) { return batch > 2 ? 100 : 5000; }
inline long workspace_conv2d_weight_gradient(const Executor*, const auto&, long batch) { return 16 * batch; }
inline long workspace_matmul(const Executor*, const tenet::MatmulGeometry& g, float) { return 3 * g.rows + 1; }
inline long workspace_layer_norm_parameters(const Executor*, long rows, int) { return 7 * rows; }
inline long workspace_reduce(const Executor*, tenet::Role, long total, long, long count) { return total + count; }

struct Kernels : tenet::ReferenceKernels {
  using Executor = lending::Executor;
  using Kernel = void (*)(Executor&, const Arguments&);
  static constexpr const char* name = "lending";
};

struct Device {
  using Kernels = lending::Kernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace lending
