#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/layout.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/samples_last.hpp"
#include "tenet/device/cpu/spans.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// How a pass of a convolution, forward or its gradient by the input, goes over a batch whose samples lie in the vector
/// lanes: by groups of samples, and by bands of a group's lines.
///
/// A pass is a type with
///   g                                     the convolution
///   rows(), height(), width()             channels and extents of the result
///   source_size(), result_size()          elements of a sample
///   packed_size(), pack(weight, packed)   floats of the weights as the kernel wants them, and how they become such
///   own_size()                            floats that each worker needs besides
///   run(packed, source, result, lines, own)   computes some lines of a group's result, all channels of them; no bit
///                                         depends on which lines are computed together
namespace tenet::cpu::detail {

/// Band `index` of `count` bands of lines.
constexpr Span lane_band(long height, long index, long count) {
  return {height * index / count, height * (index + 1) / count};
}
/// Into how many of them a group's result is cut, so that each stays in the first-level cache for the epilogue.
template <class Pass>
constexpr long lane_bands(const Pass& pass) {
  const long most = 10000 / (long{sample_lanes} * pass.width() * pass.rows() + 1);
  return blocks_of(pass.height(), most > 4 ? most : 4);
}

template <class Pass>
constexpr long scratch_lane_pass(const Pass& pass, Layout layout) {
  return pass.packed_size() + pass.own_size() +
         (layout == Layout::standard ? sample_lanes * (pass.source_size() + pass.result_size()) : 0);
}

/// Runs a pass on values in `Layout::samples_last`, or on values in `Layout::standard`, which are re-laid group by
/// group.
template <class Pass>
[[gnu::noinline]] void run_lane_pass(Workers& workers, const Pass& pass, Layout layout, int batch, const float* source,
                                     const float* weight, float* result, Epilogue epilogue) {
  workers.reserve_scratch(scratch_lane_pass(pass, layout));
  const bool standard = layout == Layout::standard;
  const long source_size = pass.source_size(), result_size = pass.result_size();
  const long plane = long{sample_lanes} * pass.height() * pass.width(), line = long{sample_lanes} * pass.width();
  float* const packed = workers.scratch(0);
  pass.pack(weight, packed);
  const long groups = sample_groups(batch), bands = standard ? 1 : lane_bands(pass);
  auto task = [&](int index, int worker) {
    const long sample = index / bands * sample_lanes;
    const Span lines = lane_band(pass.height(), index % bands, bands);
    float* const own = workers.scratch(worker) + pass.packed_size();
    const float* from = source + sample * source_size;
    float* to = result + sample * result_size;
    if (standard) {
      float* const source_in_lanes = own + pass.own_size();
      to_samples_last(from, source_size, batch - sample, source_size, source_in_lanes);
      from = source_in_lanes;
      to = source_in_lanes + sample_lanes * source_size;
    }
    pass.run(packed, from, to, lines, own);
    if (standard) {
      from_samples_last(to, result_size, result + sample * result_size, result_size, batch - sample);
      return epilogue(sample * result_size, smaller(batch, sample + sample_lanes) * result_size);
    }
    for (long c = 0; c < pass.rows(); ++c) {
      const long first = sample * result_size + c * plane;
      epilogue(first + lines.first * line, first + lines.last * line);
    }
  };
  run_tasks(workers, groups * bands, batch * pass.g.flops() < inline_flops, task);
}

}  // namespace tenet::cpu::detail
