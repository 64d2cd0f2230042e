// Single operations and layers against PyTorch, in training, gradient and evaluation.
#include "../../examples/models/resnet18.hpp"
#include "golden.hpp"

using namespace tenet;

namespace {

const Sgd plain{.learning_rate = 0.1f};

template <class Net, class Input, class Device = Cpu<0, 2>, class Loss = MeanSquaredError>
void check(const std::string& name, golden::Tolerance tolerance = {}) {
  golden::run<Net, Loss, Input, Device>(name, 3, 3, plain, tolerance, 11, 9);
}

using Picture = Image<2, 9, 7>;
using Rows = Sequence<5, 8>;

struct PooledByMaximum : Sequential<Conv2d<2, 3, 3, Padding<1>>, MaxPool2d<3, Stride<2>, Padding<1>>, Conv2d<3, 2, 1>> {
};
struct PooledByMean : Sequential<Conv2d<2, 3, 3, Padding<1>>, AvgPool2d<3, Stride<2>, Padding<1>>, Conv2d<3, 2, 1>> {};
struct Convolutions : Sequential<Conv2d<2, 3, 3, Padding<1>>, Tanh, Conv2d<3, 4, 3, Stride<2>, Padding<1>>> {};
struct Normalized : Sequential<Conv2d<2, 3, 3, Padding<1>, Bias<false>>, BatchNorm2d<3>, Tanh, Conv2d<3, 2, 1>> {};
struct NormalizedFeatures
    : Sequential<BatchNorm1d<5>, Linear<8, 6>, Flatten, Linear<30, 6>, BatchNorm1d<6>, Tanh, Linear<6, 4>> {};
struct NormalizedRows : Sequential<Linear<8, 6>, LayerNorm<6>, Linear<6, 8>> {};
struct Words : Sequential<Embedding<11, 6>, GELU, Linear<6, 9>> {};
struct Distributions : Sequential<Linear<8, 6>, GELU, Linear<6, 8>, Softmax> {};
struct Residuals : Sequential<ResidualUnit<2, 4, 2>, ResidualUnit<4, 4>> {};

template <class... Options>
struct Attention {
  MultiheadAttention<8, 2, Options...> attention;
  constexpr auto forward(auto x) const { return attention(x); }
};

template <bool causal>
struct Attend {
  Linear<8, 8> query, key, value;
  constexpr auto forward(auto x) const { return scaled_dot_product_attention<causal>(query(x), key(x), value(x)); }
};

struct Perceptron : Sequential<Linear<8, 6>, Tanh, Linear<6, 4>> {};

template <class Optimizer>
void check_optimizer(const std::string& name, Optimizer optimizer) {
  golden::run<Perceptron, CrossEntropy, Features<8>, Cpu<0, 2>>(name, 5, 5, optimizer, {}, 0, 4);
}

}  // namespace

TEST_CASE("convolution, stride 2 and padding, on an image that is not square") {
  check<Convolutions, Picture, Reference>("conv2d");
  check<Convolutions, Picture>("conv2d");
}

TEST_CASE("pooling with padding") {
  check<PooledByMaximum, Picture>("max_pool2d");
  check<PooledByMean, Picture>("avg_pool2d");
}

TEST_CASE("batch norm in training and evaluation, with its running statistics") {
  check<Normalized, Picture, Reference>("batch_norm2d");
  check<Normalized, Picture>("batch_norm2d");
}

TEST_CASE("batch norm of sequences and of features") {
  golden::run<NormalizedFeatures, MeanSquaredError, Rows, Reference>("batch_norm1d", 7, 3, plain);
  golden::run<NormalizedFeatures, MeanSquaredError, Rows, Cpu<0, 2>>("batch_norm1d", 7, 3, plain);
}

TEST_CASE("two residual units: parameters whose gradients are one value are all updated with it") {
  golden::run<Residuals, MeanSquaredError, Picture, Cpu<0, 2>>("residual", 3, 4,
                                                               Sgd{.learning_rate = 0.1f, .momentum = 0.9f},
                                                               {.losses = 1e-4, .weights = 1e-4, .outputs = 1e-4});
}

TEST_CASE("layer norm") { check<NormalizedRows, Rows>("layer_norm"); }

TEST_CASE("embedding, and cross entropy of sequences") {
  check<Words, Tokens<7>, Reference, CrossEntropy>("embedding");
  check<Words, Tokens<7>, Cpu<0, 2>, CrossEntropy>("embedding");
}

TEST_CASE("GELU and softmax") { check<Distributions, Rows>("softmax"); }

TEST_CASE("attention with several heads") {
  check<Attention<>, Rows>("multihead_attention");
  check<Attention<Causal<true>>, Rows>("causal_multihead_attention");
}

TEST_CASE("scaled dot product attention") {
  check<Attend<false>, Rows, Reference>("scaled_dot_product_attention");
  check<Attend<true>, Rows, Reference>("causal_scaled_dot_product_attention");
}

TEST_CASE("optimizers") {
  check_optimizer("sgd", Sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f});
  check_optimizer("adam",
                  Adam{.learning_rate = 0.01f, .beta1 = 0.8f, .beta2 = 0.99f, .epsilon = 1e-6f, .weight_decay = 0.1f});
  check_optimizer("adamw",
                  AdamW{.learning_rate = 0.01f, .beta1 = 0.8f, .beta2 = 0.99f, .epsilon = 1e-6f, .weight_decay = 0.1f});
  check_optimizer("clip_grad_norm",
                  ClipGradNorm<Sgd>{{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.05f}, 0.3f});
}

TEST_CASE("learning-rate schedules") {
  const auto compare = [](const std::string& name, auto schedule, long total_steps) {
    const std::vector<double>& rates = golden::values(name);
    for (std::size_t i = 0; i < rates.size(); ++i) {
      INFO(name << ", step " << i);
      CHECK(schedule({static_cast<long>(i), total_steps, static_cast<int>(i)}) == Approx(rates[i]).epsilon(1e-6));
    }
  };
  compare("cosine_annealing", CosineAnnealingLR{.final = 0.1f}, 12);
  compare("step", StepLR{.step_size = 3, .gamma = 0.5f}, 10);
  compare("linear", LinearLR{.start = 0.25f, .end = 1.0f, .steps = 5}, 8);
}

TEST_CASE("a file that PyTorch wrote is loaded and gives PyTorch's outputs") {
  struct Tiny : Sequential<Conv2d<2, 3, 3, Padding<1>>, BatchNorm2d<3>, ReLU, Flatten, Linear<60, 4>> {};
  Trainer<Tiny, CrossEntropy, Sgd, Image<2, 5, 4>, Cpu<0, 2>> trainer;
  trainer.load(TENET_TEST_DATA "/golden/tiny.safetensors");
  CHECK(trainer.weights().steps() == 2);  // num_batches_tracked
  const std::vector<float> images = golden::floats(golden::input_stream, 3 * 2 * 5 * 4);
  const auto outputs = trainer.predict(images.data(), 3);
  const std::vector<double>& expected = golden::values("tiny/outputs");
  REQUIRE(outputs.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(outputs[i] == Approx(expected[i]).epsilon(1e-5).margin(1e-6));
}
