#pragma once

#include "tenet/core/layout.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"

/// Moving values between `Layout::standard` and `Layout::samples_last`, in registers.
namespace tenet::cpu {

namespace detail {

/// Vectors in a row of samples.
inline constexpr int lane_parts = sample_lanes / vector_width;
constexpr long sample_groups(long batch) { return blocks_of(batch, sample_lanes); }

/// to [count, 16] = the first `count` elements of `samples` samples that lie `sample_step` apart; missing samples are
/// copies of the last one.
inline void to_samples_last(const float* from, long sample_step, long samples, long count, float* to) {
  if (samples >= sample_lanes) {
    return transpose_vectors(from, sample_step, sample_lanes, count, to, sample_lanes);
  }
  transpose(from, sample_step, samples, count, to, sample_lanes);
  for (long p = 0; p < count; ++p) {
    float* row = to + p * sample_lanes;
    for (long s = samples; s < sample_lanes; ++s) row[s] = row[samples - 1];
  }
}

/// The inverse of `to_samples_last`: the lanes beyond `samples` are dropped.
inline void from_samples_last(const float* from, long count, float* to, long sample_step, long samples) {
  transpose_vectors(from, sample_lanes, count, smaller(samples, sample_lanes), to, sample_step);
}

}  // namespace detail

/// Floats of a value of `batch` samples of `size` elements in `Layout::samples_last`.
constexpr long samples_last_size(long size, int batch) { return detail::sample_groups(batch) * sample_lanes * size; }

/// Copies `batch` samples of `size` elements each from one layout to the other; one of them is `Layout::standard`, one
/// `Layout::samples_last`.
inline void run_relayout(Workers& workers, Layout from_layout, Layout, long size, int batch, const float* from,
                         float* to) {
  using namespace detail;
  constexpr long piece = 1024;
  const long pieces = blocks_of(size, piece);
  auto task = [&](int index, int) {
    const long first = index % pieces * piece, count = smaller(piece, size - first);
    const long sample = index / pieces * sample_lanes, samples = batch - sample;
    const long here = sample * size + first, there = sample * size + first * sample_lanes;
    if (from_layout == Layout::standard) {
      to_samples_last(from + here, size, samples, count, to + there);
    } else {
      from_samples_last(from + there, count, to + here, size, samples);
    }
  };
  run_tasks(workers, sample_groups(batch) * pieces,
            static_cast<double>(batch) * static_cast<double>(size) < inline_elements, task);
}

}  // namespace tenet::cpu
