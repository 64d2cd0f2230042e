#pragma once

#include "tenet/core/layout.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"

/// Moving values to `Layout::samples_last` and back, in registers.
namespace tenet::cpu {

namespace detail {

/// Vectors in a row of samples.
inline constexpr int lane_parts = sample_lanes / vector_width;

/// `size` rows of lanes from element x of a line on: where they are, or, where some are outside of the line, in
/// `border` with zeros in their place. Of one vector of the lanes.
template <int size>
[[gnu::always_inline]] inline const float* rows_of_lanes(const float* line, long x, long width, float* border) {
  const float* const from = line + x * sample_lanes;
  if (x >= 0 && x + size <= width) return from;
  for (long j = 0; j < size; ++j)
    store(border + j * sample_lanes, x + j >= 0 && x + j < width ? load(from + j * sample_lanes) : zero_lanes());
  return border;
}

/// Row i of 16 samples at to + i * to_step = element i of `samples` samples that lie `sample_step` apart, for the first
/// `count` elements; missing samples are copies of the last one.
[[gnu::noinline]] inline void to_samples_last(const float* from, long sample_step, long samples, long count, float* to,
                                              long to_step = sample_lanes) {
  if (samples >= sample_lanes) return transpose_vectors(from, sample_step, sample_lanes, count, to, to_step);
  transpose(from, sample_step, samples, count, to, to_step);
  for (long p = 0; p < count; ++p) {
    float* row = to + p * to_step;
    const Vector last = broadcast<Vector>(row[samples - 1]);
    for (long lane = samples / vector_width * vector_width; lane < sample_lanes; lane += vector_width) {
      const int filled = samples > lane ? static_cast<int>(samples - lane) : 0;
      store(row + lane, select(first_lanes(filled), load(row + lane), last));
    }
  }
}

/// The inverse of `to_samples_last`: the lanes beyond `samples` are dropped.
inline void from_samples_last(const float* from, long count, float* to, long sample_step, long samples,
                              long from_step = sample_lanes) {
  transpose_vectors(from, from_step, count, smaller(samples, sample_lanes), to, sample_step);
}

}  // namespace detail

/// Floats of a value of `batch` samples of `size` elements in `Layout::samples_last`.
constexpr long samples_last_size(long size, int batch) { return sample_groups(batch) * sample_lanes * size; }

/// Copies a value of `batch` samples from one layout to another, one of which is `Layout::samples_last`. On the other
/// side all channels of a position are neighbours, which lie `positions` rows of samples apart.
inline void run_relayout_in_lanes(Workers& workers, const Relayout& relayout, int batch, const float* from, float* to) {
  using namespace detail;
  const long channels = relayout.planes.channels, positions = relayout.planes.positions, size = relayout.size();
  // A piece: some positions with all their channels, or some channels of one position.
  constexpr long most = 1024;
  const long positions_of_piece = channels < most ? smaller(positions, most / channels) : 1;
  const long channels_of_piece = smaller(channels, most);
  const long pieces_across = blocks_of(channels, channels_of_piece);
  const long pieces = blocks_of(positions, positions_of_piece) * pieces_across;
  auto task = [&](int index, int) {
    const long piece = index % pieces, group = index / pieces, samples = batch - group * sample_lanes;
    const long channel = piece % pieces_across * channels_of_piece;
    const long count = smaller(channels_of_piece, channels - channel);
    const long first = piece / pieces_across * positions_of_piece,
               last = smaller(positions, first + positions_of_piece);
    const long start = group * sample_lanes * size, step = positions * sample_lanes;
    for (long position = first; position < last; ++position) {
      const long in_lanes = start + (channel * positions + position) * sample_lanes;
      const long elsewhere = start + position * channels + channel;
      if (relayout.to == Layout::samples_last)
        to_samples_last(from + elsewhere, size, samples, count, to + in_lanes, step);
      else
        from_samples_last(from + in_lanes, count, to + elsewhere, size, samples, step);
    }
  };
  run_tasks(workers, sample_groups(batch) * pieces,
            static_cast<double>(batch) * static_cast<double>(size) < inline_elements, task);
}

/// The same in a program, where a batch that is too small for lanes has the order of types in the place of
/// `Layout::samples_last`.
inline void run_relayout(Workers& workers, const Relayout& relayout, int batch, const float* from, float* to) {
  if (lies_in_lanes(batch)) return run_relayout_in_lanes(workers, relayout, batch, from, to);
  const Planes planes = relayout.planes;
  const bool positions_are_rows = relayout.from == Layout::channels_last || planes.positions == 1;
  const long rows = positions_are_rows ? planes.positions : planes.channels, columns = relayout.size() / rows;
  for (int sample = 0; sample < batch; ++sample, from += relayout.size(), to += relayout.size())
    detail::transpose_vectors(from, columns, rows, columns, to, rows);
}

}  // namespace tenet::cpu
