// A small network of the package learns the exclusive or.
#include <cstdio>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Xor : Sequential<Linear<2, 8>, Tanh, Linear<8, 2>> {};

int main() {
  const float inputs[]{0, 0, 0, 1, 1, 0, 1, 1};
  const std::int32_t labels[]{0, 1, 1, 0};

  Trainer<Xor, CrossEntropy, Adam, Features<2>> trainer{{.learning_rate = 0.05f}};
  const float first = trainer.step(inputs, labels, 4).loss;
  std::printf("step   1: loss %.4f\n", static_cast<double>(first));
  StepResult last;
  for (int step = 2; step <= 200; ++step) {
    last = trainer.step(inputs, labels, 4);
    if (step % 50 == 0) std::printf("step %3d: loss %.4f\n", step, static_cast<double>(last.loss));
  }
  return last.loss < 0.1f * first && last.accuracy == 1.0f ? 0 : 1;
}
