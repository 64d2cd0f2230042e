#pragma once

#include <cstddef>
#include <cstring>

#include "tenet/core/geometry.hpp"
#include "tenet/core/layout.hpp"
#include "tenet/core/vector.hpp"
#include "tenet/device/cpu/product.hpp"
#include "tenet/device/cpu/samples_last.hpp"
#include "tenet/device/cpu/transpose.hpp"
#include "tenet/device/cpu/workers.hpp"

/// How the gradient by the weight of a convolution goes over a batch whose samples lie in the vector lanes. Each lane
/// sums its own samples; the lanes are added up once a part of the batch, and the parts in order.
///
/// A pass is a type with
///   g                          the convolution
///   sums()                     rows of lanes that are summed for each result channel
///   own_size()                 floats that each worker needs besides
///   blocks(parts)              into how many tasks of some result channels each of `parts` parts is cut; no bit of the
///                              gradient depends on it
///   add(input, upstream, first, last, sums, own)   adds a group's sums for the result channels [first, last), of which
///                              `sums` has those of the first
///   finish(sums, weight_gradient)   makes the gradient of the sums [result channels, sums()] of all samples
namespace tenet::cpu::detail {

/// to[i] = the sum of the 16 lanes of row i, for i < count; reads up to three rows more.
inline void sum_lanes(const float* from, long count, float* to) {
  for (long i = 0; i < count; i += 4, from += 4 * sample_lanes) {
    Vector row[4];
    for (int k = 0; k < 4; ++k) {
      row[k] = load(from + k * sample_lanes);
      for (int part = 1; part < lane_parts; ++part) row[k] += load(from + k * sample_lanes + part * vector_width);
    }
    transpose_quarters(row[0], row[1], row[2], row[3]);
    float quarters[vector_width];
    store(quarters, (row[0] + row[1]) + (row[2] + row[3]));
    Quarter sum = load_quarter(quarters);
    for (int q = 4; q < vector_width; q += 4) sum += load_quarter(quarters + q);
    std::memcpy(to + i, &sum, sizeof(float) * static_cast<std::size_t>(smaller(4, count - i)));
  }
}

/// Into how many parts a batch is cut.
constexpr long lane_weight_parts(long batch) { return smaller(sample_groups(batch), 8); }

/// Floats of the sums of all parts.
template <class Pass>
constexpr long partial_lane_weight_pass(const Pass& pass) {
  return round_up(8 * pass.g.out_channels * pass.sums(), sample_lanes);
}
template <class Pass>
constexpr long scratch_lane_weight_pass(const Pass& pass, Layout layout) {
  return partial_lane_weight_pass(pass) + sample_lanes * (pass.g.out_channels + 4) * pass.sums() + pass.own_size() +
         (layout == Layout::standard ? sample_lanes * (pass.g.input_size() + pass.g.result_size()) : 0);
}

/// As `run_lane_pass` (lane_pass.hpp), for the gradient by the weight.
template <class Pass>
[[gnu::noinline]] void run_lane_weight_pass(Workers& workers, const Pass& pass, Layout layout, int batch,
                                            const float* input, const float* gradient_of_result,
                                            float* weight_gradient) {
  const Conv2dGeometry& g = pass.g;
  workers.reserve_scratch(scratch_lane_weight_pass(pass, layout));
  const bool standard = layout == Layout::standard;
  const long groups = sample_groups(batch), parts = lane_weight_parts(batch), channels = g.out_channels;
  const long rows = pass.sums(), size = channels * rows;
  float* const partial = workers.scratch(0);
  // Some channels, for one part of the batch; in the standard layout all of them, as they share what is re-laid.
  const long blocks = standard ? 1 : pass.blocks(parts);
  auto task = [&](int index, int worker) {
    const long part = index / blocks, block = index % blocks;
    const long first = channels * block / blocks, last = channels * (block + 1) / blocks;
    float* const sums = workers.scratch(worker) + partial_lane_weight_pass(pass);
    float* const own = sums + sample_lanes * (channels + 4) * rows;
    float* const own_input = own + pass.own_size();
    float* const own_upstream = own_input + sample_lanes * g.input_size();
    fill_floats(sums, 0, sample_lanes * (last - first + 4) * rows);
    // Backwards, so that an incomplete group comes first: the lanes beyond the batch are cleared after it.
    for (long group = groups * (part + 1) / parts - 1; group >= groups * part / parts; --group) {
      const long sample = group * sample_lanes, samples = batch - sample;
      const float *x = input + sample * g.input_size(), *dy = gradient_of_result + sample * g.result_size();
      if (standard) {
        to_samples_last(x, g.input_size(), samples, g.input_size(), own_input);
        to_samples_last(dy, g.result_size(), samples, g.result_size(), own_upstream);
        x = own_input;
        dy = own_upstream;
      }
      pass.add(x, dy, first, last, sums, own);
      for (long i = 0; samples < sample_lanes && i < (last - first) * rows; ++i) {
        for (long s = samples; s < sample_lanes; ++s) sums[i * sample_lanes + s] = 0;
      }
    }
    sum_lanes(sums, (last - first) * rows, partial + part * size + first * rows);
  };
  run_tasks(workers, parts * blocks, batch * g.flops() < inline_flops, task);
  for (long part = 1; part < parts; ++part) add_floats(partial, partial + part * size, size);
  pass.finish(partial, weight_gradient);
}

}  // namespace tenet::cpu::detail
