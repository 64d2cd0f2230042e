// Two networks on two logical devices at once: each has its own workers, memory and queue. Batches are copied to one
// device, and from there to the other, while the host goes on.
// test: --steps 20
#include <array>
#include <chrono>
#include <tenet/exec/copy_async.hpp>

#include "common/images.hpp"
#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

constexpr int batch = 64;

struct Perceptron : Sequential<Flatten, Linear<784, 800>, ReLU, Linear<800, 10>> {};

/// One processor each, where there are two.
using First = Cpu<0, 1>;
using Second = Cpu<1, 1>;
template <class Net, class Device>
using TrainerOn = Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Device>;

/// Images and labels in the host's memory.
struct HostBatch {
  std::vector<float> images = std::vector<float>(784 * batch);
  std::vector<std::int32_t> labels = std::vector<std::int32_t>(batch);
  Event copied;  ///< until then they are the copy's

  void read(const ByteImages& from, long step) {
    for (std::size_t i = 0; i < batch; ++i)
      from.read((batch * step + static_cast<long>(i)) % from.size(), &images[784 * i], &labels[i]);
  }
};

/// The same in a device's memory. To mix those of two devices does not compile.
template <class Device>
struct BatchOn {
  DeviceArray<float, Device> images{784 * batch};
  DeviceArray<std::int32_t, Device> labels{batch};
};

double seconds_of(const auto& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains two networks on two devices of this processor at once.",
                  {{"steps", "300", "training steps of each"}});
  const int steps = options.integer("steps");
  const ByteImages images = ExampleImages::load().train;
  const Sgd settings{.learning_rate = 0.05f, .momentum = 0.9f};

  // One after the other, by the host's thread.
  TrainerOn<LeNet, First> lenet{settings};
  TrainerOn<Perceptron, Second> perceptron{settings};
  std::array<float, 2> expected{};
  const double alone = seconds_of([&] {
    HostBatch now;
    for (long step = 0; step < steps; ++step) {
      now.read(images, step);
      expected = {lenet.step(now.images.data(), now.labels.data(), batch).loss,
                  perceptron.step(now.images.data(), now.labels.data(), batch).loss};
    }
  });

  // Both at once. What is queued on a device runs there in its order, a copy between two in the order of both; so the
  // arrays may be written again by the next copies.
  TrainerOn<LeNet, First> queued_lenet{settings};
  TrainerOn<Perceptron, Second> queued_perceptron{settings};
  BatchOn<First> first;
  BatchOn<Second> second;
  std::array<PendingStep, 2> last;
  double queueing = 0;
  const double both = seconds_of([&] {
    std::array<HostBatch, 2> in_turns;
    for (long step = 0; step < steps; ++step) {
      HostBatch& here = in_turns[static_cast<std::size_t>(step % 2)];
      here.copied.wait();
      here.read(images, step);
      queueing += seconds_of([&] {
        copy_async(here.images, first.images);
        here.copied = copy_async(here.labels, first.labels);
        copy_async(first.images, second.images);
        const Event there = copy_async(first.labels, second.labels);
        last = {queued_lenet.step_async(first.images, first.labels, batch),
                queued_perceptron.step_async(second.images, second.labels, batch, there)};
      });
    }
    synchronize(First{});
    synchronize(Second{});
  });

  const bool same = last[0].get().loss == expected[0] && last[1].get().loss == expected[1];
  std::printf(
      "%d steps of each: %.3f s one after the other, %.3f s at once, of which the host took %.3f to queue them\n",
      steps, alone, both, queueing);
  std::printf("losses %.4f and %.4f, the same both ways: %s\n", static_cast<double>(expected[0]),
              static_cast<double>(expected[1]), same ? "yes" : "NO");
  options.write_json(Json()
                         .add("same", same)
                         .add("seconds", alone)
                         .add("seconds_at_once", both)
                         .add("seconds_to_queue", queueing)
                         .text());
  return same ? 0 : 1;
}
