// A pooling window of 4 x 4 on an image of 3 x 3.
// expect: the window of the convolution or pooling is larger than its padded input: use a smaller kernel
// expect: Expected<8, 4, 4>
// expect: Found<8, 3, 3>
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
constexpr int window = 4;
#else
constexpr int window = 3;
#endif

struct Net : Sequential<Conv2d<1, 8, 3, Stride<2>>, MaxPool2d<4>, AvgPool2d<window>, Flatten, Linear<8, 10>> {};

int main() { Trainer<Net, CrossEntropy, Adam, Image<1, 28, 28>> trainer; }
