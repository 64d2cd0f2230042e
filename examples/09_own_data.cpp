// Data of one's own: a data set is a struct with size, layout and read; transforms, batches and workers come with it.
// test: --epochs 3
#include <cmath>
#include <tenet/data/transform.hpp>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"

using namespace tenet;

/// Points on three spirals, computed when they are asked for. Workers call `read` at the same time, so it is const.
class Spirals {
 public:
  using Input = float;  // optional: with these, a network that takes other types does not compile
  using Target = std::int32_t;

  Spirals(long count, std::uint64_t seed) : count_(count), seed_(seed) {}

  long size() const { return count_; }
  const SampleLayout& layout() const { return layout_; }
  void read(long index, void* input, void* target) const {
    Random random(seed_, static_cast<std::uint64_t>(index));  // a sample depends on its number alone
    const int arm = static_cast<int>(index % 3);
    const float radius = random.uniform(0.2f, 2.0f), angle = 2 * radius + 2.0944f * static_cast<float>(arm);
    float* const point = static_cast<float*>(input);
    point[0] = radius * std::cos(angle);
    point[1] = radius * std::sin(angle);
    *static_cast<std::int32_t*>(target) = arm;
  }

 private:
  SampleLayout layout_{{2}, DataKind::float32, {}, DataKind::int32};  // two numbers and one label
  long count_;
  std::uint64_t seed_;
};

struct Net : Sequential<Linear<2, 64>, Tanh, Linear<64, 64>, Tanh, Linear<64, 3>> {};

/// A number that differs if one bit of one batch does.
double checksum(auto& loader) {
  double sum = 0;
  for (const Batch& batch : loader.epoch(1))
    for (const float x : batch.inputs()) sum = 0.999 * sum + x;
  return sum;
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains on a data set of one's own.",
                  {{"epochs", "20", "passes over 3000 points"}, {"workers", "2", "threads that read"}});
  // A transform changes samples in place. With a second argument it draws numbers, others in every epoch: augmentation.
  const auto jitter = [](const SampleView& sample, Random& random) {
    for (float& x : sample.input()) x += 0.02f * random.normal();
  };
  const Map train{Map{Spirals(3000, 1), jitter}, Normalize{.mean = {0}, .deviation = {0.7f}}};
  const Map test{Spirals(600, 2), Normalize{.mean = {0}, .deviation = {0.7f}}};

  DataLoader alone{train, {.batch_size = 50, .shuffle = true, .workers = 0, .seed = 3}};
  DataLoader shared{train, {.batch_size = 50, .shuffle = true, .workers = options.integer("workers"), .seed = 3}};
  const bool same = checksum(alone) == checksum(shared);
  std::printf("the same batches whatever the number of workers: %s\n", same ? "yes" : "NO");

  Trainer<Net, CrossEntropy, Adam, Features<2>> trainer{{.learning_rate = 5e-3f}};
  trainer.fit(shared, {.epochs = options.integer("epochs")});
  const Evaluation found = trainer.evaluate(DataLoader{test, {.batch_size = 100}});
  std::printf("accuracy on %ld other points: %.3f\n", found.samples, found.accuracy);
  options.write_json(Json().add("same_batches", same).add("test_accuracy", found.accuracy).text());
  return same ? 0 : 1;
}
