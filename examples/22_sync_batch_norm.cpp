// Batch norm where each of eight devices has two images of a batch: with statistics of its own images, and with those
// of the whole batch. The latter is training on one device, up to rounding, and runs when no device has enough images.
// test: --images 1600 --epochs 1
#include <tenet/parallel/data_parallel.hpp>

#include "common/classify.hpp"
#include "common/json.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Conv2d<1, 8, 5, Stride<2>>, BatchNorm2d<8>, ReLU, Conv2d<8, 16, 3, Stride<2>>, BatchNorm2d<16>,
                        ReLU, Flatten, Linear<400, 10>> {};

struct Found {
  double accuracy = 0;
  std::vector<float> losses;  // of epochs
};

template <class... Policies>
Found train(const char* name, Options& options, const ExampleImages& images) {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Policies...> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f}, 1};
  const auto train_images = first(images.train, options.integer("images"));
  const FitReport fit =
      trainer.fit(DataLoader{train_images, RandomSampler(train_images.size()), {.batch_size = 16, .workers = 1}},
                  {.epochs = options.integer("epochs"), .schedule = CosineAnnealingLR{}, .progress = nullptr});
  Found found{trainer.evaluate(DataLoader{images.test, {.batch_size = 256}}).accuracy, {}};
  double seconds = 0;
  for (const EpochReport& epoch : fit.epochs) {
    found.losses.push_back(epoch.loss);
    seconds += epoch.seconds;
  }
  std::printf("%-42s loss %.4f   test accuracy %.4f   %.1f s\n", name, static_cast<double>(found.losses.back()),
              found.accuracy, seconds);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains a network with batch norm, 16 images in a batch, on one device and on eight.",
                  {{"images", "20000", "training images to use, 0 for all"},
                   {"epochs", "2", "passes over the training images"},
                   {"learning-rate", "0.02", "of SGD with momentum 0.9"}});
  const ExampleImages images = ExampleImages::load();
  const Found one = train<Cpu<0, 1>>("one device", options, images);
  const Found own = train<Cpu<0, 1>, DataParallel<8>>("eight, statistics of a device's two images", options, images);
  const Found synchronised = train<Cpu<0, 1>, DataParallel<8>, SyncBatchNorm>("eight, SyncBatchNorm", options, images);
  options.write_json(Json()
                         .add("accuracy_one", one.accuracy)
                         .add("accuracy_own", own.accuracy)
                         .add("accuracy_synchronised", synchronised.accuracy)
                         .add("loss_one", static_cast<double>(one.losses.back()))
                         .add("loss_synchronised", static_cast<double>(synchronised.losses.back()))
                         .text());
}
