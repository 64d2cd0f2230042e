// Each device has its own tape, and tensors of its own type.
// expect: tensors of two devices meet in one operation: copy one of them to the other's device first, a \+ net.tensor\(b\)
// expect: DevicesDiffer<.*Cpu<0, ?1>.*Cpu<1, ?1>
// sound: clang
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Linear<4, 3> layer;
  constexpr auto forward(auto x) const { return layer(x); }
};

float sum_of(Imperative<Net, Cpu<0, 1>>& net, Imperative<Net, Cpu<1, 1>>& other, const float* numbers) {
  const auto a = net(net.tensor<Features<4>>(numbers));
  const auto b = net.tensor<Features<3>>(numbers);
  const auto c = other(other.tensor<Features<4>>(numbers));
#ifdef FAULT
  const auto total = a + c + c;
#else
  const auto total = a + net.tensor(c) + net.tensor(c);
#endif
  const auto loss = mean(relu(total * b + a));  // what follows from it, of which nothing is told
  net.backward(loss);
  return loss.item();
}
