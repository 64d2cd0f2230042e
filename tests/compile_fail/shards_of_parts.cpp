// Devices that run parts of one network run each batch whole.
// expect: the devices of InterOpParallel run each batch whole, and give the bits of one device
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Strategy = InterOpParallel<2>;
#else
using Strategy = DataParallel<2>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Strategy, MicroBatches<4>>& trainer, const float* images,
           const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
