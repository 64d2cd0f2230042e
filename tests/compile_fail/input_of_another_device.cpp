// A network runs on the tensors of its own device.
// expect: tensors of two devices meet in one operation: copy one of them to the other's device first, a \+ net.tensor\(b\)
// expect: DevicesDiffer<.*Cpu<0, ?1>.*Reference
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Linear<4, 3> layer;
  constexpr auto forward(auto x) const { return layer(x); }
};

void backward(Imperative<Net, Cpu<0, 1>>& net, Imperative<Net, Reference>& other, const float* numbers) {
  const auto x = other.tensor<Features<4>>(numbers);
#ifdef FAULT
  net.backward(mean(net(x)));
#else
  net.backward(mean(net(net.tensor(x))));
#endif
}
