#include "tenet/parallel/data_parallel.hpp"

#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/tenet.hpp>

#include "../support/late_step.hpp"
#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/networks.hpp"
#include "../support/variable.hpp"

using namespace tenet;

namespace {

double difference(const float* a, const float* b, long count) {
  double worst = 0, largest = 1e-30;
  for (long i = 0; i < count; ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(a[i]) - b[i]));
    largest = std::fmax(largest, std::fabs(static_cast<double>(b[i])));
  }
  return worst / largest;
}

/// The gradient of a step on replicas is the mean of what one device finds for each one's part of the batch; so are
/// loss and accuracy, and running statistics are those of the first part. For any network without random numbers.
template <class Net, class Loss, class Input, class Device, int k, class... Policies>
void check_parts(const std::vector<int>& batches) {
  using One = Trainer<Net, Loss, PlainSgd, Input, Device>;
  using Many = Trainer<Net, Loss, PlainSgd, Input, Device, DataParallel<k>, Policies...>;
  constexpr long floats = Weights<Net>::table.parameter_floats, buffers = Weights<Net>::table.buffer_floats;
  One one{{.learning_rate = 0}, 3};
  Many many{{.learning_rate = 0}, 3};
  const network::Samples<One> samples(13);
  for (const int batch : batches) {
    CAPTURE(batch, k);
    const StepResult found = many.step(samples.inputs.data(), samples.targets.data(), batch);
    std::vector<double> sum(static_cast<std::size_t>(floats));
    std::vector<float> first_buffers;
    double loss = 0, accuracy = 0;
    for (int r = 0; r < k; ++r) {
      const int first = (batch * r + k - 1) / k, part = (batch * (r + 1) + k - 1) / k - first;
      if (part == 0) continue;
      const std::vector<float> before(one.weights().buffers(), one.weights().buffers() + buffers);
      const StepResult of_part = one.step(samples.inputs.data() + first * Input::size,
                                          samples.targets.data() + first * One::Target::size, part);
      const double weight = static_cast<double>(part) / batch;
      loss += weight * of_part.loss;
      accuracy += weight * of_part.accuracy;
      for (long i = 0; i < floats; ++i) sum[static_cast<std::size_t>(i)] += weight * one.gradients()[i];
      if (r > 0) std::copy(before.begin(), before.end(), one.weights().buffers());
    }
    const std::vector<float> expected(sum.begin(), sum.end());
    CHECK(found.loss == Approx(loss).epsilon(1e-5));
    CHECK(found.accuracy == Approx(accuracy).epsilon(1e-5));
    CHECK(difference(many.gradients(), expected.data(), floats) < 2e-5);
    CHECK(difference(many.gradients(), expected.data(), floats) < 2e-5);  // they are not added up again
    CHECK(difference(many.weights().buffers(), one.weights().buffers(), buffers) < 1e-5);
  }
}

}  // namespace

TEST_CASE("replicas find the mean gradient of their parts of the batch", "[data_parallel]") {
  check_parts<networks::Residual, CrossEntropy, Image<2, 6, 5>, Reference, 2>({8, 5, 1, 13});
  check_parts<networks::Residual, CrossEntropy, Image<2, 6, 5>, Cpu<0, 1>, 2>({8, 5, 1, 2, 13});
  check_parts<networks::Residual, CrossEntropy, Image<2, 6, 5>, Cpu<0, 2>, 3>({9, 4, 2, 1});
  check_parts<networks::WholeRows, MeanSquaredError, Features<16>, Cpu<0, 1>, 4>({13, 3});
  // By collectives, in one bucket and in many.
  check_parts<networks::Residual, CrossEntropy, Image<2, 6, 5>, Cpu<0, 1>, 3, Ring>({9, 4, 2, 1});
  check_parts<networks::Residual, CrossEntropy, Image<2, 6, 5>, Reference, 2, AllReduce, BucketBytes<64>>({8, 5, 1});
  check_parts<networks::WholeRows, MeanSquaredError, Features<16>, Cpu<0, 1>, 4, Ring, BucketBytes<4096>>({13, 3});
}

TEST_CASE("replicas find it, too, where they add up one gradient of all samples", "[data_parallel]") {
  const std::vector<int> batches = TENET_TEST_SANITIZED ? std::vector{3} : std::vector{4, 3, 4, 2};
  check_parts<networks::WideConvolutions, CrossEntropy, Image<128, 4, 4>, Cpu<0, 1>, 2>(batches);
  check_parts<networks::WideLinears, CrossEntropy, Features<16>, Cpu<0, 2>, 3>({9, 4, 9});
}

namespace {

/// Without what depends on the parts, training is that on one device, up to rounding.
template <class Net, class Loss, class Optimizer, class Input, class Device, int k, class... Policies>
void check_training(Optimizer optimizer) {
  using One = Trainer<Net, Loss, Optimizer, Input, Device>;
  using Many = Trainer<Net, Loss, Optimizer, Input, Device, DataParallel<k>, Policies...>;
  constexpr long floats = Weights<Net>::table.parameter_floats;
  One one{optimizer, 3};
  Many many{optimizer, 3};
  const network::Samples<One> samples(11);
  const std::vector<float> begin(one.weights().parameters(), one.weights().parameters() + floats);
  for (const int batch : {11, 4, 1, 7, 11, 2}) {
    CAPTURE(batch, k);
    const StepResult expected = one.step(samples.inputs.data(), samples.targets.data(), batch);
    const StepResult found = many.step(samples.inputs.data(), samples.targets.data(), batch);
    CHECK(found.loss == Approx(expected.loss).epsilon(1e-4));
    CHECK(difference(many.weights().parameters(), one.weights().parameters(), floats) < 1e-4);
  }
  CHECK(difference(one.weights().parameters(), begin.data(), floats) > 1e-3);
  CHECK(difference(many.weights().buffers(), one.weights().buffers(), Weights<Net>::table.buffer_floats) < 1e-4);
  // Results of each sample, and of a whole evaluation.
  for (const int batch : {1, 2, 11}) {
    const auto expected = one.predict(samples.inputs.data(), batch), found = many.predict(samples.inputs.data(), batch);
    REQUIRE(found.size() == expected.size());
    CHECK(difference(found.data(), expected.data(), static_cast<long>(found.size())) < 1e-3);
  }
}

}  // namespace

TEST_CASE("training on replicas is training on one device", "[data_parallel]") {
  check_training<networks::WholeRows, MeanSquaredError, Sgd, Features<16>, Reference, 2>(
      {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f});
  check_training<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, 2>(
      {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f});
  check_training<networks::WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 2>, 3>({.learning_rate = 0.01f});
  check_training<networks::WholeRows, CrossEntropy, Adam, Features<16>, Cpu<0, 1>, 2>(
      {.learning_rate = 0.01f, .weight_decay = 0.1f});
  check_training<networks::WideLinears, CrossEntropy, Sgd, Features<16>, Cpu<0, 1>, 2, SyncBatchNorm>(
      {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f});  // where gradients are sums of all samples
  check_training<networks::WholeRows, CrossEntropy, AdamW, Features<16>, Cpu<0, 1>, 3, Ring, BucketBytes<1000>>(
      {.learning_rate = 0.01f});
  check_training<networks::WholeRows, CrossEntropy, Sgd, Features<16>, Reference, 4, AllReduce>(
      {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f});
}

TEST_CASE("SyncBatchNorm: training on replicas is training on one device", "[data_parallel]") {
  // Not with Adam: a bias in front of a batch norm has the gradient 0, of whose rounding it makes a whole step.
  using networks::Residual;
  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f};
  check_training<Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Reference, 2, SyncBatchNorm>(sgd);
  check_training<Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 1>, 4, SyncBatchNorm, Ring, BucketBytes<64>>(sgd);
  check_training<Residual, CrossEntropy, Sgd, Image<2, 6, 5>, Cpu<0, 2>, 3, SyncBatchNorm, ParameterServer<OnRank<1>>>(
      sgd);
}

TEST_CASE("replicas drop different values", "[data_parallel]") {
  struct Net : Sequential<Linear<64, 64>, Dropout<50>> {};
  using Many = Trainer<Net, MeanSquaredError, PlainSgd, Features<64>, Reference, DataParallel<2>>;
  Many many{{.learning_rate = 0}, 3};
  for (float& weight : many.weights()["0.weight"]) weight = 0;
  for (float& bias : many.weights()["0.bias"]) bias = 1;
  const std::vector<float> inputs(128, 1.0f), targets(128, 0.0f);
  many.step(inputs.data(), targets.data(), 2);
  // Each sample on a replica of its own adds the same to an element's gradient, or nothing where it drops it.
  const auto gradient = many.gradient("0.bias");
  const float largest = *std::max_element(gradient.begin(), gradient.end());
  const auto count = [&](float value) { return std::count(gradient.begin(), gradient.end(), value); };
  CHECK(largest > 0);
  CHECK(count(0) > 0);
  CHECK(count(largest / 2) > 10);  // dropped by one of them only
  CHECK(count(0) + count(largest / 2) + count(largest) == 64);
}

namespace {

/// Parameters, statistics and losses after some steps with batches of many sizes, as bits.
template <class Net, class Input, class... Policies>
std::vector<float> trained() {
  using Reproduced = Trainer<Net, CrossEntropy, Sgd, Input, Reproducible, Policies...>;
  Reproduced trainer{{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f}, 3};
  const network::Samples<Reproduced> samples(21);
  std::vector<float> result;
  for (const int batch : {21, 8, 3, 16, 1, 20}) {
    const StepResult step = trainer.step(samples.inputs.data(), samples.targets.data(), batch);
    result.push_back(step.loss);
    result.push_back(step.accuracy);
  }
  const auto scores = trainer.predict(samples.inputs.data(), 5);
  result.insert(result.end(), scores.begin(), scores.end());
  const auto add = [&](const float* numbers, long count) { result.insert(result.end(), numbers, numbers + count); };
  add(trainer.weights().parameters(), Weights<Net>::table.parameter_floats);
  add(trainer.weights().buffers(), Weights<Net>::table.buffer_floats);
  add(trainer.gradients(), Weights<Net>::table.parameter_floats);
  return result;
}

/// The bits of one device, with so many replicas, for five plans of buckets: one of all gradients, some, and one for
/// each parameter.
template <class Net, class Input, int replicas>
void check_bits_of_buckets(const std::vector<float>& expected) {
  CAPTURE(replicas);
  using Strategy = DataParallel<replicas>;
  CHECK(trained<Net, Input, Cpu<0, 1>, Strategy>() == expected);
  CHECK(trained<Net, Input, Cpu<0, 1>, Strategy, AllReduce>() == expected);
  CHECK(trained<Net, Input, Cpu<0, 1>, Strategy, AllReduce, BucketBytes<2000>>() == expected);
  CHECK(trained<Net, Input, Cpu<0, 1>, Strategy, AllReduce, BucketBytes<300>>() == expected);
  CHECK(trained<Net, Input, Cpu<0, 1>, Strategy, AllReduce, BucketBytes<64>>() == expected);
  CHECK(trained<Net, Input, Cpu<0, 1>, Strategy, AllReduce, BucketBytes<1>>() == expected);
}

}  // namespace

TEST_CASE("Reproducible: the same bits for any number of replicas, threads, buckets and any way", "[data_parallel]") {
  {
    using Net = networks::Residual;  // with batch norm
    using Input = Image<2, 6, 5>;
    const auto expected = trained<Net, Input, Cpu<0, 1>>();
    check_bits_of_buckets<Net, Input, 1>(expected);
    check_bits_of_buckets<Net, Input, 2>(expected);
    check_bits_of_buckets<Net, Input, 4>(expected);
    check_bits_of_buckets<Net, Input, 8>(expected);
    CHECK(trained<Net, Input, Cpu<0, 2>, DataParallel<4>, AllReduce, BucketBytes<64>>() == expected);
  }
  {
    using Net = networks::Transformer;  // with dropout
    const auto expected = trained<Net, Tokens<12>, Cpu<0, 1>>();
    CHECK(trained<Net, Tokens<12>, Cpu<0, 1>, DataParallel<2>>() == expected);
    CHECK(trained<Net, Tokens<12>, Cpu<0, 2>, DataParallel<8>>() == expected);
    CHECK(trained<Net, Tokens<12>, Cpu<0, 1>, DataParallel<4>, AllReduce, BucketBytes<4096>>() == expected);
    CHECK(trained<Net, Tokens<12>, Cpu<0, 1>, DataParallel<2>, AllReduce, BucketBytes<16384>>() == expected);
  }
}

namespace {

/// What a step throws in which another replica than the caller's is late, and that training goes on behind it.
template <class... Policies>
std::string message_of_late_step() {
  const Variable limit("TENET_TIMEOUT", "0.4");
  using Replicated =
      Trainer<late_step::Net, CrossEntropy, PlainSgd, Features<16>, Reference, DataParallel<2>, Policies...>;
  const network::Samples<Replicated> samples(4);
  Replicated trainer{{.learning_rate = 0.1f}, 0};
  late_step::is_in_time = true;
  const auto step = [&] { trainer.step(samples.inputs.data(), samples.targets.data(), 4); };
  step();
  late_step::milliseconds = 700;
  const std::string message = message_of(step);
  late_step::milliseconds = 0;
  if (sizeof...(Policies) == 0) step();
  late_step::is_in_time = false;
  return message;
}

}  // namespace

TEST_CASE("a replica that is late is named, with the step, when the time that the environment says has passed",
          "[data_parallel]") {
  CHECK(message_of_late_step() ==
        "replica 0, gradients of all replicas of step 2: waits for replica 1; expected within 0.4 s, found nothing");
  CHECK(message_of_late_step<Ring>() ==
        "rank 0, bucket 0 of step 2: waits for a message from rank 1; expected within 0.4 s, found nothing");
}
