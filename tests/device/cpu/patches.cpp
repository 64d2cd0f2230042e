#include "tenet/device/cpu/patches.hpp"

#include "../agreement.hpp"

using namespace tenet::cpu::detail;

namespace {

constexpr float untouched = 12345.25f;
constexpr long samples = 3;

/// Shapes of patches: channels beside those of `Patches`.
struct Shape {
  int channels, height, width, taps_y, taps_x, first_y, first_x, tap_step, stride, grid_height, grid_width;

  Patches patches(const float* image) const {
    return {image,       long{1} * channels * height * width,
            height,      width,
            taps_y,      taps_x,
            first_y,     first_x,
            tap_step,    stride,
            grid_height, grid_width};
  }
  long rows() const { return long{1} * channels * taps_y * taps_x; }
  long columns() const { return samples * grid_height * grid_width; }
  long padded(long most = patch_columns) const {
    return padded_floats(grid_height, grid_width, stride, taps_y, taps_x, most);
  }

  /// Element (row, column) by the definition.
  float element(const std::vector<float>& image, long row, long column) const {
    const long v = row % taps_x, u = row / taps_x % taps_y, channel = row / taps_x / taps_y;
    const long j = column % grid_width, i = column / grid_width % grid_height,
               sample = column / grid_width / grid_height;
    const long y = first_y + i * stride + u * tap_step, x = first_x + j * stride + v * tap_step;
    if (y < 0 || y >= height || x < 0 || x >= width) return 0;
    return image[static_cast<std::size_t>(((sample * channels + channel) * height + y) * width + x)];
  }
};

constexpr Shape shapes[] = {
    {2, 5, 6, 3, 3, -1, -1, 1, 1, 5, 6},    // 3x3 with a border of one
    {1, 28, 28, 5, 5, 0, 0, 1, 1, 24, 24},  // more positions than a block's columns
    {3, 7, 9, 3, 2, -2, -2, 1, 3, 3, 4},    // strides that leave a rest
    {2, 9, 9, 3, 3, -1, -1, 1, 2, 5, 5},   {4, 4, 4, 1, 1, 0, 0, 1, 2, 2, 2},
    {1, 3, 3, 7, 7, -3, -3, 1, 1, 3, 3},  // a window larger than the image
    {2, 1, 17, 1, 1, 0, 0, 1, 1, 1, 17},  // a plane as one row
    {3, 4, 5, 3, 3, 1, 1, -1, 1, 6, 7},   // taps in reverse, as the gradient by the input has them
    {2, 4, 3, 2, 1, 0, 0, -1, 1, 4, 3},    {2, 3, 3, 2, 2, 5, 5, 1, 1, 2, 2},  // nothing but zeros
    {3, 9, 41, 3, 3, -1, -1, 1, 2, 5, 21},                                     // rows longer than a vector
    {2, 9, 40, 1, 1, 0, 0, 1, 2, 5, 20},   {2, 7, 37, 3, 3, -1, -1, 1, 1, 7, 37},
};

/// The image of a shape: random numbers, none of which is zero.
std::vector<float> image_of(const Shape& shape) {
  auto image = random_floats(samples * shape.channels * shape.height * shape.width, 1);
  for (float& value : image) value += 2;
  return image;
}

/// Parts of a matrix: all of it, as far as one call may go, and pieces that begin and end anywhere.
struct Part {
  long k0, rows, j0, columns;
};
std::vector<Part> parts(const Shape& shape, long most_rows) {
  const long rows = smaller(shape.rows(), most_rows), columns = smaller(shape.columns(), patch_columns);
  std::vector<Part> result{{0, rows, 0, columns}};
  if (shape.rows() > 1) result.push_back({1, smaller(rows, shape.rows() - 1), 0, columns});
  if (shape.columns() > 2) result.push_back({rows / 2, rows - rows / 2, 1, smaller(columns, shape.columns() - 2)});
  result.push_back({0, rows, shape.columns() - columns, columns});
  result.push_back({shape.rows() - 1, 1, shape.columns() - 1, 1});
  return result;
}

}  // namespace

TEST_CASE("patches are packed as rows", "[cpu][patches]") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.channels, shape.height, shape.width, shape.taps_y, shape.stride, shape.tap_step);
    const auto image = image_of(shape);
    for (const auto& [k0, rows, j0, columns] : parts(shape, shape.rows())) {
      CAPTURE(k0, rows, j0, columns);
      const auto end = static_cast<std::size_t>(shape.padded(columns));
      std::vector<float> padded(end + 64, untouched);
      const long step = columns + tenet::vector_width;
      std::vector<float> packed(static_cast<std::size_t>(rows * step), untouched);
      shape.patches(image.data()).pack(k0, rows, j0, columns, PatchPanels::left(step), padded.data(), packed.data());
      long wrong = 0;
      for (long k = 0; k < rows; ++k) {
        for (long j = 0; j < columns; ++j) {
          wrong += packed[static_cast<std::size_t>(k * step + j)] != shape.element(image, k0 + k, j0 + j);
        }
      }
      CHECK(wrong == 0);
      for (std::size_t i = end; i < padded.size(); ++i) wrong += padded[i] != untouched;
      CHECK(wrong == 0);  // `padded_floats` is enough
    }
  }
}

TEST_CASE("patches are packed as the right operand of a product", "[cpu][patches]") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.channels, shape.height, shape.width, shape.taps_y, shape.stride, shape.tap_step);
    const auto image = image_of(shape);
    std::vector<float> padded(static_cast<std::size_t>(shape.padded()));
    for (const auto& [k0, terms, j0, columns] : parts(shape, patch_terms)) {
      CAPTURE(k0, terms, j0, columns);
      std::vector<float> packed(static_cast<std::size_t>(patch_terms * patch_columns), untouched);
      RightPatches{shape.patches(image.data()), padded.data()}.pack(k0, terms, j0, columns, packed.data());
      long wrong = 0;
      const float* panel = packed.data();
      const PanelCut cut(columns);
      for (long index = 0; index < cut.count; ++index) {
        const long j = cut.first(index), width = cut.width(index), valid = smaller(width, columns - j);
        for (long k = 0; k < terms; ++k, panel += width)
          for (long u = 0; u < width; ++u)
            wrong += panel[u] != (u < valid ? shape.element(image, k0 + k, j0 + j + u) : 0);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("channels are transposed into panels", "[cpu][patches]") {
  const long channels = wide_columns + 5, positions = 7;
  const auto data = random_floats(samples * channels * positions, 2);
  std::vector<float> panels(static_cast<std::size_t>(samples * positions * round_up(channels, tenet::vector_width)),
                            untouched);
  const TransposedChannels transposed{panels.data(), channels, positions, samples};
  for (long n = 0; n < samples; ++n) transposed.fill(data.data() + n * channels * positions, n);
  CHECK(transposed.cut.count == 2);
  long wrong = 0;
  for (long panel = 0; panel < 2; ++panel) {
    for (long p = 0; p < samples * positions; ++p) {
      for (long u = 0; u < transposed.cut.width(panel); ++u) {
        const long channel = transposed.cut.first(panel) + u;
        const long from = (p / positions * channels + channel) * positions + p % positions;
        const float expected = channel < channels ? data[static_cast<std::size_t>(from)] : 0;
        wrong += transposed.at(panel, p)[u] != expected;
      }
    }
  }
  CHECK(wrong == 0);
}
