// Hogwild!: two logical devices of one machine train common parameters, each with its own images, and neither waits for
// the other. Without the tags `DataParallel<2>, Hogwild<32>` it is the training of one device.
// test: --images 2000 --epochs 1
#include <tenet/parallel/hogwild.hpp>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST by two devices without locks.",
                  {{"epochs", "4", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "2048", "images between two meetings of the devices; an update takes 32"},
                   {"learning-rate", "0.03", "at the start; it falls to zero along a cosine"}});
  const ExampleImages images = ExampleImages::load();
  const auto train = first(images.train, options.integer("images"));

  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, DataParallel<2>, Hogwild<32>> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.5f, .weight_decay = 5e-4f}};
  std::fputs(trainer.summary().c_str(), stderr);
  const FitReport fit = trainer.fit(
      DataLoader{train, RandomSampler(train.size()), {.batch_size = options.integer("batch-size"), .workers = 1}},
      {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}, .progress = stderr});
  const Evaluation test = trainer.evaluate(DataLoader{images.test, {.batch_size = 256}});
  report(options, "LeNet", images.name, fit, test);
}
