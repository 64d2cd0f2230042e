// Devices that run parts of one network have nothing to synchronise.
// expect: a synchronisation, but the devices of InterOpParallel compute each gradient once: leave it out
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = InterOpParallel<2>;
#else
using Strategy = DataParallel<2>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy, Ring>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
