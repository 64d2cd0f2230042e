// One training on several processes, here or on several machines: each rank reads its share of the images, and all of
// them keep the same parameters. The network and the loop are those of one process. With --reproducible 1 the file that
// it saves is the same to the bit on 1, 2, 4 and 8 ranks; with --sharded-optimizer 1 each rank keeps its part of the
// optimizer's state.
// ranks: 2
// test: --images 2000 --epochs 1
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

namespace {

template <class... Policies>
void run(Options& options, const MpiEnvironment& mpi) {
  const ExampleImages images = ExampleImages::load();
  const auto train = first(images.train, options.integer("images"));

  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Distributed<Mpi>, Policies...> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f, .weight_decay = 5e-4f}};
  const int batch = (options.integer("batch-size") + mpi.size() - 1) / mpi.size();
  // Ranks' batches together are those of one process: `batch` images for each in turn.
  const DistributedSampler share(RandomSampler(train.size()), mpi.rank(), mpi.size(), batch);
  const bool speaks = mpi.rank() == 0;
  const auto save = [&](const EpochReport&) {
    if (speaks && !options.text("save").empty()) trainer.save(options.text("save"));
  };
  const FitReport fit = trainer.fit(DataLoader{train, share, {.batch_size = batch, .workers = 1}},
                                    {.epochs = options.integer("epochs"),
                                     .schedule = CosineAnnealingLR{},
                                     .on_epoch = save,
                                     .progress = speaks ? stderr : nullptr});
  if (!speaks) return;  // all ranks have the same parameters: one of them is enough from here on

  const Evaluation test = trainer.evaluate(DataLoader{images.test, {.batch_size = 256}});
  std::printf("%d ranks: ", mpi.size());
  report(options, "LeNet", images.name, fit, test);
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST on all ranks that mpirun starts, and tests it.",
                  {{"epochs", "6", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "64", "images in a step, on all ranks together"},
                   {"learning-rate", "0.05", "at the start; it falls to zero along a cosine"},
                   {"reproducible", "0", "1: the same bits on any number of ranks, for some more time"},
                   {"sharded-optimizer", "0", "1: the optimizer's state lies on all ranks in parts"},
                   {"save", "", "safetensors file to save the parameters to, after each epoch"}});
  if (options.integer("reproducible") != 0)
    run<Reproducible>(options, mpi);
  else if (options.integer("sharded-optimizer") != 0)
    run<ShardedOptimizer>(options, mpi);
  else
    run<>(options, mpi);
}
