#include "tenet/optim/clip_grad_norm.hpp"

#include <cmath>
#include <functional>
#include <numeric>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/resident_ranks.hpp>
#include <tenet/parallel/resident_replicas.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>

#include "../support/far_device.hpp"
#include "../support/training_ranks.hpp"
#include "../support/update_rule.hpp"

using namespace tenet;

namespace {

/// By what the gradients of a step are to be multiplied; those of step 4 are 100 times as large as the others.
double factor_of(int step, double max_norm) {
  const double size = step == 4 ? 100 : 1;
  double sum = 0;
  for (const float g : network::numbers(update_rule::count, static_cast<std::uint64_t>(step))) sum += double{g} * g;
  return std::min(1.0, max_norm / (size * std::sqrt(sum) + 1e-6));
}

/// `clips`: in how many of six steps.
template <class Device>
void check_formula(float max_norm, int clips) {
  const Sgd sgd{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.3f};
  int found = 0;
  for (int step = 1; step <= 6; ++step) found += factor_of(step, max_norm) < 1;
  REQUIRE(found == clips);
  update_rule::check_on<ClipGradNorm<Sgd>, Device, UpdateAfterBackward>(
      {sgd, max_norm}, [&](update_rule::Number& number, double gradient, int step) {
        number.first = double{sgd.momentum} * number.first + gradient * factor_of(step, max_norm) +
                       double{sgd.weight_decay} * number.parameter;
        number.parameter -= double{sgd.learning_rate} * number.first;
      });
}

using Clipped = ClipGradNorm<Sgd>;
/// A norm that clips most steps of these networks.
constexpr Clipped clipped{{.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 0.01f}, 0.2f};

/// The same with these policies as on the reference device, and something else than without clipping.
template <class Net, class Input, class... Policies>
void check_same() {
  static constexpr auto floats = static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  const auto train = [](auto trainer) {
    const network::Samples<decltype(trainer)> samples(12);
    for (const int batch : {12, 7, 4, 12}) trainer.step(samples.inputs.data(), samples.targets.data(), batch);
    const float* const parameters = trainer.weights().parameters();
    return std::vector<float>(parameters, parameters + floats);
  };
  const auto expected = train(Trainer<Net, CrossEntropy, Clipped, Input, Reference>{clipped, 3}),
             found = train(Trainer<Net, CrossEntropy, Clipped, Input, Policies...>{clipped, 3}),
             without = train(Trainer<Net, CrossEntropy, Sgd, Input, Reference>{clipped, 3});
  network::check_close(found, std::vector<double>(expected.begin(), expected.end()), 1e-5);
  CHECK(std::inner_product(without.begin(), without.end(), expected.begin(), 0.0, std::plus{},
                           [](float a, float b) { return std::fabs(double{a} - b); }) > 0.1);
}
template <class... Policies>
void check_strategy() {
  check_same<networks::WholeRows, Features<16>, Policies...>();
}

template <class... Tags>
using Chosen = Policies<Features<4>, Tags...>;
using OnRanks = Distributed<ThreadWorld>;
using Two = DataParallel<2>;
static_assert(Chosen<>::updates_all_at_once && Chosen<Two>::updates_all_at_once);
static_assert(Chosen<Two, ParameterServer<>>::updates_all_at_once && Chosen<OnRanks>::updates_all_at_once);
static_assert(Chosen<OnRanks, LocalSgd<2>>::updates_all_at_once);
static_assert(Chosen<far::Device, Two>::updates_all_at_once);
static_assert(!Chosen<UpdateInBackward>::updates_all_at_once);
static_assert(!Chosen<OnRanks, ParameterServer<>>::updates_all_at_once);
static_assert(!Chosen<OnRanks, ShardedOptimizer>::updates_all_at_once);
static_assert(!Chosen<far::Device, Two, ParameterServer<>>::updates_all_at_once);

}  // namespace

TEST_CASE("gradients whose norm is too large become smaller by one factor") {
  check_formula<Reference>(5, 1);
  check_formula<Reference>(1, 6);
  check_formula<Cpu<0, 2>>(5, 1);
  check_formula<Cpu<0, 2>>(1, 6);
}

TEST_CASE("the norm is that of the whole batch's gradients, whoever computes them") {
  check_strategy<Cpu<0, 1>>();
  check_strategy<Cpu<0, 1>, MicroBatches<3>>();
  check_strategy<Cpu<0, 1>, Two>();
  check_strategy<Cpu<0, 1>, DataParallel<3>, Ring, BucketBytes<1000>>();
  check_strategy<Cpu<0, 1>, DataParallel<3>, MicroBatches<2>>();
  check_strategy<Reference, Two, ParameterServer<OnRank<1>>>();
  check_strategy<Cpu<0, 1>, Two, Reproducible>();
  check_strategy<Cpu<0, 1>, InterOpParallel<2>>();
  check_strategy<far::Device, MicroBatches<2>>();
  check_strategy<far::Device, Two>();
  check_same<networks::Residual, Image<2, 6, 5>, Cpu<0, 1>>();
  check_same<networks::Residual, Image<2, 6, 5>, far::Device, Two, SyncBatchNorm>();
}

TEST_CASE("ranks that clip train as one device with all samples") {
  using ranks::check_training;
  check_training<ranks::Threads, networks::WholeRows, CrossEntropy, Clipped, Features<16>, Cpu<0, 1>>({5, 2}, clipped);
  check_training<ranks::WithReplicas<ranks::Threads, 2>, networks::WholeRows, CrossEntropy, Clipped, Features<16>,
                 Cpu<0, 1>, Ring, BucketBytes<1000>>({4, 3, 5}, clipped);
  check_training<ranks::Threads, networks::WholeRows, CrossEntropy, Clipped, Features<16>, far::Device>({5, 2},
                                                                                                        clipped);
}
