// ResNet-18 in bf16 on Fashion-MNIST, until its test accuracy is what is asked for: seconds from the request on, the
// reading of the data set and the start of the GPU included; and the accuracy that was reached.
#include <chrono>
#include <tenet/data/resident.hpp>

#include "../../examples/common/images.hpp"
#include "../../examples/models/resnet18.hpp"
#include "gpu.hpp"

using namespace tenet;

#if defined(TENET_BENCH_ON_HOST)
constexpr long most_images = 8;
constexpr int batch = 4;
#else
constexpr long most_images = 60000;
constexpr int batch = 512;
#endif

/// Trains for `epochs` at most; the learning rate rises during the first fifth, and falls to zero at their end.
std::vector<double> train_until(double accuracy, int epochs) {
  const auto begin = std::chrono::steady_clock::now();
  const ExampleImages images = ExampleImages::load();
  Trainer<ResNet18<>, CrossEntropy, Sgd, Image<1, 28, 28>, Gpu, BFloat16, CudnnBenchmark> trainer{
      {.learning_rate = 0.2f, .momentum = 0.9f, .weight_decay = 5e-4f}};
  DataLoader training{Resident{Map{Map{first(images.train, most_images), RandomCrop{.padding = 2}}, RandomFlip{}}},
                      {.batch_size = batch, .shuffle = true, .seed = 1}};
  DataLoader testing{Resident{first(images.test, most_images)}, {.batch_size = batch}};
  double reached = 0;
  FitOptions options{.epochs = std::min(epochs, static_cast<int>(most_images / batch)), .progress = nullptr};
  options.schedule = [](const TrainingPosition& at) {
    const float part = static_cast<float>(at.step) / static_cast<float>(at.total_steps);
    return part < 0.2f ? 5 * part : (1 - part) / 0.8f;
  };
  options.stop_after = [&](const EpochReport&) {
    reached = trainer.evaluate(testing).accuracy;
    return reached >= accuracy;
  };
  trainer.fit(training, options);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), reached};
}

int main() {
  const auto no_time = [](long) { return 0.0; };
  return serve({{"0.92", [] { return train_until(0.92, 6); }, no_time},
                {"0.94", [] { return train_until(0.94, 20); }, no_time}});
}
