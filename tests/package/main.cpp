// A user's program: it includes the library, trains a small network, and runs it.
#include <cmath>
#include <cstdio>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Curve : Sequential<Linear<1, 16>, Tanh, Linear<16, 1>> {};

int main() {
  float x[32], y[32];
  for (int i = 0; i < 32; ++i) {
    x[i] = static_cast<float>(i) / 8.0f - 2.0f;
    y[i] = std::sin(x[i]);
  }
  Trainer<Curve, MeanSquaredError, Adam, Features<1>> trainer{{.learning_rate = 0.02f}};
  const float first = trainer.step(x, y, 32).loss;
  float last = first;
  for (int step = 2; step <= 300; ++step) {
    last = trainer.step(x, y, 32).loss;
    if (step % 100 == 0)
      std::printf("step %d: loss %.5f (first %.5f)\n", step, static_cast<double>(last), static_cast<double>(first));
  }
  const float one = 1.0f;
  std::printf("sin(1) = %.3f\n", static_cast<double>(trainer.predict(&one, 1)[0]));
  return last < 0.02f * first ? 0 : 1;
}
