// So do predictions.
// expect: inputs or targets lie in the memory of another logical device: copy them to an array of the device that works
// expect: NumbersOfAnotherDevice<.*Cpu<1, ?1>.*Cpu<0, ?2>
#include <tenet/tenet.hpp>
//
#include <tenet/exec/copy_async.hpp>

using namespace tenet;

struct Net : Sequential<Linear<6, 3>> {};

float score(Trainer<Net, CrossEntropy, Sgd, Features<6>, Cpu<1, 1>>& trainer,
            const DeviceArray<float, Cpu<0, 2>>& inputs) {
  DeviceArray<float, Cpu<1>> there(inputs.size());
  copy_async(inputs, there);
#ifdef FAULT
  return trainer.predict(inputs, 32).data[0];
#else
  return trainer.predict(there, 32).data[0];
#endif
}
