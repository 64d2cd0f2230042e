#include "tenet/device/cpu/channels_last_positions.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;
using namespace tenet::cpu::detail;

TEST_CASE("chunks of positions cover the samples once", "[cpu][channels_last_positions]") {
  for (const Conv2dGeometry& g : channels_last::shapes) {
    long next = 2 * g.positions();
    for (PositionChunk chunk(g, 2, 9); !chunk.finished(); chunk.advance()) {
      CHECK(chunk.position(g) == next);
      CHECK(chunk.positions(g) <= PositionChunk::positions_of(g));
      next += chunk.positions(g);
    }
    CHECK(next == 9 * g.positions());
  }
}

TEST_CASE("the terms of a tap are the positions that meet the image", "[cpu][channels_last_positions]") {
  for (const Conv2dGeometry& g : channels_last::shapes) {
    const auto image = random_floats(3 * g.input_size(), 1);
    const PositionChunk chunk(g, 0, 3);
    const ChunkFactors factors{image.data(), g.input_size(), 0, long{1} * g.width * g.channels, g.channels, nullptr, 0};
    std::vector<PositionTerm> terms(static_cast<std::size_t>(PositionChunk::positions_of(g)));
    long wrong = 0;
    for (int tap = 0; tap < g.kernel_height * g.kernel_width; ++tap) {
      const PositionTerm* const end = list_positions(g, chunk, factors, tap, terms.data());
      const PositionTerm* term = terms.data();
      for (long p = 0; p < chunk.positions(g); ++p) {
        const long n = p / ((chunk.line1 - chunk.line0) * g.out_width()), x = p % g.out_width();
        const long y = p / g.out_width() % (chunk.line1 - chunk.line0);
        const long image_y = y * g.stride + tap / g.kernel_width - g.padding;
        const long image_x = x * g.stride + tap % g.kernel_width - g.padding;
        if (image_y < 0 || image_y >= g.height || image_x < 0 || image_x >= g.width) continue;
        wrong += term == end || term->right != p ||
                 term->left - image.data() != n * g.input_size() + (image_y * g.width + image_x) * g.channels;
        if (term != end) ++term;
      }
      wrong += term != end;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("rows of channels that do not fill a tile are added once", "[cpu][channels_last_positions]") {
  constexpr long width = tenet::vector_width, positions = 9;
  const auto left = random_floats(positions * 64, 1), right = random_floats(positions * width, 2);
  std::vector<PositionTerm> terms;
  for (long p = 0; p < positions; ++p) terms.push_back({left.data() + p * 32, p});
  const Conv2dGeometry g = channels_last::shapes[0];
  FactorsAhead nothing(g, {}, left.data(), 1, left.data(), 1, 1, nullptr);
  for (long channels = 1; channels <= 32; ++channels) {
    std::vector<float> sums(static_cast<std::size_t>(channels * width + 16), 2);
    multiply_channel_rows<float>(terms.data(), terms.data() + positions, channels, right.data(), width, width,
                                 sums.data(), width, true, nothing);
    double worst = 0;
    for (long i = 0; i < channels * width; ++i) {
      double sum = 2;
      for (long p = 0; p < positions; ++p)
        sum += double{terms[static_cast<std::size_t>(p)].left[i / width]} *
               right[static_cast<std::size_t>(p * width + i % width)];
      worst = std::fmax(worst, std::fabs(sum - sums[static_cast<std::size_t>(i)]));
    }
    CHECK(worst < 1e-5);
    for (long i = 0; i < 16; ++i) CHECK(sums[static_cast<std::size_t>(channels * width + i)] == 2);
  }
}
