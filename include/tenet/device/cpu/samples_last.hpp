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

/// Row i of 16 samples at to + i * to_step = element i of `samples` samples that lie `sample_step` apart, for the first
/// `count` elements; missing samples are copies of the last one.
inline void to_samples_last(const float* from, long sample_step, long samples, long count, float* to,
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

/// Copies a value of `batch` samples from one layout to another, one of which is `Layout::samples_last`. With channels
/// last the elements of a position are neighbours, which lie `positions` rows of samples apart.
inline void run_relayout_in_lanes(Workers& workers, const Relayout& relayout, int batch, const float* from, float* to) {
  using namespace detail;
  const Planes planes = relayout.planes;
  const long size = relayout.size(), width = planes.channels;
  // A piece: some positions with all their channels, or, where those are one position, some of the elements.
  const bool by_channels = relayout.from == Layout::channels_last || relayout.to == Layout::channels_last;
  const long rows = by_channels ? planes.positions : 1, columns = by_channels ? width : size;
  constexpr long most = 1024;
  const long rows_of_piece = columns < most ? smaller(rows, most / columns) : 1;
  const long columns_of_piece = smaller(columns, most);
  const long pieces_across = blocks_of(columns, columns_of_piece);
  const long pieces = blocks_of(rows, rows_of_piece) * pieces_across;
  auto task = [&](int index, int) {
    const long piece = index % pieces, group = index / pieces, samples = batch - group * sample_lanes;
    const long column = piece % pieces_across * columns_of_piece, count = smaller(columns_of_piece, columns - column);
    const long first = piece / pieces_across * rows_of_piece, last = smaller(rows, first + rows_of_piece);
    const long lanes_of_group = group * sample_lanes * size, step = rows * sample_lanes;
    for (long row = first; row < last; ++row) {
      const long there = lanes_of_group + (column * rows + row) * sample_lanes;
      const long here = group * sample_lanes * size + row * columns + column;
      if (relayout.to == Layout::samples_last)
        to_samples_last(from + here, size, samples, count, to + there, step);
      else
        from_samples_last(from + there, count, to + here, size, samples, step);
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
  const bool from_channels = relayout.from == Layout::channels_last;
  const long rows = from_channels ? planes.positions : planes.channels;
  const long columns = from_channels ? planes.channels : planes.positions;
  for (int sample = 0; sample < batch; ++sample, from += relayout.size(), to += relayout.size())
    detail::transpose_vectors(from, columns, rows, columns, to, rows);
}

}  // namespace tenet::cpu
