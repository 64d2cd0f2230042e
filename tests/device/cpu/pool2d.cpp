#include "tenet/device/cpu/pool2d.hpp"

#include "../agreement.hpp"
#include "tenet/device/reference/pool2d.hpp"

namespace {

using tenet::Known;
using tenet::Pool2dGeometry;

template <Pool2dGeometry g>
void check_pooling() {
  for (int batch : {1, 5}) {
    CAPTURE(g.channels, g.height, g.width, g.kernel, g.stride, g.padding, batch);
    if (g.kernel > 100 && batch > 1) continue;
    auto x = random_floats(batch * g.input_size(), 1);
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;  // equal elements: the first one wins
    const auto dy = random_floats(batch * g.result_size(), 2);
    std::vector<float> y(dy.size());
    tenet::reference::Serial serial;
    run_max_pool2d(serial, g, batch, x.data(), y.data());
    check_agreement(batch * g.result_size(), 0,
                    [&](auto& executor, float* to) { run_max_pool2d(executor, Known<g>{}, batch, x.data(), to); });
    check_agreement(batch * g.input_size(), 1e-6, [&](auto& executor, float* to) {
      run_max_pool2d_gradient(executor, g, batch, x.data(), y.data(), dy.data(), to);
    });
    check_agreement(batch * g.result_size(), g.kernel > 100 ? 1e-4 : 2e-6,
                    [&](auto& executor, float* to) { run_avg_pool2d(executor, Known<g>{}, batch, x.data(), to); });
    check_agreement(batch * g.input_size(), 2e-6, [&](auto& executor, float* to) {
      run_avg_pool2d_gradient(executor, Known<g>{}, batch, dy.data(), to);
    });
  }
}

template <Pool2dGeometry... g>
void check_all() {
  (check_pooling<g>(), ...);
}

}  // namespace

TEST_CASE("pooling agrees with the reference", "[cpu][pool2d]") {
  check_all<Pool2dGeometry{1, 1, 1, 1, 1, 0}, Pool2dGeometry{5, 9, 11, 3, 2, 1}, Pool2dGeometry{3, 7, 7, 7, 7, 0},
            Pool2dGeometry{4, 13, 37, 3, 1, 1}, Pool2dGeometry{2, 30, 31, 5, 3, 2},
            Pool2dGeometry{1, 700, 700, 600, 50, 0}, Pool2dGeometry{40, 4, 4, 4, 1, 0},
            Pool2dGeometry{7, 10, 10, 2, 3, 0}>();
}

TEST_CASE("windows of 2 x 2 side by side agree with the reference", "[cpu][pool2d]") {
  check_all<Pool2dGeometry{6, 24, 24, 2, 2, 0}, Pool2dGeometry{16, 8, 8, 2, 2, 0}, Pool2dGeometry{6, 28, 28, 2, 2, 0},
            Pool2dGeometry{1, 3, 1100, 2, 2, 0}, Pool2dGeometry{3, 5, 7, 2, 2, 0}, Pool2dGeometry{2, 2, 2, 2, 2, 0},
            Pool2dGeometry{2, 9, 65, 2, 2, 0}, Pool2dGeometry{2, 4, 67, 2, 2, 0}>();
}
