#include "tenet/device/cpu/convolution_channels_last.hpp"

#include <numeric>

#include "../../support/convolutions.hpp"
#include "../../support/image_order.hpp"
#include "../../support/layout.hpp"
#include "../../support/network.hpp"
#include "../../support/same_training.hpp"
#include "tenet/device/reference/conv2d.hpp"
#include "tenet/exec/step_work.hpp"
#include "tenet/tenet.hpp"

namespace {

using namespace tenet;
using tenet::cpu::Workers;

/// All three passes as programs call them, by the kernel that shape and batch choose.
template <Conv2dGeometry g>
void check_passes() {
  constexpr long pixels = long{1} * g.height * g.width;
  static_assert(cpu::takes_channels_last(g));
  for (const int batch : {1, 2, 9}) {
    CAPTURE(g.channels, g.height, g.width, g.out_channels, g.kernel_height, g.stride, g.padding, batch);
    const auto x = random_floats(batch * g.input_size(), 1), w = random_floats(g.weight_size(), 2),
               dy = random_floats(batch * g.result_size(), 3);
    const auto turned_x = image_order::channels_last(x, g.channels, pixels),
               turned_dy = image_order::channels_last(dy, g.out_channels, g.positions());
    const auto in_order_of_types = [&](long channels, long positions, float* to, auto run) {
      std::vector<float> lying(static_cast<std::size_t>(batch * channels * positions));
      run(lying.data());
      const auto standard = image_order::channels_first(lying.data(), batch, channels, positions);
      std::copy(standard.begin(), standard.end(), to);
    };
    const double forward = convolutions::relative_error(
        batch * g.result_size(),
        [&](auto& executor, float* to) { run_conv2d(executor, g, batch, x.data(), w.data(), to); },
        [&](Workers& workers, float* result) {
          in_order_of_types(g.out_channels, g.positions(), result, [&](float* to) {
            run_conv2d(workers, ImagesChannelsLast{}, Known<g>{}, batch, turned_x.data(), w.data(), to);
          });
        });
    CHECK(forward < 1e-5);
    const double by_input = convolutions::relative_error(
        batch * g.input_size(),
        [&](auto& executor, float* to) { run_conv2d_input_gradient(executor, g, batch, dy.data(), w.data(), to); },
        [&](Workers& workers, float* result) {
          in_order_of_types(g.channels, pixels, result, [&](float* to) {
            run_conv2d_input_gradient(workers, ImagesChannelsLast{}, Known<g>{}, batch, turned_dy.data(), w.data(), to);
          });
        });
    CHECK(by_input < 1e-5);
    const double by_weight = convolutions::relative_error(
        g.weight_size(),
        [&](auto& executor, float* to) { run_conv2d_weight_gradient(executor, g, batch, x.data(), dy.data(), to); },
        [&](Workers& workers, float* to) {
          run_conv2d_weight_gradient(workers, ImagesChannelsLast{}, Known<g>{}, batch, turned_x.data(),
                                     turned_dy.data(), to);
        });
    CHECK(by_weight < 1e-5);
  }
}

/// With an epilogue that adds one to each element once.
template <Conv2dGeometry g>
void check_prepared() {
  for (const int batch : {1, 2, 9}) {
    CAPTURE(g.channels, g.height, g.out_channels, g.kernel_height, g.stride, batch);
    const auto x = random_floats(batch * g.input_size(), 1), w = random_floats(g.weight_size(), 2);
    const auto turned_x = image_order::channels_last(x, g.channels, long{1} * g.height * g.width);
    std::vector<float> prepared(static_cast<std::size_t>(prepared_conv2d_weight(&pool(1), Known<g>{}, 0.0f)));
    run_prepare_conv2d_weight(pool(1), Known<g>{}, 0.0f, w.data(), prepared.data());
    const double error = convolutions::relative_error(
        batch * g.result_size(),
        [&](auto& executor, float* to) {
          run_conv2d(executor, g, batch, x.data(), w.data(), to);
          for (long i = 0; i < batch * g.result_size(); ++i) to[i] += 1;
        },
        [&](Workers& workers, float* to) {
          std::vector<float> lying(static_cast<std::size_t>(batch * g.result_size()));
          const Epilogue add_one{[](const void* state, long first, long last) {
                                   float* const all = static_cast<float*>(const_cast<void*>(state));
                                   for (long i = first; i < last; ++i) all[i] += 1;
                                 },
                                 lying.data()};
          run_prepared_conv2d(workers, ImagesChannelsLast{}, Known<g>{}, 0.0f, batch, turned_x.data(), prepared.data(),
                              lying.data(), add_one);
          const auto standard = image_order::channels_first(lying.data(), batch, g.out_channels, g.positions());
          std::copy(standard.begin(), standard.end(), to);
        });
    CHECK(error < 1e-5);
  }
}

/// What images of many channels meet: a stem, pooling, strided convolutions, a residual sum.
struct Wide {
  Conv2d<3, 48, 3, Padding<1>> stem;
  BatchNorm2d<48> norm1;
  Conv2d<48, 64, 3, Padding<1>, Stride<2>> conv1;
  Conv2d<64, 64, 3, Padding<1>> conv2;
  Conv2d<48, 64, 1, Stride<2>> shortcut;
  BatchNorm2d<64> norm2;
  Linear<64, 5> head;

  constexpr auto forward(auto x) const {
    const auto y = max_pool2d<3, 2, 1>(relu(norm1(stem(x))));
    return head(global_avg_pool2d(relu(norm2(conv2(relu(conv1(y)))) + shortcut(y))));
  }
};
/// What leaves the order: a layer of few channels, one that reads all numbers of an image.
struct Mixed : Sequential<Conv2d<3, 8, 5>, ReLU, Conv2d<8, 48, 3>, ReLU, AvgPool2d<2>, Conv2d<48, 16, 1>, Flatten,
                          Linear<144, 5>> {};

/// What has regions in one order behind kernels that write another.
struct Flat {
  Conv2d<3, 48, 3, Padding<1>> stem;
  Conv2d<48, 48, 3, Padding<1>, Stride<2>> conv;
  Linear<48 * 64, 48 * 64> hidden;
  Linear<48 * 64, 5> head;

  constexpr auto forward(auto x) const {
    const auto y = relu(conv(relu(stem(x))));
    return head(relu(hidden(flatten(y))) + flatten(tanh(y)));
  }
};

template <class Net, class Input>
using StepOf = Program<TrainingProgram<Net, CrossEntropy, Sgd, Input, CpuKernels, UpdateAfterBackward>>;
using WideStep = StepOf<Wide, Image<3, 20, 18>>;
constexpr auto wide = layout::images<WideStep>();
static_assert(wide[0] > 10 && wide[1] == wide[0] - 1);  // all but what the mean's gradient is spread to
static_assert(WideStep::plan.conversion_count == 3);    // the caller's images, and that gradient for two convolutions
constexpr auto few = layout::images<StepOf<Mixed, Image<3, 12, 12>>>();
static_assert(few[1] > 3 && few[1] < few[0]);

template <class Net, class Input, class Expected, class... Policies>
void check_training(float tolerance) {
  // With another seed a ReLU's input may be so close to zero that its sign depends on what a compiler contracts.
  constexpr int seed = 4;
  Trainer<Net, CrossEntropy, Sgd, Input, Expected, Policies...> expected{{.learning_rate = 0.02f}, seed};
  Trainer<Net, CrossEntropy, Sgd, Input, Cpu<0, 2>, Policies...> found{{.learning_rate = 0.02f}, seed};
  const network::Samples<decltype(expected)> samples(9);
  check_same_training(expected, found, samples.inputs.data(), samples.targets.data(), {9, 2, 9, 1}, tolerance);
}

}  // namespace

TEST_CASE("convolutions with channels last agree with the reference, by every kernel", "[cpu][convolution]") {
  check_passes<Conv2dGeometry{64, 6, 7, 48, 3, 3, 1, 1}>();  // Winograd's but for one sample
  check_passes<Conv2dGeometry{48, 4, 4, 64, 3, 3, 1, 1}>();
  check_passes<Conv2dGeometry{48, 9, 9, 64, 3, 3, 2, 1}>();
  check_passes<Conv2dGeometry{64, 9, 8, 64, 1, 1, 2, 0}>();
  check_passes<Conv2dGeometry{3, 14, 13, 48, 3, 3, 1, 1}>();
}

TEST_CASE("prepared convolutions with channels last agree with the reference, by every kernel", "[cpu][convolution]") {
  check_prepared<Conv2dGeometry{64, 6, 7, 48, 3, 3, 1, 1}>();
  check_prepared<Conv2dGeometry{48, 4, 4, 64, 3, 3, 1, 1}>();
  check_prepared<Conv2dGeometry{48, 19, 17, 64, 3, 3, 2, 1}>();
  check_prepared<Conv2dGeometry{64, 9, 8, 64, 1, 1, 2, 0}>();
}

TEST_CASE("networks whose images have their channels last train as on the reference", "[cpu][layout]") {
  check_training<Wide, Image<3, 20, 18>, Reference>(2e-4f);
  check_training<Wide, Image<3, 20, 18>, Reference, UpdateInBackward>(2e-4f);
  check_training<Mixed, Image<3, 12, 12>, Reference>(2e-4f);
  check_training<Flat, Image<3, 16, 16>, Reference>(2e-4f);
}

TEST_CASE("line by line images have the order of their types", "[cpu][layout]") {
  Trainer<Wide, CrossEntropy, Sgd, Image<3, 20, 18>, Cpu<0, 2>> trainer{{.learning_rate = 0.02f}, 3};
  Imperative<Wide, Cpu<0, 2>> net(3);
  const network::Samples<decltype(trainer)> samples(5);
  const auto x = net.tensor<Image<3, 20, 18>>(samples.inputs.data(), 5);
  const auto loss = cross_entropy(net(x), net.tensor<BatchedInt<>>(samples.targets.data(), 5));
  const float value = loss.item();
  net.backward(loss);
  net.step(Sgd{.learning_rate = 0.02f});
  CHECK(trainer.step(samples.inputs.data(), samples.targets.data(), 5).loss == Approx(value).epsilon(1e-5));
  for (const std::string& name : trainer.weights().names()) {
    if (name.ends_with("num_batches_tracked")) continue;  // counted elsewhere
    const auto compiled = trainer.weights()[name], by_line = net.weights()[name];
    REQUIRE(compiled.size() == by_line.size());
    double worst = 0;
    for (std::size_t i = 0; i < compiled.size(); ++i)
      worst = std::fmax(worst, std::fabs(double{compiled[i]} - by_line[i]));
    CAPTURE(name);
    CHECK(worst < 1e-5);
  }
}

TEST_CASE("a region apart from its kernel adds no arithmetic", "[cpu][layout]") {
  using Turning = StepOf<Flat, Image<3, 16, 16>>;
  using Plain =
      Program<TrainingProgram<Flat, CrossEntropy, Sgd, Image<3, 16, 16>, ReferenceKernels, UpdateAfterBackward>>;
  const auto flops = [](const std::vector<StepWork>& steps) {
    return std::accumulate(steps.begin(), steps.end(), 0L,
                           [](long sum, const StepWork& work) { return sum + work.flops.at(8); });
  };
  int apart = 0;
  for (int s = 0; s < Turning::lowered.used.steps; ++s) {
    const auto& step = Turning::lowered.steps[s];
    apart += step.kind == Kind::element && !is_copy(Turning::lowered, step) &&
             Turning::graph.nodes[Turning::order.head[step.number]].operation->kind == Kind::kernel;
  }
  CHECK(apart > 0);
  CHECK(flops(work_of_steps<Turning>()) == flops(work_of_steps<Plain>()));
}
