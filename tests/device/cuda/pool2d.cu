#include "agreement.hpp"
#include "tenet/device/cuda/pool2d.hpp"
#include "tenet/device/reference/pool2d.hpp"

namespace {

using image_order::channels_last;
using tenet::Pool2dGeometry;

void check_pooling(const Pool2dGeometry& g, int batch, const std::vector<float>& x) {
  CAPTURE(g.channels, g.height, g.width, g.kernel, g.stride, g.padding, batch);
  const long inputs = long{1} * g.height * g.width, results = long{1} * g.out_height() * g.out_width();
  const auto dy = random_floats(batch * g.result_size(), 2);
  std::vector<float> y(dy.size());
  tenet::reference::Serial serial;
  run_max_pool2d(serial, g, batch, x.data(), y.data());
  // run(executor, order…, given, to): for the reference `order` is empty, its channels come first.
  const auto check = [&](long size, long positions, double tolerance, auto run) {
    check_agreement(size, tolerance, [&](auto& place, float* to) {
      if constexpr (std::remove_reference_t<decltype(place)>::is_reference) {
        std::vector<float> result(static_cast<std::size_t>(size));
        run(
            place, [&](const std::vector<float>& numbers, long) { return place.in(numbers); }, result.data());
        result = channels_last(result, g.channels, positions);
        std::copy(result.begin(), result.end(), to);
      } else {
        const auto turned = [&](const std::vector<float>& numbers, long of) {
          return place.keep(image_order::channels_last(numbers, g.channels, of));
        };
        run(place, turned, to, tenet::ChannelsLast{});
      }
    });
  };
  check(batch * g.result_size(), results, 0, [&](auto& place, auto in, float* to, auto... order) {
    run_max_pool2d(place.executor, order..., g, batch, in(x, inputs), to);
  });
  check(batch * g.input_size(), inputs, 1e-6, [&](auto& place, auto in, float* to, auto... order) {
    run_max_pool2d_gradient(place.executor, order..., g, batch, in(x, inputs), in(y, results), in(dy, results), to);
  });
  check(batch * g.result_size(), results, g.kernel > 100 ? 1e-4 : 2e-6,
        [&](auto& place, auto in, float* to, auto... order) {
          run_avg_pool2d(place.executor, order..., g, batch, in(x, inputs), to);
        });
  check(batch * g.input_size(), inputs, 2e-6, [&](auto& place, auto in, float* to, auto... order) {
    run_avg_pool2d_gradient(place.executor, order..., g, batch, in(dy, results), to);
  });
}

constexpr Pool2dGeometry geometries[] = {
    {1, 1, 1, 1, 1, 0},     {5, 9, 11, 3, 2, 1},    {3, 7, 7, 7, 7, 0},   {4, 13, 37, 3, 1, 1},
    {2, 30, 31, 5, 3, 2},   {40, 4, 4, 4, 1, 0},    {7, 10, 10, 2, 3, 0},  // windows with gaps between them
    {6, 24, 24, 2, 2, 0},   {1, 3, 1100, 2, 2, 0},  {3, 5, 7, 2, 2, 0},   {3, 20, 21, 9, 4, 4},
    {2, 40, 33, 33, 1, 16}, {1, 90, 70, 40, 15, 3},
};

}  // namespace

TEST_CASE("pooling agrees with the reference", "[cuda][pool2d]") {
  for (const Pool2dGeometry& g : geometries)
    for (const int batch : {1, 5}) {
      auto x = random_floats(batch * g.input_size(), 1);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;  // equal elements: the first one wins
      check_pooling(g, batch, x);
    }
}

TEST_CASE("pooling of what is no number or infinite agrees with the reference", "[cuda][pool2d]") {
  for (const Pool2dGeometry& g : geometries) {
    if (g.input_size() < 20) continue;
    auto x = random_floats(2 * g.input_size(), 1);
    for (std::size_t i = 7; i < x.size(); i += 29) x[i] = __builtin_nanf("");
    for (std::size_t i = 0; i < x.size(); i += 31) x[i] = -__builtin_inff();
    check_pooling(g, 2, x);
  }
}

TEST_CASE("pooling calls its epilogue behind its kernel", "[cuda][pool2d]") {
  constexpr Pool2dGeometry g{2, 6, 8, 2, 2, 0};
  const auto x = random_floats(3 * g.input_size(), 1), y = random_floats(3 * g.result_size(), 2);
  check_epilogue(3 * g.result_size(), [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_max_pool2d(place.executor, tenet::ChannelsLast{}, g, 3, place.in(x), to, epilogue);
  });
  check_epilogue(3 * g.input_size(), [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_max_pool2d_gradient(place.executor, tenet::ChannelsLast{}, g, 3, place.in(x), place.in(y), place.in(y), to,
                            epilogue);
  });
  check_epilogue(3 * g.result_size(), [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_avg_pool2d(place.executor, tenet::ChannelsLast{}, g, 3, place.in(x), to, epilogue);
  });
  check_epilogue(3 * g.input_size(), [&](auto& place, float* to, tenet::Epilogue epilogue) {
    run_avg_pool2d_gradient(place.executor, tenet::ChannelsLast{}, g, 3, place.in(y), to, epilogue);
  });
}
