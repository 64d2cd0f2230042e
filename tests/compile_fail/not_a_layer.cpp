// A number type among the layers, and a struct without a forward.
// expect: Sequential<.*every template argument has to be a layer or a module, a class with a forward
// expect: \bint\b
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
struct Net : Sequential<Flatten, Linear<784, 10>, int> {};
#else
struct Net : Sequential<Flatten, Linear<784, 10>, ReLU> {};
#endif

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
