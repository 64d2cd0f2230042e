// The worked example: a residual network from modules of one's own, with batch norm, trained on Fashion-MNIST.
// test: --images 64 --test-images 64 --epochs 1
#include "common/classify.hpp"
#include "models/resnet18.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains the ResNet-18 variant on Fashion-MNIST and tests it.",
                  {{"epochs", "10", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"test-images", "0", "test images to use, 0 for all"},
                   {"batch-size", "32", "images in a step"},
                   {"learning-rate", "0.02", "at the start; it falls to zero along a cosine"},
                   {"save", "", "safetensors file to save the parameters to"}});
  const ExampleImages images = ExampleImages::load();

  Trainer<ResNet18<>, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{
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
