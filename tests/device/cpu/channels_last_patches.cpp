#include "tenet/device/cpu/channels_last_patches.hpp"

#include "../../support/channels_last.hpp"

using tenet::Conv2dGeometry;
using namespace tenet::cpu::detail;

TEST_CASE("patches of images with few channels are laid line by line", "[cpu][channels_last_patches]") {
  for (const Conv2dGeometry& g : channels_last::shapes) {
    if (!lays_patches(g)) continue;
    const auto image = random_floats(g.input_size(), 1);
    const long from = g.out_height() > 1 ? 1 : 0, lines = g.out_height() - from;
    std::vector<float> patches(static_cast<std::size_t>(patch_floats(g, lines)), 7);
    lay_channels_last_patches(g, from, g.out_height(), image.data(), 0, patches.data());
    long wrong = 0, at = 0;
    for (long y = from; y < g.out_height(); ++y) {
      for (long x = 0; x < g.out_width(); ++x) {
        for (long ky = 0; ky < g.kernel_height; ++ky) {
          for (long kx = 0; kx < g.kernel_width; ++kx) {
            for (long c = 0; c < g.channels; ++c, ++at) {
              const long image_y = y * g.stride + ky - g.padding, image_x = x * g.stride + kx - g.padding;
              const bool inside = image_y >= 0 && image_y < g.height && image_x >= 0 && image_x < g.width;
              const auto index = static_cast<std::size_t>((image_y * g.width + image_x) * g.channels + c);
              wrong += patches[static_cast<std::size_t>(at)] != (inside ? image[index] : 0);
            }
          }
        }
      }
    }
    CHECK(wrong == 0);
  }
}
