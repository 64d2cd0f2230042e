// Two precisions.
// sound: nvcc
// expect: an input shape, or a policy of one kind, is given twice: leave one of them out
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Other = Float32;
#else
using Other = Cpu<>;
#endif

float first(const float* image) {
  static Model<Net, BFloat16, Other, Image<1, 28, 28>> model;
  return model(image).front();
}
