// One training on two GPUs: each takes half of every batch, and gradients are added up between them while the backward
// pass goes on. Each updates its half of the parameters, and has the optimizer's state of that half alone; without the
// policy ParameterServer<Sharded> both have, and update, all of it, to the same numbers. Where there are not two, the
// same programs and kernels run on the processor, in memories that are closed to it meanwhile: slowly, but step by step
// what GPUs do.
// test: --images 600 --epochs 3 --batch-size 32
#include <tenet/cuda.hpp>
#include <tenet/data/resident.hpp>
#include <tenet/device/cuda_on_host.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/parameter_server.hpp>

#include "common/classify.hpp"
#include "models/lenet.hpp"

using namespace tenet;

template <class Device>
void train(Options& options, const char* where) {
  const ExampleImages images = ExampleImages::load();
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Device, DataParallel<2>, ParameterServer<Sharded>> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f, .weight_decay = 5e-4f}};
  std::printf("on two %s\n%s", where, trainer.summary().c_str());
  // Each has all images, and makes its part of a batch itself.
  const FitReport fit = trainer.fit(DataLoader{Resident{first(images.train, options.integer("images"))},
                                               {.batch_size = options.integer("batch-size"), .shuffle = true}},
                                    {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}});
  const Evaluation test =
      trainer.evaluate(DataLoader{Resident{first(images.test, options.integer("images"))}, {.batch_size = 256}});
  report(options, "LeNet", images.name, fit, test);
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on Fashion-MNIST on two GPUs.",
                  {{"epochs", "12", "passes over the training images"},
                   {"images", "0", "training and test images to use, 0 for all"},
                   {"batch-size", "128", "images in a step, of both GPUs together"},
                   {"learning-rate", "0.05", "at the start; it falls to zero along a cosine"}});
  if (gpu::device_count() >= 2)
    train<Cuda<0>>(options, "GPUs");
  else
    train<CudaOnHost<>>(options, "stand-ins for GPUs");
}
