#include "tenet/parallel/resident_shards.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/micro_batches.hpp>

#include "../support/far_device.hpp"
#include "../support/network.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<6, 8>, ReLU, Linear<8, 3>> {};
using Learner = Trainer<Net, CrossEntropy, Sgd, Features<6>, far::Device>;
using P = Learner::Training;

/// A worker's parameters after a step on 7 samples, a tenth of its gradients, and its share of the loss.
template <class Cut>
std::vector<float> after_step(const WorkerShards& shards, long of_all) {
  const network::Samples<Learner> samples(7);
  ResidentDevice<far::Device, far::Kernels> device;
  ResidentShards<P, NoExchanges, Cut> worker(device.executor(), device.arenas());
  Weights<Net> weights(3);
  std::vector<float> gradients(static_cast<std::size_t>(P::slots.parameter_floats));
  worker.bind(Arena::parameters, weights.parameters());
  worker.bind(Arena::gradients, gradients.data());
  worker.bind(Arena::buffers, weights.buffers());
  worker.bind(Arena::states, nullptr);
  const auto scalars = Sgd{.learning_rate = 0.1f}.scalars(1);
  worker.set_scalars(scalars.data(), 1);
  worker.use_weights(weights.version());
  worker.give(0, samples.inputs.data(), false);
  worker.give(1, samples.targets.data(), false);
  worker.run(shards, 7, of_all);
  std::vector<float> result{worker.numbers()[0]};
  worker.collect_gradients();
  device.has_changed(weights.version() + 1);
  device.bring_back();
  result.insert(result.end(), gradients.begin(), gradients.end());
  result.insert(result.end(), weights.parameters(), weights.parameters() + P::slots.parameter_floats);
  return result;
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == Approx(y).margin(1e-6); });
}

}  // namespace

TEST_CASE("shares of gradients are added up", "[parallel][resident_shards]") {
  const float gradients[2]{2, 4};
  float sum[2]{100, 100};
  for (const int i : {0, 1}) detail::AddShare{gradients, sum, 0.5f, true}(i);
  CHECK(sum[1] == 2);
  for (const int i : {0, 1}) detail::AddShare{gradients, sum, 0.25f, false}(i);
  CHECK(sum[0] == 1.5f);
  CHECK(sum[1] == 3);
}

TEST_CASE("pieces of a batch give what the whole does", "[parallel][resident_shards]") {
  const auto whole = after_step<WholeBatch>({.count = 1}, 7);
  CHECK(near(after_step<MicroBatches<3>>({.count = 3}, 7), whole));
  CHECK(near(after_step<MicroBatches<9>>({.count = 9}, 7), whole));  // more than there are samples
}

TEST_CASE("a worker has its part of the samples, and its share of the results", "[parallel][resident_shards]") {
  // Two workers with 4 and 3 samples: their losses are terms of the mean's sum, as are gradients of pieces.
  const auto whole = after_step<WholeBatch>({.count = 1}, 7);
  const auto first = after_step<MicroBatches<2>>({.count = 2, .worker = 0, .workers = 2}, 7),
             second = after_step<MicroBatches<2>>({.count = 2, .worker = 1, .workers = 2}, 7);
  for (std::size_t i = 0; i <= static_cast<std::size_t>(P::slots.parameter_floats); ++i)
    CHECK(first[i] + second[i] == Approx(whole[i]).margin(1e-6));
}
