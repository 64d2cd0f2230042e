// A bound on memory that no way of computing values again keeps to: the message has both numbers.
// expect: MemoryBound<bytes>: the training step takes more bytes a sample even when it computes values again
// expect: Bytes<100
// expect: Least<
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

#ifdef FAULT
using Policy = MemoryBound<100>;
#else
using Policy = MemoryBound<100000>;
#endif

float loss(Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>, Policy>& trainer, const float* images, const int* labels) {
  return trainer.step(images, labels, 32).loss;
}
