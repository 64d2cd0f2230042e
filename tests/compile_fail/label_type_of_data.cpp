// A data set with float targets, given to a trainer of classes.
// expect: the data set's element types do not fit
// expect: targets are std::int32_t labels for CrossEntropy
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net : Sequential<Flatten, Linear<784, 10>> {};

#ifdef FAULT
using Data = TensorDataset<float, float>;
#else
using Data = TensorDataset<float, std::int32_t>;
#endif

void train(const Data& data) {
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer;
  trainer.fit(DataLoader{data, {.batch_size = 32}}, {.epochs = 3});
}
