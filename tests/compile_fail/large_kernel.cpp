// A window of 5 x 5 on an image of 3 x 3.
// sound: nvcc
// expect: the window of the convolution or pooling is larger than its padded input: use a smaller kernel
// expect: Expected<8, 5, 5>
// expect: Found<8, 3, 3>
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
constexpr int kernel = 5;
#else
constexpr int kernel = 3;
#endif

struct Net : Sequential<Conv2d<1, 8, 3, Stride<2>>, MaxPool2d<4>, Conv2d<8, 8, kernel>, Flatten, Linear<8, 10>> {};

int main() { Trainer<Net, CrossEntropy, Adam, Image<1, 28, 28>> trainer; }
