// The same program on the processor and on a GPU: one template argument of the trainer.
// test: --device cpu --images 2000 --epochs 1
#include <tenet/cuda.hpp>
#include <tenet/data/resident.hpp>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

template <class Device>
void train(Options& options) {
  const ExampleImages images = ExampleImages::load();
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Device> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f, .weight_decay = 5e-4f}};
  // On a GPU the images stay there, and steps copy in which of them they want; on the processor they are read as ever.
  const FitReport fit =
      trainer.fit(DataLoader{Resident{first(images.train, options.integer("images"))},
                             {.batch_size = options.integer("batch-size"), .shuffle = true, .workers = 1}},
                  {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}});
  const Evaluation test = trainer.evaluate(DataLoader{Resident{images.test}, {.batch_size = 256}});
  report(options, "LeNet", images.name, fit, test);
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST on the processor or on a GPU.",
                  {{"device", "", "cpu or cuda; without it a GPU if there is one"},
                   {"epochs", "12", "passes over the training images"},
                   {"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "64", "images in a step"},
                   {"learning-rate", "0.05", "at the start; it falls to zero along a cosine"}});
  std::string device = options.text("device");
  if (device.empty()) device = gpu::device_count() > 0 ? "cuda" : "cpu";
  if (device != "cpu" && device != "cuda") fail("--device", "no such device", "cpu or cuda", device);
  std::printf("on %s\n", device.c_str());
  if (device == "cuda")
    train<Cuda<0>>(options);
  else
    train<Cpu<>>(options);
}
