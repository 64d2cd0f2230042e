// An option that the layer does not have.
// expect: the layer does not know one of its options: Conv2d knows Stride<n>, Padding<n>, Bias<false>
// expect(g++): Layer<.*"0"
// expect(clang): Layer<.*"0"
// expect(nvcc): Layer<.*'0'
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
struct Net : Sequential<Conv2d<1, 4, 3, Causal<true>>, Flatten, Linear<2704, 10>> {};
#else
struct Net : Sequential<Conv2d<1, 4, 3, Bias<true>>, Flatten, Linear<2704, 10>> {};
#endif

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
