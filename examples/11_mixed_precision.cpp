// The same network in single and in mixed precision: one policy, activations kept in two bytes, the same accuracy.
// test: --images 2000 --epochs 1
#include <tenet/tenet.hpp>

#include "common/images.hpp"
#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

struct Found {
  double accuracy = 0, loss = 0, seconds = 0, megabytes = 0;
};

template <class Precision>
Found train(Options& options, const ExampleImages& images, const char* name) {
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Precision> trainer{
      {.learning_rate = 0.05f, .momentum = 0.9f, .weight_decay = 5e-4f}, 1};
  FitOptions fit;
  fit.epochs = options.integer("epochs");
  fit.schedule = CosineAnnealingLR{};
  fit.progress = nullptr;
  Found found;
  for (const EpochReport& epoch : trainer
                                      .fit(DataLoader{first(images.train, options.integer("images")),
                                                      {.batch_size = 64, .shuffle = true, .workers = 1, .seed = 1}},
                                           fit)
                                      .epochs)
    found.seconds += epoch.seconds;
  const Evaluation test = trainer.evaluate(DataLoader{images.test, {.batch_size = 256}});
  found.accuracy = test.accuracy;
  found.loss = test.loss;
  found.megabytes = static_cast<double>(trainer.activation_floats()) * 4e-6;
  std::printf("%s: %.1f s, %.2f MB of activations, test loss %.4f, test accuracy %.4f\n", name, found.seconds,
              found.megabytes, found.loss, found.accuracy);
  return found;
}

int main(int argc, char** argv) {
  Options options(
      argc, argv, "Trains LeNet on Fashion-MNIST in single and in mixed precision.",
      {{"epochs", "6", "passes over the training images"}, {"images", "0", "training images to use, 0 for all"}});
  const ExampleImages images = ExampleImages::load();
  const Found single = train<Float32>(options, images, "Float32 "),
              mixed = train<BFloat16>(options, images, "BFloat16");
  options.write_json(Json()
                         .add("float32_accuracy", single.accuracy)
                         .add("bfloat16_accuracy", mixed.accuracy)
                         .add("float32_megabytes", single.megabytes)
                         .add("bfloat16_megabytes", mixed.megabytes)
                         .text());
}
