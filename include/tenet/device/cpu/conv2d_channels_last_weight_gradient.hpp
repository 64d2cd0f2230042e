#pragma once

#include <type_traits>

#include "tenet/core/bfloat16.hpp"
#include "tenet/core/geometry.hpp"
#include "tenet/device/cpu/channels_last_positions.hpp"
#include "tenet/device/cpu/conv2d_weight_gradient.hpp"
#include "tenet/device/cpu/weight_panels.hpp"
#include "tenet/device/cpu/workers.hpp"

/// The gradient of a convolution by its weight, images with their channels last: for each tap the product [channels,
/// positions] · [positions, out_channels], a sum over all positions of the batch that the tap meets.
namespace tenet::cpu {

namespace detail {

/// How the gradient by the weight is cut: blocks of channels by blocks of result channels, whose sums share the
/// second-level cache with the positions that are read, and, where these are few, parts of the batch, whose sums are
/// added in order.
struct ChannelsLastWeightCut {
  PanelCut all_panels;
  long channels, channel_blocks, panels, panel_blocks, parts, part_samples;
  static constexpr long most_sums = 5 << 14, least_tasks = 4, least_positions = 2048;

  /// `g`: as the tiles see it, so that few channels are all taps of a patch. `batch`: of pairs with bfloat16.
  constexpr ChannelsLastWeightCut(const Conv2dGeometry& g, long batch) : all_panels(g.out_channels) {
    const long area = kernel_area(g);
    channels = g.channels;
    panels = all_panels.count;
    while (channels * area * panels * wide_columns > most_sums && (panels > 1 || channels >= 2 * wide_columns)) {
      if (panels > 1 && panels * wide_columns > channels) {
        panels = blocks_of(panels, 2);
      } else {
        channels = round_up(blocks_of(channels, 2), vector_width);
      }
    }
    channel_blocks = blocks_of(g.channels, channels);
    panel_blocks = blocks_of(all_panels.count, panels);
    const long most = larger_of(1, smaller(batch, batch * g.positions() / least_positions));
    parts = smaller(blocks_of(least_tasks, channel_blocks * panel_blocks), most);
    part_samples = blocks_of(batch, parts);
    parts = blocks_of(batch, part_samples);
  }
  constexpr long tasks() const { return parts * channel_blocks * panel_blocks; }
  constexpr long columns() const { return panels * wide_columns; }
};

/// What a task of the cut stands for: channels [channel0, channel1) by columns [column0, column1) of whole vectors.
struct WeightTask : ChannelRange {
  long part;

  constexpr WeightTask(const ChannelsLastWeightCut& cut, const Conv2dGeometry& g, long index)
      : ChannelRange{}, part(0) {
    channel0 = index % cut.channel_blocks * cut.channels;
    channel1 = smaller(channel0 + cut.channels, g.channels);
    index /= cut.channel_blocks;
    panel0 = index % cut.panel_blocks * cut.panels;
    panel1 = smaller(panel0 + cut.panels, cut.all_panels.count);
    part = index / cut.panel_blocks;
    column0 = cut.all_panels.first(panel0);
    column1 = cut.all_panels.first(panel1);
  }
};

/// What the tiles see: with few channels, a patch is a pixel.
constexpr Conv2dGeometry seen_by_positions(const Conv2dGeometry& g) {
  if (!sums_patches(g)) return g;
  return {static_cast<int>(g.taps()), g.out_height(), g.out_width(), g.out_channels, 1, 1, 1, 0};
}

/// Floats of the sums of a task.
constexpr long task_sums(const Conv2dGeometry& seen) {
  const ChannelsLastWeightCut cut(seen, 1);
  return cut.channels * kernel_area(seen) * cut.columns();
}

/// Writes sums of channels [channel0, channel1) and `columns` result channels from `column0` on to the gradient
/// [out_channels, channels, kernel_height, kernel_width]; sums of patches are in the order ky, kx, channel.
inline void write_weight_sums(const Conv2dGeometry& g, const float* sums, long row, long channel0, long channel1,
                              long column0, long columns, float* to) {
  const long area = kernel_area(g);
  if (!sums_patches(g)) {
    write_weight_rows(sums, row, (channel1 - channel0) * area, columns, to + column0 * g.taps() + channel0 * area,
                      g.taps());
    return;
  }
  for (long o = 0; o < columns; ++o) {
    for (long tap = channel0; tap < channel1; ++tap) {
      to[(column0 + o) * g.taps() + tap % g.channels * area + tap / g.channels] = sums[(tap - channel0) * row + o];
    }
  }
}

/// Adds the sums of all parts in order, and writes them.
inline void add_weight_parts(Workers& workers, const Conv2dGeometry& g, long parts, float* sums, long row, float* to) {
  const Conv2dGeometry seen = seen_by_positions(g);
  const long area = kernel_area(seen), step = larger_of(1, block_rows / area);
  auto task = [&](int index, int) {
    const long channel0 = index * step, channel1 = smaller(channel0 + step, seen.channels);
    float* const sum = sums + channel0 * area * row;
    for (long part = 1; part < parts; ++part) {
      add_floats(sum, sum + part * g.taps() * row, (channel1 - channel0) * area * row);
    }
    write_weight_sums(g, sum, row, channel0, channel1, 0, g.out_channels, to);
  };
  run_tasks(workers, blocks_of(seen.channels, step), static_cast<double>(parts * g.weight_size()) < inline_elements,
            task);
}

/// Floats of the sums of all parts, before they are added; 0 where there is one. `count`: samples, or pairs of them.
constexpr long part_sums(const Conv2dGeometry& g, long count) {
  const ChannelsLastWeightCut cut(seen_by_positions(g), count);
  return cut.parts > 1 ? cut.parts * g.taps() * round_up(g.out_channels, vector_width) : 0;
}

/// Where a task adds up: row (channel, tap) at sums + (channel * taps + tap) * row.
struct WeightSums {
  float* sums;
  long row;
};

/// Adds, or writes, what all taps of a chunk give for a task.
template <class Factor>
void add_chunk(const Conv2dGeometry& seen, const PanelCut& panels, const WeightTask& task, const PositionChunk& chunk,
               const ChunkFactors& factors, PositionTerm* terms, const WeightSums& to, bool accumulate,
               FactorsAhead& ahead) {
  const long area = kernel_area(seen);
  const bool packed = factors.right_row == 0;
  for (int tap = 0; tap < area; ++tap) {
    const PositionTerm* const end = list_positions(seen, chunk, factors, tap, terms);
    for (long panel = task.panel0; panel < task.panel1; ++panel) {
      const long first = panels.first(panel) - task.column0, width = panels.width(panel);
      multiply_channel_rows<Factor>(
          terms, end, task.channel1 - task.channel0, factors.right + first * (packed ? chunk.positions(seen) : 1),
          packed ? width : factors.right_row, width, to.sums + tap * to.row + first, area * to.row, accumulate, ahead);
    }
  }
}

/// The gradient from images of floats, or of pairs of bfloat16.
template <class Factor, class Images>
void weight_gradient_channels_last(Workers& workers, const Conv2dGeometry& g, const Images& images,
                                   float* weight_gradient) {
  const Conv2dGeometry seen = seen_by_positions(g);
  const ChannelsLastWeightCut cut(seen, images.count());
  const PositionScratch room(g, cut.channels, cut.columns(), images.staged);
  const long row = round_up(g.out_channels, vector_width), area = kernel_area(seen);
  float* const partial = cut.parts > 1 ? workers.workspace(part_sums(g, images.count())) : nullptr;
  auto task = [&](int index, int worker) {
    const WeightTask part(cut, seen, index);
    float* const scratch = workers.scratch(worker);
    WeightSums to{scratch + room.floats(), part.column1 - part.column0};
    if (cut.parts > 1) to = {partial + (part.part * g.taps() + part.channel0 * area) * row + part.column0, row};
    const long fetches = area * (part.panel1 - part.panel0) * blocks_of(part.channel1 - part.channel0, wide_rows);
    const long first = part.part * cut.part_samples;
    PositionChunk chunk(g, first, smaller(images.count(), first + cut.part_samples));
    for (bool add = false; !chunk.finished(); chunk.advance(), add = true) {
      const ChunkFactors factors = chunk_factors(g, images, chunk, part, cut.all_panels, room, scratch);
      FactorsAhead ahead = factors_ahead(g, images, chunk, part, fetches, scratch + room.floats() - room.ahead);
      add_chunk<Factor>(seen, cut.all_panels, part, chunk, factors, reinterpret_cast<PositionTerm*>(scratch), to, add,
                        ahead);
    }
    if (cut.parts > 1) return;
    write_weight_sums(g, to.sums, to.row, part.channel0, part.channel1, part.column0,
                      smaller(part.column1, g.out_channels) - part.column0, weight_gradient);
  };
  run_tasks(workers, cut.tasks(), static_cast<double>(images.batch) * g.flops() < inline_flops, task);
  if (cut.parts > 1) add_weight_parts(workers, g, cut.parts, partial, row, weight_gradient);
}

}  // namespace detail

/// Floats of scratch a worker for `run_conv2d_weight_gradient_channels_last`, of floats or bfloat16.
constexpr long scratch_conv2d_weight_gradient_channels_last(const Workers*, const Conv2dGeometry& g) {
  const Conv2dGeometry seen = detail::seen_by_positions(g);
  const detail::ChannelsLastWeightCut cut(seen, 1);
  return detail::PositionScratch(g, cut.channels, cut.columns(), true).floats() + detail::task_sums(seen);
}

/// Floats of workspace for `run_conv2d_weight_gradient_channels_last` of such numbers.
template <class Number>
constexpr long workspace_conv2d_weight_gradient_channels_last(const Conv2dGeometry& g, long batch) {
  return batch > 0 ? detail::part_sums(g, std::is_same_v<Number, float> ? batch : detail::blocks_of(batch, 2)) : 0;
}

/// The gradient of `run_conv2d_channels_last` by its weight, summed over the batch: [out_channels, channels,
/// kernel_height, kernel_width].
inline void run_conv2d_weight_gradient_channels_last(Workers& workers, const Conv2dGeometry& g, int batch,
                                                     const float* input, const float* gradient_of_result,
                                                     float* weight_gradient) {
  if (batch == 0) return detail::fill_floats(weight_gradient, 0, g.weight_size());
  workers.reserve_scratch(scratch_conv2d_weight_gradient_channels_last(&workers, g));
  detail::weight_gradient_channels_last<float>(workers, g, detail::FloatImages{g, batch, input, gradient_of_result},
                                               weight_gradient);
}

/// The same of bfloat16 factors, added up as floats.
inline void run_conv2d_weight_gradient_channels_last(Workers& workers, const Conv2dGeometry& g, int batch,
                                                     const bfloat16* input, const bfloat16* gradient_of_result,
                                                     float* weight_gradient) {
  if (batch == 0) return detail::fill_floats(weight_gradient, 0, g.weight_size());
  workers.reserve_scratch(scratch_conv2d_weight_gradient_channels_last(&workers, g));
  detail::weight_gradient_channels_last<bfloat16>(workers, g, detail::PairedImages{g, batch, input, gradient_of_result},
                                                  weight_gradient);
}

}  // namespace tenet::cpu
