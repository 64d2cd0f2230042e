// Class labels of a queued step given as float.
// expect: the element types of inputs or targets do not fit
// expect: targets are std::int32_t labels for CrossEntropy
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Label = float;
#else
using Label = std::int32_t;
#endif

void train(const float* images, const Label* labels) {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer;
  trainer.step_async(images, labels, 32);
}
