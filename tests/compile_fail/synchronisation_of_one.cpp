// A synchronisation needs more than one device.
// expect: a synchronisation, but only one device: add a strategy such as DataParallel<2>, or leave it out
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = Single;
#else
using Strategy = DataParallel<2>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy, Ring>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
