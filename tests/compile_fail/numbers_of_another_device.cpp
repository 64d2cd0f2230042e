// A trainer takes arrays of its own device.
// expect: inputs or targets lie in the memory of another logical device: copy them to an array of the device that works
// expect: NumbersOfAnotherDevice<.*Cpu<1, ?1>.*Cpu<0, ?2>
// sound: clang
// sound: nvcc
#include <tenet/tenet.hpp>
//
#include <tenet/exec/copy_async.hpp>

using namespace tenet;

struct Net : Sequential<Linear<6, 3>> {};

void train(Trainer<Net, CrossEntropy, Sgd, Features<6>, Cpu<1, 1>>& trainer,
           const DeviceArray<float, Cpu<0, 2>>& inputs, const std::int32_t* labels) {
  DeviceArray<float, Cpu<1>> there(inputs.size());
  copy_async(inputs, there);
#ifdef FAULT
  trainer.step_async(inputs, labels, 32);
#else
  trainer.step_async(there, labels, 32);
#endif
}
