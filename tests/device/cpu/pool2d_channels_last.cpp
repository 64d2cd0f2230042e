#include "tenet/device/cpu/pool2d_channels_last.hpp"

#include "../../support/convolutions.hpp"
#include "../../support/image_order.hpp"
#include "../agreement.hpp"
#include "tenet/device/reference/pool2d.hpp"

namespace {

using tenet::ImagesChannelsLast, tenet::Known, tenet::Pool2dGeometry;

struct Operands {
  const float *x, *y, *dy;
};

template <Pool2dGeometry g>
void check_pooling() {
  const long inputs = long{1} * g.height * g.width, results = long{1} * g.out_height() * g.out_width();
  for (const int batch : {1, 5}) {
    CAPTURE(g.channels, g.height, g.width, g.kernel, g.stride, g.padding, batch);
    auto x = random_floats(batch * g.input_size(), 1);
    for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;  // equal elements: the first one wins
    const auto dy = random_floats(batch * g.result_size(), 2);
    std::vector<float> y(dy.size());
    tenet::reference::Serial serial;
    run_max_pool2d(serial, g, batch, x.data(), y.data());
    const Operands given{x.data(), y.data(), dy.data()};
    const auto x_last = image_order::channels_last(x, g.channels, inputs),
               y_last = image_order::channels_last(y, g.channels, results),
               dy_last = image_order::channels_last(dy, g.channels, results);
    const Operands turned{x_last.data(), y_last.data(), dy_last.data()};
    // run(executor, operands, to, epilogue, order…), whose result has so many positions a channel.
    const auto check = [&](long positions, double tolerance, auto run) {
      const long size = batch * g.channels * positions;
      check_agreement(size, tolerance, [&]<class Executor>(Executor& executor, float* to) {
        if constexpr (std::is_same_v<Executor, tenet::reference::Serial>) {
          run(executor, given, to, tenet::Epilogue{});
        } else {
          std::vector<float> lying(static_cast<std::size_t>(size));
          run(executor, turned, lying.data(), tenet::Epilogue{}, ImagesChannelsLast{});
          const auto standard = image_order::channels_first(lying.data(), batch, g.channels, positions);
          std::copy(standard.begin(), standard.end(), to);
        }
      });
      convolutions::check_epilogue(size, [&](auto& workers, float* to, tenet::Epilogue epilogue) {
        run(workers, turned, to, epilogue, ImagesChannelsLast{});
      });
    };
    check(results, 0, [&](auto& executor, const Operands& of, float* to, tenet::Epilogue epilogue, auto... order) {
      run_max_pool2d(executor, order..., Known<g>{}, batch, of.x, to, epilogue);
    });
    check(inputs, 1e-6, [&](auto& executor, const Operands& of, float* to, tenet::Epilogue epilogue, auto... order) {
      run_max_pool2d_gradient(executor, order..., g, batch, of.x, of.y, of.dy, to, epilogue);
    });
    check(results, 2e-6, [&](auto& executor, const Operands& of, float* to, tenet::Epilogue epilogue, auto... order) {
      run_avg_pool2d(executor, order..., Known<g>{}, batch, of.x, to, epilogue);
    });
    check(inputs, 2e-6, [&](auto& executor, const Operands& of, float* to, tenet::Epilogue epilogue, auto... order) {
      run_avg_pool2d_gradient(executor, order..., Known<g>{}, batch, of.dy, to, epilogue);
    });
  }
}

}  // namespace

TEST_CASE("pooling of images with channels last agrees with the reference", "[cpu][pool2d]") {
  check_pooling<Pool2dGeometry{32, 9, 11, 3, 2, 1}>();
  check_pooling<Pool2dGeometry{64, 8, 8, 2, 2, 0}>();
  check_pooling<Pool2dGeometry{32, 10, 10, 2, 3, 0}>();
  check_pooling<Pool2dGeometry{48, 7, 7, 7, 7, 0}>();
  check_pooling<Pool2dGeometry{32, 13, 5, 3, 1, 1}>();
  static_assert(!tenet::cpu::pools_channels_last({16, 8, 8, 2, 2, 0}));  // LeNet's
}
