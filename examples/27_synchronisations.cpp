// Ways of keeping ranks in step, one after the other: the same network, images and loop, and other tags behind the
// optimizer. A table says how long an epoch takes, how far ahead of the slowest rank one may be, and what is learned.
// ranks: 2
// test: --images 2000 --epochs 2 --learning-rate 0.05
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hierarchical.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/parameter_server.hpp>

#include "common/images.hpp"
#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

namespace {

struct Given {
  const ExampleImages& images;
  int rank, ranks, train, epochs, batch_size;  // images in a step of one rank
  float learning_rate;
};

struct Results {
  std::vector<std::string> policies;
  std::vector<double> seconds_of_epoch, test_accuracy;
};

template <class... Policies>
void train(Results& results, const Given& given, const char* name, float share_of_rate = 1) {
  const auto images = first(given.images.train, given.train);
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Policies...> trainer{
      {.learning_rate = share_of_rate * given.learning_rate, .momentum = 0.9f, .weight_decay = 5e-4f}};
  const DistributedSampler share(RandomSampler(images.size()), given.rank, given.ranks);
  const FitReport fit = trainer.fit(DataLoader{images, share, {.batch_size = given.batch_size, .workers = 1}},
                                    {.epochs = given.epochs, .schedule = CosineAnnealingLR{}, .progress = nullptr});
  trainer.synchronize();  // all have come to their end, and have the same parameters
  if (given.rank != 0) return;
  const Evaluation test = trainer.evaluate(DataLoader{given.images.test, {.batch_size = 256}});
  double seconds = fit.epochs.front().seconds;
  for (const EpochReport& epoch : fit.epochs) seconds = std::min(seconds, epoch.seconds);
  std::printf("%-44s %10.2f %14.4f\n", name, seconds, test.accuracy);
  std::fflush(stdout);
  results.policies.push_back(name);
  results.seconds_of_epoch.push_back(seconds);
  results.test_accuracy.push_back(test.accuracy);
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Options options(argc, argv, "Trains LeNet on all ranks that mpirun starts, kept in step in several ways.",
                  {{"epochs", "4", "passes over the training images, each way"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "32", "images in a step of one rank"},
                   {"learning-rate", "0.02", "at the start; it falls to zero along a cosine"}});
  const ExampleImages images = ExampleImages::load();
  const Given given{images,
                    mpi.rank(),
                    mpi.size(),
                    options.integer("images"),
                    options.integer("epochs"),
                    options.integer("batch-size"),
                    options.number("learning-rate")};
  if (given.rank == 0)
    std::printf("LeNet on %s, %d ranks\n%-44s %10s %14s\n", images.name, mpi.size(), "policies", "s an epoch",
                "test accuracy");

  // Gradients are added up in each step: by the way that takes least time, by a ring, inside of machines first.
  Results results;
  train<Distributed<Mpi>>(results, given, "AllReduce");
  train<Distributed<Mpi>, Ring>(results, given, "Ring");
  train<Distributed<Mpi>, Hierarchical<AllReduce, Ring>>(results, given, "Hierarchical<AllReduce, Ring>");
  // Each rank has two devices, which share its parameters.
  train<Distributed<Mpi, DataParallel<2>>>(results, given, "Distributed<Mpi, DataParallel<2>>");
  // Four steps alone, then the mean of the parameters: ranks, or machines whose ranks add up gradients in each step.
  train<Distributed<Mpi>, LocalSgd<4>>(results, given, "LocalSgd<4>");
  train<Distributed<Mpi>, Hierarchical<AllReduce, LocalSgd<4>>>(results, given, "Hierarchical<AllReduce, LocalSgd<4>>");
  // Parameters on servers, a part on each rank; nobody waits for anybody. Each rank's step is an update of its own,
  // where there was one of the mean gradient of all: so it is to be that much smaller.
  train<Distributed<Mpi>, ParameterServer<Sharded, Asynchronous>>(
      results, given, "ParameterServer<Sharded, Asynchronous>", 1.0f / static_cast<float>(given.ranks));
  if (given.rank != 0) return 0;
  options.write_json(Json()
                         .add("policies", results.policies)
                         .add("seconds_of_epoch", results.seconds_of_epoch)
                         .add("test_accuracy", results.test_accuracy)
                         .text());
}
