// An option of fit that does not exist.
// sound: nvcc
// expect: FitOptions
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

int main() {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer;
  DataLoader loader{GeneratedImages::train(), {.batch_size = 32}};
#ifdef FAULT
  trainer.fit(loader, {.epoch = 3});
#else
  trainer.fit(loader, {.epochs = 3});
#endif
}
