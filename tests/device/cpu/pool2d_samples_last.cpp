#include "tenet/device/cpu/pool2d_samples_last.hpp"

#include <algorithm>
#include <type_traits>

#include "../agreement.hpp"
#include "tenet/device/reference/pool2d.hpp"

namespace {

using tenet::Epilogue;
using tenet::Layout;
using tenet::Pool2dGeometry;
using tenet::SamplesLast;
using tenet::cpu::run_relayout_in_lanes;
using tenet::cpu::samples_last_size;

void run_max_pool2d(tenet::cpu::Workers& workers, SamplesLast, const Pool2dGeometry& g, auto... given) {
  run_max_pool2d_samples_last(workers, g, given...);
}
void run_avg_pool2d(tenet::cpu::Workers& workers, SamplesLast, const Pool2dGeometry& g, auto... given) {
  run_avg_pool2d_samples_last(workers, g, given...);
}
void run_avg_pool2d_gradient(tenet::cpu::Workers& workers, SamplesLast, const Pool2dGeometry& g, auto... given) {
  run_avg_pool2d_gradient_samples_last(workers, g, given...);
}
void run_max_pool2d_gradient(tenet::cpu::Workers& workers, SamplesLast, const Pool2dGeometry& g, auto... given) {
  run_max_pool2d_gradient_samples_last(workers, g, given...);
}

constexpr tenet::Relayout into_lanes(long size) { return {Layout::standard, Layout::samples_last, {size, 1}}; }

std::vector<float> in_lanes(const std::vector<float>& standard, long size, int batch) {
  std::vector<float> result(static_cast<std::size_t>(samples_last_size(size, batch)));
  run_relayout_in_lanes(pool(1), into_lanes(size), batch, standard.data(), result.data());
  return result;
}

/// Runs a kernel in samples last, with an epilogue that adds 1 to each element of its result, and brings the result
/// back; `run(executor, to, epilogue)`.
template <class Run>
void run_in_lanes(tenet::cpu::Workers& workers, long size, int batch, float* to, Run run) {
  std::vector<float> lanes(static_cast<std::size_t>(samples_last_size(size, batch)) + 16, 5);
  const Epilogue add_one = {[](const void* state, long first, long last) {
                              float* result = *static_cast<float* const*>(state);
                              for (long i = first; i < last; ++i) result[i] += 1;
                            },
                            nullptr};
  float* const data = lanes.data();
  run(workers, data, Epilogue{add_one.run, &data});
  for (std::size_t i = lanes.size() - 16; i < lanes.size(); ++i) CHECK(lanes[i] == 5);
  run_relayout_in_lanes(pool(1), {Layout::samples_last, Layout::standard, {size, 1}}, batch, data, to);
  for (long i = 0; i < size * batch; ++i) to[i] -= 1;
}

/// check_agreement with `run(executor, to, epilogue, tag…)`, the tag only for the device.
template <class Run>
void check_lanes(long size, int batch, double tolerance, Run run) {
  check_agreement(batch * size, tolerance, [&](auto& executor, float* to) {
    if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>) {
      run(executor, to, Epilogue{});
      for (long i = 0; i < size * batch; ++i) to[i] = (to[i] + 1) - 1;  // rounded as the other one
    } else {
      run_in_lanes(executor, size, batch, to, [&](auto& workers, float* lanes, Epilogue epilogue) {
        run(workers, lanes, epilogue, SamplesLast{});
      });
    }
  });
}

}  // namespace

TEST_CASE("pooling with samples in the lanes agrees with the reference", "[cpu][pool2d_samples_last]") {
  const Pool2dGeometry geometries[] = {
      {1, 1, 1, 1, 1, 0}, {3, 7, 9, 2, 2, 0},   {6, 28, 28, 2, 2, 0}, {16, 10, 10, 2, 2, 0}, {5, 9, 11, 3, 2, 1},
      {3, 7, 7, 7, 7, 0}, {4, 13, 17, 3, 1, 1}, {2, 15, 14, 5, 3, 2}, {7, 10, 10, 2, 3, 0},  {2, 9, 9, 2, 4, 1}};
  for (const Pool2dGeometry& g : geometries) {
    for (const int batch : {1, 3, 17, 33}) {
      CAPTURE(g.channels, g.height, g.width, g.kernel, g.stride, g.padding, batch);
      auto x = random_floats(batch * g.input_size(), 1);
      for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0.25f;  // equal elements: the first one wins
      if (x.size() > 7) x[7] = std::nanf("");
      const auto dy = random_floats(batch * g.result_size(), 2);
      std::vector<float> y(dy.size());
      tenet::reference::Serial serial;
      run_max_pool2d(serial, g, batch, x.data(), y.data());
      const auto x_lanes = in_lanes(x, g.input_size(), batch), y_lanes = in_lanes(y, g.result_size(), batch),
                 dy_lanes = in_lanes(dy, g.result_size(), batch);
      const auto in = [](const auto& lanes, const auto& standard, auto... tag) {
        return sizeof...(tag) != 0 ? lanes.data() : standard.data();
      };
      check_lanes(g.result_size(), batch, 0, [&](auto& executor, float* to, Epilogue epilogue, auto... tag) {
        run_max_pool2d(executor, tag..., g, batch, in(x_lanes, x, tag...), to, epilogue);
      });
      check_lanes(g.input_size(), batch, 2e-6, [&](auto& executor, float* to, Epilogue epilogue, auto... tag) {
        run_max_pool2d_gradient(executor, tag..., g, batch, in(x_lanes, x, tag...), in(y_lanes, y, tag...),
                                in(dy_lanes, dy, tag...), to, epilogue);
      });
      if (x.size() > 7) x[7] = 0;
      const auto finite_lanes = in_lanes(x, g.input_size(), batch);
      check_lanes(g.result_size(), batch, 2e-6, [&](auto& executor, float* to, Epilogue epilogue, auto... tag) {
        run_avg_pool2d(executor, tag..., g, batch, in(finite_lanes, x, tag...), to, epilogue);
      });
      check_lanes(g.input_size(), batch, 2e-6, [&](auto& executor, float* to, Epilogue epilogue, auto... tag) {
        run_avg_pool2d_gradient(executor, tag..., g, batch, in(dy_lanes, dy, tag...), to, epilogue);
      });
    }
  }
}
