// A module among the layers that has no forward.
// expect: Sequential<.*every template argument has to be a layer or a module, a class with a forward
// expect: \bHead\b
#include <tenet/tenet.hpp>

using namespace tenet;

struct Head {
  Linear<784, 10> linear;
#ifndef FAULT
  constexpr auto forward(auto x) const { return linear(x); }
#endif
};

struct Net : Sequential<Flatten, Head> {};

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
