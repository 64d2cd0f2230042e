#pragma once

#include "tenet/core/geometry.hpp"
#include "tenet/core/layout.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/samples_last.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/epilogue.hpp"

/// How a pass of a convolution, forward or its gradient by the input, goes over a batch whose samples lie in the vector
/// lanes: by groups of samples, and by pieces of a group's result.
///
/// A pass is a type with
///   g                                     the convolution
///   rows(), height(), width()             channels and extents of the result
///   source_size(), result_size()          elements of a sample
///   packed_size(), pack(weight, packed)   floats of the weights as the kernel wants them, and how they become such
///   own_size()                            floats that each worker needs besides
///   pieces(groups)                        into how many pieces to cut the result of each of `groups` groups; no bit
///                                         of a result depends on it
///   piece(index, count)                   one of them
///   run(packed, source, result, piece, own)   computes it, for one group
namespace tenet::cpu::detail {

/// A piece of a group's result: some channels of some lines.
struct LanePiece {
  long first_row, last_row, y0, y1;
};

/// The piece `index` of `count` with all channels and some lines, a multiple of `unit` but for the last.
template <class Pass>
constexpr LanePiece lane_band(const Pass& pass, long index, long count, long unit) {
  const long units = blocks_of(pass.height(), unit);
  return {0, pass.rows(), units * index / count * unit, smaller(units * (index + 1) / count * unit, pass.height())};
}
/// Into how many of them a result is to be cut, so that each stays in the first-level cache for the epilogue.
template <class Pass>
constexpr long lane_bands(const Pass& pass, long unit) {
  const long most = 10000 / (long{sample_lanes} * pass.width() * pass.rows() + 1), lines = most > 4 ? most : 4;
  return blocks_of(pass.height(), round_up(lines, unit));
}

template <class Pass>
constexpr long scratch_lane_pass(const Pass& pass, bool standard) {
  return pass.packed_size() + pass.own_size() +
         (standard ? sample_lanes * (pass.source_size() + pass.result_size()) : 0);
}

/// Runs a pass on values in `Layout::samples_last`, or (standard) on values in `Layout::standard`, which are re-laid
/// group by group.
template <bool standard, class Pass>
[[gnu::noinline]] void run_lane_pass(Workers& workers, const Pass& pass, int batch, const float* source,
                                     const float* weight, float* result, Epilogue epilogue) {
  workers.reserve_scratch(scratch_lane_pass(pass, standard));
  const long source_size = pass.source_size(), result_size = pass.result_size();
  const long plane = long{sample_lanes} * pass.height() * pass.width(), line = long{sample_lanes} * pass.width();
  float* const packed = workers.scratch(0);
  pass.pack(weight, packed);
  const long groups = sample_groups(batch), pieces = standard ? 1 : pass.pieces(groups);
  auto task = [&](int index, int worker) {
    const long sample = index / pieces * sample_lanes;
    const LanePiece piece = pass.piece(index % pieces, pieces);
    float* const own = workers.scratch(worker) + pass.packed_size();
    if constexpr (standard) {
      float* const from = own + pass.own_size();
      float* const to = from + sample_lanes * source_size;
      to_samples_last(source + sample * source_size, source_size, batch - sample, source_size, from);
      pass.run(packed, from, to, piece, own);
      from_samples_last(to, result_size, result + sample * result_size, result_size, batch - sample);
      epilogue(sample * result_size, smaller(batch, sample + sample_lanes) * result_size);
    } else {
      pass.run(packed, source + sample * source_size, result + sample * result_size, piece, own);
      for (long c = piece.first_row; c < piece.last_row; ++c) {
        const long first = sample * result_size + c * plane;
        epilogue(first + piece.y0 * line, first + piece.y1 * line);
      }
    }
  };
  run_tasks(workers, groups * pieces, batch * pass.g.flops() < inline_flops, task);
}

}  // namespace tenet::cpu::detail
