// The main job: a network that is a C++ type learns Fashion-MNIST.
// test: --images 2000 --epochs 1
#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST and tests it.",
                  {{"epochs", "12", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "64", "images in a step"},
                   {"learning-rate", "0.05", "at the start; it falls to zero along a cosine"},
                   {"save", "", "safetensors file to save the parameters to"}});
  const ExampleImages images = ExampleImages::load();

  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<>> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f, .weight_decay = 5e-4f}};
  const FitReport fit =
      trainer.fit(DataLoader{first(images.train, options.integer("images")),
                             {.batch_size = options.integer("batch-size"), .shuffle = true, .workers = 1}},
                  {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}});
  const Evaluation test = trainer.evaluate(DataLoader{images.test, {.batch_size = 256}});

  report(options, "LeNet", images.name, fit, test);
  if (!options.text("save").empty()) trainer.save(options.text("save"));
}
