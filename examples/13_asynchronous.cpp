// Asynchronous steps: batches are prepared, and results taken, while the device trains on an earlier batch.
// test: --steps 40
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "common/images.hpp"
#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

constexpr int batch = 64;

/// The front end's work for a batch: images are drawn, turned and shifted a little, and made noisy.
class Augmented {
 public:
  explicit Augmented(const ByteImages& images) : images_(images) {}

  const float* inputs() const { return inputs_.data(); }
  const std::int32_t* labels() const { return labels_.data(); }

  /// The batch of one step, the same whenever it is prepared.
  void prepare(long step) {
    Random random(1, static_cast<std::uint64_t>(step));
    float image[784];
    for (std::size_t i = 0; i < batch; ++i) {
      images_.read(random.below(static_cast<std::uint32_t>(images_.size())), image, &labels_[i]);
      const float angle = random.uniform(-0.15f, 0.15f), down = random.uniform(-2, 2), right = random.uniform(-2, 2);
      turn(image, std::cos(angle), std::sin(angle), down, right, &inputs_[784 * i]);
      for (std::size_t at = 784 * i; at < 784 * (i + 1); ++at) inputs_[at] += 0.1f * random.normal();
    }
  }

 private:
  /// Each pixel comes from a place between four others.
  static void turn(const float* from, float cosine, float sine, float down, float right, float* to) {
    const auto pixel = [&](int y, int x) {
      return from[28 * (y < 0 ? 0 : y > 27 ? 27 : y) + (x < 0 ? 0 : x > 27 ? 27 : x)];
    };
    for (int row = 0; row < 28; ++row)
      for (int column = 0; column < 28; ++column) {
        const float v = static_cast<float>(row) - 13.5f, u = static_cast<float>(column) - 13.5f;
        const float y = 13.5f + down + cosine * v - sine * u, x = 13.5f + right + sine * v + cosine * u;
        const int top = static_cast<int>(std::floor(y)), left = static_cast<int>(std::floor(x));
        const float b = y - static_cast<float>(top), a = x - static_cast<float>(left);
        to[28 * row + column] = (1 - b) * ((1 - a) * pixel(top, left) + a * pixel(top, left + 1)) +
                                b * ((1 - a) * pixel(top + 1, left) + a * pixel(top + 1, left + 1));
      }
  }

  ByteImages images_;
  std::vector<float> inputs_ = std::vector<float>(784 * batch);
  std::vector<std::int32_t> labels_ = std::vector<std::int32_t>(batch);
};

/// What is done with a result: means over the last steps, about fifty.
struct Averages {
  double loss = 0, accuracy = 0;
  int count = 0;
  void take(const StepResult& result) {
    const double weight = 1.0 / std::min(++count, 50);
    loss += weight * (static_cast<double>(result.loss) - loss);
    accuracy += weight * (static_cast<double>(result.accuracy) - accuracy);
  }
};

/// Adds the time that call() takes.
void timed(double& seconds, auto call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on images that are augmented while it trains.",
                  {{"steps", "1500", "training steps"}});
  const int steps = options.integer("steps");
  Augmented images(ExampleImages::load().train);

  // The device has one worker, so that the front end has a core of its own where there are two.
  using Learner = Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<0, 1>>;
  Learner one{{.learning_rate = 0.05f, .momentum = 0.9f}}, queued{{.learning_rate = 0.05f, .momentum = 0.9f}};

  // One after the other: n · (t1 + t2 + t3).
  double t1 = 0, t2 = 0, t3 = 0, alone = 0;
  Averages expected;
  timed(alone, [&] {
    for (int step = 0; step < steps; ++step) {
      StepResult result;
      timed(t1, [&] { images.prepare(step); });
      timed(t2, [&] { result = one.step(images.inputs(), images.labels(), batch); });
      timed(t3, [&] { expected.take(result); });
    }
  });

  // step_async copies the batch and returns: the next one is prepared meanwhile. Results are taken as they come.
  double overlapped = 0;
  Averages found;
  timed(overlapped, [&] {
    std::deque<PendingStep> pending;
    for (int step = 0; step < steps; ++step) {
      images.prepare(step);
      pending.push_back(queued.step_async(images.inputs(), images.labels(), batch));
      for (; !pending.empty() && pending.front().ready(); pending.pop_front()) found.take(pending.front().get());
    }
    for (const PendingStep& step : pending) found.take(step.get());
  });

  const double bound = t1 / steps + t2 + t3 / steps;
  std::printf("a step: %.3f ms to prepare the batch, %.3f ms to train on it, %.5f ms to take the result\n",
              1e3 * t1 / steps, 1e3 * t2 / steps, 1e3 * t3 / steps);
  std::printf("%d steps one after the other: %.3f s; asynchronous: %.3f s; t1 + n t2 + t3 = %.3f s\n", steps, alone,
              overlapped, bound);
  const bool same = found.loss == expected.loss && found.accuracy == expected.accuracy;
  std::printf("loss %.4f, accuracy %.4f; the same both ways: %s\n", found.loss, found.accuracy, same ? "yes" : "NO");
  options.write_json(Json()
                         .add("same", same)
                         .add("seconds", alone)
                         .add("asynchronous_seconds", overlapped)
                         .add("bound_seconds", bound)
                         .text());
  return same ? 0 : 1;
}
