// Predicted and measured step times of two ranks, by synchronisation. What it prints: prediction.hpp.
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>

#include "../../examples/models/lenet.hpp"
#include "prediction.hpp"

using namespace prediction;

namespace {

/// Steps that do not end with what they have sent, or do so now and then, are measured several at a time.
constexpr int several = 8;

template <class Synchronisation>
using Between =
    Policy<Rank<LeNet, Distributed<Threads>, Synchronisation>, Rank<LeNet, Distributed<Imagined>, Synchronisation>>;
using Replicas =
    Policy<Rank<LeNet, Distributed<Threads, DataParallel<2>>>, Rank<LeNet, Distributed<Imagined, DataParallel<2>>>>;

void compare_all(const std::string& network, int batch, int steps, int rounds, const StepTimeOptions& options) {
  compare(
      network, batch, steps, rounds, options, Between<Ring>{"Distributed, Ring"},
      Between<LocalSgd<4>>{"Distributed, LocalSgd<4>", several},
      Between<ShardedOptimizer>{"Distributed, ShardedOptimizer", several},
      Between<ParameterServer<>>{"Distributed, ParameterServer<>", several},
      Between<ParameterServer<OnRank<0>>>{"Distributed, ParameterServer<OnRank<0>>", several},
      Between<ParameterServer<Sharded, BoundedStaleness<4>>>{
          "Distributed, ParameterServer<Sharded, BoundedStaleness<4>>", several},
      Between<ParameterServer<Sharded, Asynchronous>>{"Distributed, ParameterServer<Sharded, Asynchronous>", several},
      Between<Reproducible>{"Distributed, Reproducible"}, Replicas{"Distributed<World, DataParallel<2>>, one rank"},
      Policy<Rank<LeNet, Distributed<Threads>, Hogwild<8>>>{"Distributed, Hogwild<8>", several});
}

}  // namespace

/// program [ROUNDS [STEPS]]
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 6, steps = argc > 2 ? std::atoi(argv[2]) : 300;
  const StepTimeOptions options = constants<LeNet>();
  compare_all("LeNet, batch 32", 32, steps, rounds, options);
  compare_all("LeNet, batch 128", 128, steps / 3, rounds, options);
  std::printf("}\n");
}
