// The worked example: a residual network from modules of one's own, with batch norm, trained on Fashion-MNIST, on one
// device or on several: the strategy is a policy, the network's code stays as it is.
// test: --images 64 --test-images 64 --epochs 1
// test: --images 64 --test-images 64 --epochs 1 --devices 2
#include <tenet/parallel/data_parallel.hpp>

#include "common/classify.hpp"
#include "models/resnet18.hpp"

using namespace tenet;

template <class Strategy>
void train(Options& options) {
  const ExampleImages images = ExampleImages::load();

  Trainer<ResNet18<>, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f, .weight_decay = 5e-4f}};
  const FitReport fit =
      trainer.fit(DataLoader{first(images.train, options.integer("images")),
                             {.batch_size = options.integer("batch-size"), .shuffle = true, .workers = 1}},
                  {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}});
  const Evaluation test =
      trainer.evaluate(DataLoader{first(images.test, options.integer("test-images")), {.batch_size = 64}});

  report(options, "ResNet-18", images.name, fit, test);
  if (!options.text("save").empty()) trainer.save(options.text("save"));
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains the ResNet-18 variant on Fashion-MNIST and tests it.",
                  {{"epochs", "10", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"test-images", "0", "test images to use, 0 for all"},
                   {"batch-size", "32", "images in a step"},
                   {"learning-rate", "0.02", "at the start; it falls to zero along a cosine"},
                   {"devices", "1", "1, 2 or 4: each has its share of the processors and of every batch"},
                   {"save", "", "safetensors file to save the parameters to"}});
  switch (options.integer("devices")) {
    case 1:
      return train<Single>(options), 0;
    case 2:
      return train<DataParallel<2>>(options), 0;
    case 4:
      return train<DataParallel<4>>(options), 0;
    default:
      std::fprintf(stderr, "--devices: 1, 2 or 4 expected, found %d\n", options.integer("devices"));
      return 2;
  }
}
