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
  long padded() const { return padded_floats(grid_height, grid_width, stride, taps_y, taps_x); }

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
  const long rows = smaller(shape.rows(), most_rows), columns = smaller(shape.columns(), block_columns);
  std::vector<Part> result{{0, rows, 0, columns}};
  if (shape.rows() > 1) result.push_back({1, smaller(rows, shape.rows() - 1), 0, columns});
  if (shape.columns() > 2) result.push_back({rows / 2, rows - rows / 2, 1, smaller(columns, shape.columns() - 2)});
  result.push_back({0, rows, shape.columns() - columns, columns});
  result.push_back({shape.rows() - 1, 1, shape.columns() - 1, 1});
  return result;
}

}  // namespace

TEST_CASE("patches are the image shifted by the taps, each element once", "[cpu][patches]") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.channels, shape.height, shape.width, shape.taps_y, shape.stride, shape.tap_step);
    const auto image = image_of(shape);
    for (const auto& [k0, rows, j0, columns] : parts(shape, shape.rows())) {
      CAPTURE(k0, rows, j0, columns);
      std::vector<float> padded(static_cast<std::size_t>(shape.padded()) + 64, untouched);
      std::vector<int> visits(static_cast<std::size_t>(rows * columns));
      long wrong = 0;
      shape.patches(image.data())
          .compute(k0, rows, j0, columns, padded.data(),
                   [&, k0 = k0, j0 = j0, columns = columns](long k, long j, const float* run, long count) {
                     for (long i = 0; i < count; ++i) {
                       ++visits[static_cast<std::size_t>(k * columns + j + i)];
                       wrong += run[i] != shape.element(image, k0 + k, j0 + j + i);
                     }
                   });
      CHECK(wrong == 0);
      for (const int count : visits) wrong += count != 1;
      CHECK(wrong == 0);
      for (std::size_t i = static_cast<std::size_t>(shape.padded()); i < padded.size(); ++i)
        wrong += padded[i] != untouched;
      CHECK(wrong == 0);  // `padded_floats` is enough
    }
  }
}

TEST_CASE("patches are packed as the right operand of a product", "[cpu][patches]") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.channels, shape.height, shape.width, shape.taps_y, shape.stride, shape.tap_step);
    const auto image = image_of(shape);
    std::vector<float> padded(static_cast<std::size_t>(shape.padded()));
    for (const auto& [k0, terms, j0, columns] : parts(shape, block_inner)) {
      CAPTURE(k0, terms, j0, columns);
      std::vector<float> packed(static_cast<std::size_t>(block_inner * block_columns), untouched);
      RightPatches{shape.patches(image.data()), padded.data()}.pack(k0, terms, j0, columns, packed.data());
      long wrong = 0;
      const float* panel = packed.data();
      for (long j = 0; j < columns; j += tile_columns) {
        const long valid = smaller(tile_columns, columns - j), width = round_up(valid, tenet::vector_width);
        for (long k = 0; k < terms; ++k, panel += width)
          for (long u = 0; u < width; ++u)
            wrong += panel[u] != (u < valid ? shape.element(image, k0 + k, j0 + j + u) : 0);
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("patches are packed as the left operand of a product", "[cpu][patches]") {
  for (const Shape& shape : shapes) {
    CAPTURE(shape.channels, shape.height, shape.width, shape.taps_y, shape.stride, shape.tap_step);
    const auto image = image_of(shape);
    std::vector<float> padded(static_cast<std::size_t>(shape.padded()));
    const long first_row = shape.rows() > 2 ? 2 : 0, rows = smaller(block_rows, shape.rows() - first_row);
    const long k0 = shape.columns() > 4 ? 3 : 0, terms = smaller(block_inner, shape.columns() - k0);
    std::vector<float> packed(static_cast<std::size_t>(block_rows * packed_row), untouched);
    const auto layout =
        LeftPatches{shape.patches(image.data()), first_row, padded.data()}.pack(0, rows, k0, terms, packed.data());
    long wrong = 0;
    for (long i = 0; i < rows; ++i)
      for (long k = 0; k < terms; ++k) {
        const long place = i / tile_rows * tile_rows * packed_row + i % tile_rows * layout.row + k * layout.step;
        wrong += packed[static_cast<std::size_t>(place)] != shape.element(image, first_row + i, k0 + k);
      }
    CHECK(wrong == 0);
  }
}

TEST_CASE("channels of several samples are packed as the right operand of a product", "[cpu][patches]") {
  const long channels = tile_columns + 5, positions = 7;
  const auto data = random_floats(samples * channels * positions, 2);
  const RightChannels right{data.data(), channels * positions, positions};
  for (const auto& [k0, terms, j0, columns] :
       {Part{0, samples * positions, 0, channels}, {5, 11, 0, 3}, {6, 1, 0, tile_columns}}) {
    CAPTURE(k0, terms, j0, columns);
    std::vector<float> packed(static_cast<std::size_t>(block_inner * block_columns), untouched);
    right.pack(k0, terms, j0, columns, packed.data());
    long wrong = 0;
    const float* panel = packed.data();
    for (long j = j0; j < j0 + columns; j += tile_columns) {
      const long valid = smaller(tile_columns, j0 + columns - j), width = round_up(valid, tenet::vector_width);
      for (long k = k0; k < k0 + terms; ++k, panel += width)
        for (long u = 0; u < width; ++u) {
          const long from = (k / positions * channels + j + u) * positions + k % positions;
          wrong += panel[u] != (u < valid ? data[static_cast<std::size_t>(from)] : 0);
        }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("weights with exchanged channels take every stride-th tap", "[cpu][patches]") {
  const tenet::Conv2dGeometry g{5, 8, 8, 3, 4, 3, 2, 1};  // weights [3, 5, 4, 3]
  const auto weight = random_floats(g.weight_size(), 3);
  for (const auto& [first_y, first_x] : {std::pair{0, 0}, {1, 0}, {1, 1}}) {
    const int taps_y = 2, taps_x = first_x == 0 ? 2 : 1;
    CAPTURE(first_y, first_x);
    const LeftTransposedWeights left{weight.data(), g, taps_y, taps_x, first_y, first_x};
    const long all = long{1} * g.out_channels * taps_y * taps_x, i0 = 1, rows = 4, k0 = 1;
    std::vector<float> packed(static_cast<std::size_t>(block_rows * packed_row), untouched);
    const auto layout = left.pack(i0, rows, k0, all - k0, packed.data());
    for (long c = 0; c < rows; ++c)
      for (long k = 0; k < all - k0; ++k) {
        const long v = first_x + (k0 + k) % taps_x * g.stride, u = first_y + (k0 + k) / taps_x % taps_y * g.stride;
        const long o = (k0 + k) / taps_x / taps_y;
        const long from = ((o * g.channels + i0 + c) * g.kernel_height + u) * g.kernel_width + v;
        const long place = c / tile_rows * tile_rows * packed_row + c % tile_rows * layout.row + k * layout.step;
        CHECK(packed[static_cast<std::size_t>(place)] == weight[static_cast<std::size_t>(from)]);
      }
  }
}

TEST_CASE("results of several samples are one matrix of channels", "[cpu][patches]") {
  float data[3 * 4 * 5];  // three samples of four channels with five positions
  const ResultChannels result{data, 20, 5};
  for (long sample = 0; sample < 3; ++sample)
    for (long channel = 0; channel < 4; ++channel)
      for (long position = 0; position < 5; ++position) {
        CHECK(result.at(channel, sample * 5 + position) - data == (sample * 4 + channel) * 5 + position);
        CHECK(result.run(sample * 5 + position) == 5 - position);
      }
}
