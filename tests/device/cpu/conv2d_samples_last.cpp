#include "tenet/device/cpu/conv2d_samples_last.hpp"

#include <algorithm>
#include <type_traits>

#include "../../support/convolutions.hpp"
#include "tenet/device/reference/conv2d.hpp"

namespace {

using tenet::Conv2dGeometry;
using tenet::Epilogue;
using tenet::SamplesLast;

void run_conv2d(tenet::cpu::Workers& workers, SamplesLast, const Conv2dGeometry& g, auto... given) {
  run_conv2d_samples_last(workers, g, given...);
}
void run_conv2d_input_gradient(tenet::cpu::Workers& workers, SamplesLast, const Conv2dGeometry& g, auto... given) {
  run_conv2d_input_gradient_samples_last(workers, g, given...);
}

std::vector<float> out_of_lanes(const std::vector<float>& lanes, long size, int batch) {
  std::vector<float> result(static_cast<std::size_t>(size * batch));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const long n = static_cast<long>(i) / size, p = static_cast<long>(i) % size;
    result[i] = lanes[static_cast<std::size_t>((n / 16 * size + p) * 16 + n % 16)];
  }
  return result;
}

/// An epilogue that adds 1 to a result and counts how often each element was met.
struct AddOne {
  float* result;
  Epilogue epilogue() const {
    return {[](const void* state, long first, long last) {
              for (long i = first; i < last; ++i) static_cast<const AddOne*>(state)->result[i] += 1;
            },
            this};
  }
};

/// Checks a pass from a source to a result, all with an epilogue: run(executor, source, result, epilogue), which is the
/// reference, against run(…, SamplesLast{}) and against relaying(executor, source, result, epilogue).
template <class Run, class Relaying>
void check_pass(long source_size, long result_size, int batch, Run run, Relaying relaying) {
  const auto source = random_floats(batch * source_size, 1);
  const auto source_lanes = convolutions::in_lanes(source, source_size, batch, false);
  for (const bool direct : {true, false}) {
    CAPTURE(direct);
    check_agreement(batch * result_size, 2e-5, [&](auto& executor, float* to) {
      const AddOne add{to};
      if constexpr (std::is_same_v<std::decay_t<decltype(executor)>, tenet::reference::Serial>) {
        run(executor, source.data(), to, add.epilogue());
      } else if (direct) {
        std::vector<float> result(static_cast<std::size_t>(tenet::cpu::samples_last_size(result_size, batch)) + 16, 5);
        const AddOne add_lanes{result.data()};
        run(executor, source_lanes.data(), result.data(), add_lanes.epilogue(), SamplesLast{});
        for (std::size_t i = result.size() - 16; i < result.size(); ++i) CHECK(result[i] == 5);
        const auto standard = out_of_lanes(result, result_size, batch);
        std::copy(standard.begin(), standard.end(), to);
      } else {
        relaying(executor, source.data(), to, add.epilogue());
      }
    });
  }
}

}  // namespace

TEST_CASE("convolutions with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  convolutions::for_each(convolutions::of_few_channels, {1, 3, 17, 33}, [](const Conv2dGeometry& g, int batch) {
    const auto weight = random_floats(g.weight_size(), 2);
    check_pass(
        g.input_size(), g.result_size(), batch,
        [&](auto& executor, const float* x, float* y, Epilogue e, auto... layout) {
          run_conv2d(executor, layout..., g, batch, x, weight.data(), y, e);
        },
        [&](auto& executor, const float* x, float* y, Epilogue e) {
          run_conv2d_few_channels(executor, g, batch, x, weight.data(), y, e);
        });
  });
}

TEST_CASE("gradients by the input with samples in the lanes agree with the reference", "[cpu][conv2d_samples_last]") {
  convolutions::for_each(convolutions::of_few_channels, {1, 3, 17, 33}, [](const Conv2dGeometry& g, int batch) {
    const auto weight = random_floats(g.weight_size(), 2);
    check_pass(
        g.result_size(), g.input_size(), batch,
        [&](auto& executor, const float* dy, float* dx, Epilogue e, auto... layout) {
          run_conv2d_input_gradient(executor, layout..., g, batch, dy, weight.data(), dx, e);
        },
        [&](auto& executor, const float* dy, float* dx, Epilogue e) {
          run_conv2d_input_gradient_few_channels(executor, g, batch, dy, weight.data(), dx, e);
        });
  });
}

TEST_CASE("convolutions with samples in the lanes need the scratch memory they say", "[cpu][conv2d_samples_last]") {
  constexpr Conv2dGeometry g{1, 28, 28, 6, 5, 5, 1, 2};
  constexpr const tenet::cpu::Workers* none = nullptr;
  static_assert(scratch_conv2d_samples_last(none, g) < 512);
  static_assert(scratch_conv2d_input_gradient_samples_last(none, g) < 1024);
  static_assert(tenet::cpu::scratch_conv2d_few_channels(none, g) > 16 * (g.input_size() + g.result_size()));
  CHECK(tenet::cpu::few_channels_fits(g));
  CHECK_FALSE(tenet::cpu::few_channels_fits({64, 28, 28, 64, 3, 3, 1, 1}));
}
