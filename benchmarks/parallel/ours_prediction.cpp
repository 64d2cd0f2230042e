// Predicted and measured step times of two workers that meet in every step, and of ranks that are slow in turns; how
// long it takes to predict many. What it prints: prediction.hpp.
#include <tenet/parallel/parameter_server.hpp>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "prediction.hpp"

using namespace prediction;

namespace {

template <class Net>
void compare_some(const std::string& network, int batch, int steps, const StepTimeOptions& options) {
  compare(network, batch, steps, 6, options, Policy<Rank<Net>>{"Single"},
          Policy<Rank<Net, DataParallel<2>>>{"DataParallel<2>"},
          Policy<Rank<Net, DataParallel<2>, Ring>>{"DataParallel<2>, Ring"},
          Policy<Rank<Net, Distributed<Threads>>, Rank<Net, Distributed<Imagined>>>{"Distributed, AllReduce"});
}

struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

/// What `ours_staleness` measures: four ranks, 3 ms a step, in each step another one three times slower; seconds of 200
/// steps over those of bulk-synchronous ones.
void staleness(StepTimeOptions options) {
  const auto seconds = [&]<class Consistency>(std::type_identity<Consistency>) {
    using Predicted = Trainer<Small, CrossEntropy, Sgd, Features<32>, Cpu<0, 1>, Distributed<Imagined>,
                              ParameterServer<Sharded, Consistency>>;
    options.workers = 4;
    options.core_share = 0;  // they sleep instead of computing
    options.batch_of_worker = 4;
    options.seconds_of_steps = [](int) {  // slept, before the first one
      std::vector<double> steps = seconds_of_steps<typename Predicted::Training>(Machine{}, 4);
      steps[0] += 3e-3;
      return steps;
    };
    options.slowness = slow_in_turns(4, 3);
    options.steps = 200;
    return predict_step_time<Predicted>(options).step;
  };
  const double rounds = seconds(std::type_identity<BulkSynchronous>{});
  std::printf(", \"slow in turns\": {\"bounded\": %.6f, \"asynchronous\": %.6f}",
              rounds / seconds(std::type_identity<BoundedStaleness<8>>{}),
              rounds / seconds(std::type_identity<Asynchronous>{}));
}

/// Seconds that predicting a step of 16,384 ranks takes, the least of three times.
template <class... Policies>
double seconds_of_predicting(double jitter = 0) {
  using Predicted = Rank<LeNet, Distributed<Imagined>, Policies...>;
  StepTimeOptions options{.workers = 16384, .batch_of_worker = 32};
  if (jitter > 0) options.slowness = with_jitter(jitter);
  double best = 1e30;
  for (int time = 0; time < 3; ++time)
    best = std::min(best, seconds_of([&] { predict_step_time<Predicted>(options); }));
  return best;
}
void many_ranks() {
  std::printf(", \"16,384 workers\": {\"Ring\": %.4f, \"AllReduce\": %.4f, \"Ring, jitter\": %.4f}",
              seconds_of_predicting<Ring>(), seconds_of_predicting<AllReduce>(), seconds_of_predicting<Ring>(0.2));
}

}  // namespace

/// program [NETWORK]: one of them, or all.
int main(int argc, char** argv) {
  const auto is_wanted = [&](const char* network) { return argc < 2 || std::strcmp(argv[1], network) == 0; };
  const StepTimeOptions options = constants<LeNet>();
  if (is_wanted("LeNet")) {
    compare_some<LeNet>("LeNet, batch 32", 32, 300, options);
    compare_some<LeNet>("LeNet, batch 128", 128, 100, options);
  }
  if (is_wanted("ResNet-18")) compare_some<ResNet18<>>("ResNet-18, batch 16", 16, 4, constants<ResNet18<>>());
  staleness(options);
  many_ranks();
  std::printf("}\n");
}
