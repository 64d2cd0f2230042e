// An option whose name is misspelt.
// expect: Paddin\b
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
struct Net : Sequential<Conv2d<1, 4, 3, Paddin<1>>, Flatten, Linear<3136, 10>> {};
#else
struct Net : Sequential<Conv2d<1, 4, 3, Padding<1>>, Flatten, Linear<3136, 10>> {};
#endif

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
