// A network's tape knows its own losses.
// expect: tensors of two devices meet in one operation: copy one of them to the other's device first, a \+ net.tensor\(b\)
// expect: DevicesDiffer<.*Cpu<0, ?1>.*Reference
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Linear<4, 3> layer;
  constexpr auto forward(auto x) const { return layer(x); }
};

void backward(Imperative<Net, Cpu<0, 1>>& net, Imperative<Net, Reference>& other, const float* numbers) {
  const auto loss = mean(other(other.tensor<Features<4>>(numbers)));
#ifdef FAULT
  net.backward(loss);
#else
  other.backward(loss);
  net.backward(square(net.tensor(loss)));
#endif
}
