// Train here, run there: the parameters go through a safetensors file into a Model, which has no gradients, no
// optimizer and no trainer; then one image at a time, timed.
// test: --images 500 --epochs 1 --calls 2000
#include <algorithm>
#include <chrono>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

/// Trains LeNet on drawn shapes and saves it. A program that only runs the network has no line of this.
void train(const std::string& path, int images, int epochs) {
  Trainer<LeNet, CrossEntropy, Adam, Image<1, 28, 28>> trainer;
  trainer.fit(DataLoader{GeneratedImages::train(images), {.batch_size = 32, .shuffle = true}}, {.epochs = epochs});
  trainer.save(path);
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains, saves, loads for inference, and measures the latency of one image.",
                  {{"images", "4000", "training images"},
                   {"epochs", "4", "passes over them"},
                   {"calls", "20000", "calls to time"},
                   {"file", "deployed.safetensors", "where the parameters go"}});
  train(options.text("file"), options.integer("images"), options.integer("epochs"));

  Model<LeNet, Image<1, 28, 28>, Cpu<0, 1>> model(
      options.text("file"));  // one thread: the least latency for small nets
  std::vector<float> image(28 * 28);
  std::int32_t label = 0;
  const auto images = GeneratedImages::test(1000);
  int right = 0;
  for (long i = 0; i < images.size(); ++i) {
    images.read(i, image.data(), &label);
    const std::span<const float> scores = model(image.data());
    right += std::max_element(scores.begin(), scores.end()) - scores.begin() == label;
  }

  std::vector<double> microseconds(static_cast<std::size_t>(options.integer("calls")));
  for (double& each : microseconds) {
    const auto begin = std::chrono::steady_clock::now();
    model(image.data());
    each = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  }
  std::sort(microseconds.begin(), microseconds.end());
  const auto at = [&](double share) {
    return microseconds[static_cast<std::size_t>(share * (microseconds.size() - 1.0))];
  };
  const double accuracy = right / static_cast<double>(images.size());
  std::printf("accuracy on %ld drawn images %.3f\n", images.size(), accuracy);
  std::printf("one image: %.1f us at least, %.1f in the median, 99.9 %% within %.1f\n", at(0), at(0.5), at(0.999));
  options.write_json(Json()
                         .add("accuracy", accuracy)
                         .add("minimum_us", at(0))
                         .add("median_us", at(0.5))
                         .add("p99_9_us", at(0.999))
                         .text());
}
