// A forward that is not const.
// expect: forward of the network, or of a module behind this layer, cannot be called with the tensor found
// expect: write it as constexpr auto forward\(auto x\) const
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Linear<784, 10> linear;
#ifdef FAULT
  constexpr auto forward(auto x) { return linear(flatten(x)); }
#else
  constexpr auto forward(auto x) const { return linear(flatten(x)); }
#endif
};

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
