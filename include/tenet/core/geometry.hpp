#pragma once

namespace tenet {

/// A value known at compile time as an argument of a function: one that takes the value takes it as well, and one that
/// chooses by it, as a device chooses an algorithm for a shape, is a template over it.
template <auto value_>
struct Known {
  static constexpr auto value = value_;
  constexpr operator decltype(value_)() const { return value_; }
};

/// The first argument behind the executor of kernels that want the channels of images and weights last: input [height,
/// width, channels], weight [out_channels, kernel_height, kernel_width, channels].
struct ChannelsLast {};
/// The same of those that want images so, and weights as ever.
struct ImagesChannelsLast {};
/// The same of those that want images in `Layout::samples_last`, and weights as ever.
struct SamplesLast {};

/// Shapes of a convolution, all per sample: input [channels, height, width], weight [out_channels, channels,
/// kernel_height, kernel_width], result [out_channels, out_height, out_width].
struct Conv2dGeometry {
  int channels, height, width, out_channels, kernel_height, kernel_width, stride, padding;

  constexpr int out_height() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  constexpr int out_width() const { return (width + 2 * padding - kernel_width) / stride + 1; }
  /// Positions of one result channel.
  constexpr long positions() const { return long{1} * out_height() * out_width(); }
  /// Weights of one result channel.
  constexpr long taps() const { return long{1} * channels * kernel_height * kernel_width; }
  constexpr long input_size() const { return long{1} * channels * height * width; }
  constexpr long result_size() const { return out_channels * positions(); }
  constexpr long weight_size() const { return out_channels * taps(); }
  /// Lines of the padded input that so many lines of the result, side by side, meet.
  constexpr long lines_met(long result_lines) const { return (result_lines - 1) * stride + kernel_height; }
  /// Multiplications and additions of one sample, padding included.
  constexpr double flops() const { return 2.0 * static_cast<double>(result_size()) * static_cast<double>(taps()); }
};

/// Shapes of a pooling with square windows, per sample: input [channels, height, width], result [channels, out_height,
/// out_width].
struct Pool2dGeometry {
  int channels, height, width, kernel, stride, padding;

  constexpr int out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  constexpr int out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
  constexpr long input_size() const { return long{1} * channels * height * width; }
  constexpr long result_size() const { return long{1} * channels * out_height() * out_width(); }
};

/// `count` products of row-major matrices: result[c] = op(lhs[c]) * op(rhs[c]), result[c] of shape [rows, columns].
///
/// op transposes or does nothing: lhs is stored [rows, inner] (transposed: [inner, rows]), rhs [inner, columns]
/// (transposed: [columns, inner]). Consecutive operands lie `lhs_step` and `rhs_step` elements apart (0: one for all);
/// consecutive results rows * columns.
struct MatmulGeometry {
  long count, rows, columns, inner;
  bool transpose_lhs, transpose_rhs;
  long lhs_step, rhs_step;
  /// The result is one matrix, the sum of all `count` products.
  bool accumulate_over_count = false;

  constexpr long result_size() const { return (accumulate_over_count ? 1 : count) * rows * columns; }
  constexpr double flops() const {
    return 2.0 * static_cast<double>(count) * static_cast<double>(rows) * static_cast<double>(columns) *
           static_cast<double>(inner);
  }
};

/// A copy between two strided views of equal extents; element (i0, i1, …) of a view is at offset + sum of i * stride.
struct StridedCopyGeometry {
  static constexpr int max_rank = 6;
  int rank;
  int extents[max_rank];
  long from_strides[max_rank], to_strides[max_rank];
  long from_offset, to_offset;
  /// extents[0] counts per sample: it is multiplied by the batch at run time.
  bool batched;

  /// Elements copied for a batch.
  constexpr long size(int batch) const {
    long result = batched ? batch : 1;
    for (int i = 0; i < rank; ++i) result *= extents[i];
    return result;
  }
};

}  // namespace tenet
