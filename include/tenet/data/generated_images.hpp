#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/core/random.hpp"
#include "tenet/data/byte_images.hpp"

namespace tenet {

/// Images drawn by code, for where no data set is at hand: 1 x 28 x 28 floats in [0, 1], ten classes of shapes at
/// random positions, sizes, angles and strengths under noise; label = index mod 10.
///
/// The seed fixes every bit on every machine: the drawing is integer arithmetic.
class GeneratedImages : public ByteImages {
 public:
  /// What each label means.
  static constexpr std::array<const char*, 10> class_names = {"disc", "ring",    "square",  "frame", "triangle",
                                                              "plus", "saltire", "stripes", "bars",  "diamond"};

  /// Images to train on.
  static GeneratedImages train(long count = 10000, std::uint64_t seed = 0) { return {count, epoch_seed(seed, 0)}; }
  /// Others to test with: no image of `train` with the same seed.
  static GeneratedImages test(long count = 2000, std::uint64_t seed = 0) { return {count, epoch_seed(seed, 1)}; }

 private:
  static constexpr int side = 28;

  GeneratedImages(long count, std::uint64_t seed) : ByteImages(generate(count, seed)) {}

  static ByteImages generate(long count, std::uint64_t seed) {
    if (count <= 0) fail("GeneratedImages", "number of images", "at least 1", count);
    std::vector<unsigned char> pixels(static_cast<std::size_t>(count) * side * side);
    std::vector<unsigned char> labels(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<unsigned char>(i % 10);
      Random random(seed, i);
      draw(labels[i], random, pixels.data() + i * side * side);
    }
    return {"GeneratedImages", std::move(pixels), std::move(labels), {1, side, side}, 10};
  }

  static int between(Random& random, int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint32_t>(high - low + 1)));
  }

  // Whether the point (x, y) of the upright shape of half width 256 is inked.
  static bool inside(int shape, int x, int y) {
    const int across = x < 0 ? -x : x, along = y < 0 ? -y : y;
    const int widest = std::max(across, along), squared = x * x + y * y;
    switch (shape) {
      case 0:
        return squared <= 240 * 240;
      case 1:
        return squared <= 256 * 256 && squared >= 150 * 150;
      case 2:
        return widest <= 210;
      case 3:
        return widest <= 230 && widest >= 140;
      case 4:
        return along <= 230 && 2 * across <= y + 230 && widest <= 256;
      case 5:
        return widest <= 256 && (across <= 60 || along <= 60);
      case 6:
        return widest <= 230 && (x - y <= 85 && y - x <= 85 ? true : x + y <= 85 && -x - y <= 85);
      case 7:
        return widest <= 240 && (y + 240) % 192 < 96;
      case 8:
        return widest <= 240 && (x + 240) % 192 < 96;
      default:
        return across + along <= 280;
    }
  }

  static void draw(int shape, Random& random, unsigned char* image) {
    // Lengths in 1/8 pixel, relative to the middle of the image. The angle's tangent is turn / 64: up to 19 degrees.
    const int half = between(random, 40, 88);
    const int room = 104 - half;
    const int middle_x = between(random, -room, room), middle_y = between(random, -room, room);
    const int turn = between(random, -22, 22);
    const int ink = between(random, 90, 255), paper = between(random, 0, 60), noise = between(random, 10, 70);
    for (int row = 0; row < side; ++row) {
      for (int column = 0; column < side; ++column) {
        // No shape reaches further than 1.5 times its half width.
        const bool near = std::max(std::abs(column * 8 + 4 - side * 4 - middle_x),
                                   std::abs(row * 8 + 4 - side * 4 - middle_y)) <= half * 3 / 2 + 4;
        int covered = 0;  // of the 4 x 4 points of this pixel
        for (int point = 0; near && point < 16; ++point) {
          const int x = column * 8 + point % 4 * 2 + 1 - side * 4 - middle_x;
          const int y = row * 8 + point / 4 * 2 + 1 - side * 4 - middle_y;
          covered += inside(shape, (x * 64 - y * turn) * 4 / half, (y * 64 + x * turn) * 4 / half);
        }
        // The mean of two draws: noise with a triangular distribution.
        const int error = (between(random, -noise, noise) + between(random, -noise, noise)) / 2;
        const int value = paper + (ink - paper) * covered / 16 + error;
        image[row * side + column] = static_cast<unsigned char>(std::clamp(value, 0, 255));
      }
    }
  }
};

}  // namespace tenet
