// A forward that is not constexpr.
// expect: forward cannot run at compile time: write constexpr auto forward\(auto x\) const
// expect: \bNet\b
#include <tenet/tenet.hpp>

using namespace tenet;

struct Net {
  Linear<784, 10> linear;
#ifdef FAULT
  auto forward(auto x) const { return linear(flatten(x)); }
#else
  constexpr auto forward(auto x) const { return linear(flatten(x)); }
#endif
};

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
