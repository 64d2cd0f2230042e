// Parameter servers: the parameters lie on the ranks, a part on each; every rank pushes its gradients, and trains on
// without waiting for the others, as long as it is not more than three steps ahead of the slowest one. The network and
// the loop are those of one process; exchange `BoundedStaleness<3>` for `BulkSynchronous` or `Asynchronous`.
// ranks: 2
// test: --images 2000 --epochs 1 --slow 2
#include <chrono>
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <thread>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST with parameter servers on all ranks that mpirun starts.",
                  {{"epochs", "6", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "32", "images in a step of one rank"},
                   {"learning-rate", "0.02", "at the start; it falls to zero along a cosine"},
                   {"slow", "0", "milliseconds that the last rank sleeps after each fifth step"}});
  const ExampleImages images = ExampleImages::load();
  const auto train = first(images.train, options.integer("images"));

  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<Mpi>, ParameterServer<Sharded, BoundedStaleness<3>>>
      trainer{{.learning_rate = options.number("learning-rate"), .momentum = 0.5f, .weight_decay = 5e-4f}};
  const DistributedSampler share(RandomSampler(train.size()), mpi.rank(), mpi.size());
  const bool speaks = mpi.rank() == 0, sleeps = options.integer("slow") > 0 && mpi.rank() + 1 == mpi.size();
  const FitReport fit =
      trainer.fit(DataLoader{train, share, {.batch_size = options.integer("batch-size"), .workers = 1}},
                  {.epochs = options.integer("epochs"),
                   .schedule = CosineAnnealingLR{},
                   .on_step =
                       [&](long step, const StepResult&) {
                         if (sleeps && step % 5 == 0)
                           std::this_thread::sleep_for(std::chrono::milliseconds(options.integer("slow")));
                       },
                   .progress = speaks ? stderr : nullptr});
  trainer.synchronize();  // all have come to their end, and have the same parameters
  if (!speaks) return 0;

  const Evaluation test = trainer.evaluate(DataLoader{images.test, {.batch_size = 256}});
  std::printf("%d ranks: ", mpi.size());
  report(options, "LeNet", images.name, fit, test);
}
