// A program for a batch of one is a single function, whose steps cannot be told apart.
// expect: Timeline records step by step, but a program for a batch of one is a single function
#include <tenet/tenet.hpp>
#include <tenet/train/timeline.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using OneSample = OneSampleAlways;
#else
using OneSample = OneSampleNever;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, OneSample, Timeline<>>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 1).loss;
}
