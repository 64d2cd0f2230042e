// Hogwild!: two logical devices of one machine train common parameters, each with its own images, and neither waits for
// the other. Without the tags `DataParallel<2>, Hogwild<32>` it is the training of one device. With --processes 1 they
// are the processes that tools/processes.sh has started.
// test: --images 2000 --epochs 1
#include <tenet/comm/shared_memory.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hogwild.hpp>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

namespace {

/// `sampler` gives the images of this process; `speaks` says whether it reports.
template <class Strategy>
void run(Options& options, const ExampleImages& images, auto sampler, bool speaks) {
  const auto train = first(images.train, options.integer("images"));
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy, Hogwild<32>> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.5f, .weight_decay = 5e-4f}};
  if (speaks) std::fputs(trainer.summary().c_str(), stderr);
  const FitReport fit = trainer.fit(
      DataLoader{train, sampler(train.size()), {.batch_size = options.integer("batch-size"), .workers = 1}},
      {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}, .progress = speaks ? stderr : nullptr});
  trainer.synchronize();  // processes wait for each other here, and only here
  if (!speaks) return;
  const Evaluation test = trainer.evaluate(DataLoader{images.test, {.batch_size = 256}});
  report(options, "LeNet", images.name, fit, test);
}

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST by two devices without locks.",
                  {{"epochs", "4", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "2048", "images between two meetings of the devices; an update takes 32"},
                   {"learning-rate", "0.03", "at the start; it falls to zero along a cosine"},
                   {"processes", "0", "1: this is one of the processes that tools/processes.sh has started"}});
  const ExampleImages images = ExampleImages::load();
  if (options.integer("processes") != 0) {
    const int rank = SharedMemory::rank(), ranks = SharedMemory::size();
    const auto share = [&](auto count) { return DistributedSampler(RandomSampler(count), rank, ranks); };
    run<Distributed<SharedMemory>>(options, images, share, rank == 0);
  } else {
    run<DataParallel<2>>(
        options, images, [](auto count) { return RandomSampler(count); }, true);
  }
}
