// Two independent towers of one network on two logical devices, and one after the other on one: prints
// {"network": {"one": seconds, "two": seconds}, …}. Every device has one thread.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>
#include <vector>

using namespace tenet;

struct LinearTower : Sequential<Linear<512, 1024>, ReLU, Linear<1024, 1024>, ReLU, Linear<1024, 512>, ReLU> {};
struct ConvTower : Sequential<Conv2d<3, 64, 3, Padding<1>>, ReLU, Conv2d<64, 64, 3, Padding<1>>, ReLU,
                              Conv2d<64, 64, 3, Padding<1>>, ReLU, GlobalAvgPool2d> {};

template <class Tower, int width>
struct Towers {
  Tower left, right;
  Linear<width, 10> head;
  constexpr auto forward(auto x) const { return head(left(x) + right(x)); }
};

namespace {

double seconds_of(auto call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A trainer and a batch.
template <class Net, class Input, class... Strategy>
struct Case {
  using Learner = Trainer<Net, CrossEntropy, PlainSgd, Input, Cpu<0, 1>, Strategy...>;
  int batch;
  Learner trainer{{.learning_rate = 1e-3f}};
  std::vector<float> inputs = std::vector<float>(static_cast<std::size_t>(batch * Input::size));
  std::vector<std::int32_t> targets = std::vector<std::int32_t>(static_cast<std::size_t>(batch));

  explicit Case(int samples) : batch(samples) {
    Random random(1, 0);
    for (float& x : inputs) x = random.uniform(-1, 1);
    for (std::int32_t& target : targets) target = static_cast<std::int32_t>(random.below(10));
  }
  void step() { trainer.step(inputs.data(), targets.data(), batch); }
  std::span<const float> predict() { return trainer.predict(inputs.data(), batch); }
  const float* parameters() { return trainer.weights().parameters(); }
};

template <class Net, class Input>
void measure(const char* name, int batch, bool first) {
  Case<Net, Input> one(batch);
  Case<Net, Input, InterOpParallel<2>> two(batch);
  for (int step = 0; step < 3; ++step) one.step(), two.step();
  const auto bytes = 4 * static_cast<std::size_t>(Weights<Net>::table.parameter_floats);
  const auto expected = one.predict(), found = two.predict();
  if (std::memcmp(one.parameters(), two.parameters(), bytes) != 0 ||
      std::memcmp(expected.data(), found.data(), expected.size_bytes()) != 0) {
    std::fprintf(stderr, "%s: two devices compute something else\n", name);
    std::exit(1);
  }
  const auto report = [&](const char* what, auto alone, auto together, bool comma) {
    double best[2] = {1e9, 1e9};
    for (int round = 0; round < 100; ++round) {  // in turns: other programs may disturb a few
      best[0] = std::min(best[0], seconds_of(alone));
      best[1] = std::min(best[1], seconds_of(together));
    }
    std::printf("%s\"%s, %s\": {\"one\": %.9f, \"two\": %.9f}", comma ? ", " : "{", name, what, best[0], best[1]);
  };
  report(
      "inference", [&] { one.predict(); }, [&] { two.predict(); }, !first);
  report(
      "training step", [&] { one.step(); }, [&] { two.step(); }, true);
}

}  // namespace

int main() {
  measure<Towers<LinearTower, 512>, Features<512>>("linear layers", 64, true);
  measure<Towers<ConvTower, 64>, Image<3, 32, 32>>("convolutions", 8, false);
  std::printf("}\n");
}
