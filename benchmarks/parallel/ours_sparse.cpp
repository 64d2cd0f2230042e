// A sparse model of 10^7 parameters on one thread and on two without locks: prints {"serial": seconds of an epoch, …}.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

namespace {

constexpr int rows = 1'250'000, width = 8, words = 32, samples = 1 << 16, of_update = 64, of_step = 1 << 14;

/// Whether a reader clicks: the mean of what its words stand for, and what is linear in it.
template <class... Options>
struct Clicks {
  Embedding<rows, width, Options...> table;
  Linear<width, 2> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(table(tokens))); }
};
using Serial = Trainer<Clicks<Sparse>, CrossEntropy, PlainSgd, Tokens<words>, Cpu<0, 1>>;
using Dense = Trainer<Clicks<>, CrossEntropy, PlainSgd, Tokens<words>, Cpu<0, 1>>;
template <int replicas>
using Wild = Trainer<Clicks<Sparse>, CrossEntropy, PlainSgd, Tokens<words>, Cpu<0, 1>, DataParallel<replicas>,
                     Hogwild<of_update>>;

/// Words of which low ones are common, as in texts: a sixth of a sample's are among the first thousandth of the table.
/// Each stands for a yes or a no; more than half of a sample's words stand for what its class is.
struct Samples {
  std::vector<std::int32_t> tokens, classes;
  Samples() {
    Random random(1, 2);
    for (int i = 0; i < samples; ++i) {
      const auto yes = static_cast<std::int32_t>(random.below(2));
      classes.push_back(yes);
      for (int k = 0; k < words; ++k) {
        const float x = random.uniform(), square = x * x;
        const auto pair = static_cast<std::int32_t>(square * square * static_cast<float>(rows / 2));
        tokens.push_back(2 * pair + (random.uniform() < 0.3f ? yes : static_cast<std::int32_t>(random.below(2))));
      }
    }
  }
};

struct Found {
  double seconds = 1e30, loss = 0;
};

/// The best time of an epoch, and the mean loss of the last one.
template <class Trainer>
Found train(const Samples& data, int batch, int epochs) {
  Trainer trainer{{.learning_rate = 1.0f}, 3};
  Found found;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    double sum = 0;
    for (int first = 0; first < samples; first += batch)
      sum += static_cast<double>(batch) *
             trainer.step(data.tokens.data() + long{first} * words, data.classes.data() + first, batch).loss;
    found.loss = sum / samples;
    found.seconds =
        std::min(found.seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return found;
}

/// The best time of a step, of so many.
template <class Trainer>
double step_seconds(const Samples& data, int steps) {
  Trainer trainer{{.learning_rate = 1.0f}, 3};
  double best = 1e30;
  for (int step = 0; step < steps; ++step) {
    const int first = step * of_update;
    const auto begin = std::chrono::steady_clock::now();
    trainer.step(data.tokens.data() + long{first} * words, data.classes.data() + first, of_update);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

}  // namespace

int main() {
  const Samples data;
  constexpr int epochs = 4;
  Found serial, one, two;
  for (int round = 0; round < 3; ++round) {  // in turns
    const auto keep = [](Found& best, const Found& found) {
      best = {std::min(best.seconds, found.seconds), found.loss};
    };
    keep(serial, train<Serial>(data, of_update, epochs));
    keep(one, train<Wild<1>>(data, of_step, epochs));
    keep(two, train<Wild<2>>(data, of_step, epochs));
  }
  std::printf(
      "{\"serial\": %.6f, \"one\": %.6f, \"two\": %.6f, \"serial_loss\": %.6f, \"one_loss\": %.6f, \"two_loss\": "
      "%.6f, \"sparse_step\": %.9f, \"dense_step\": %.9f}\n",
      serial.seconds, one.seconds, two.seconds, serial.loss, one.loss, two.loss, step_seconds<Serial>(data, 200),
      step_seconds<Dense>(data, 20));
}
