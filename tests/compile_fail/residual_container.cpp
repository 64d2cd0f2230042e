// The body of a Residual gives 32 channels, its input has 16.
// expect: both branches of a residual sum need one shape
// expect: Expected<32, 28, 28>
// expect: Found<16, 28, 28>
// expect(g++): Layer<.*"1.body.1"
// expect(clang): Layer<.*"1.body.1"
// expect(nvcc): Layer<.*'1', '\.', 'b', 'o', 'd', 'y', '\.', '1'
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
constexpr int channels = 32;
#else
constexpr int channels = 16;
#endif

using Body = Sequential<Conv2d<16, channels, 3, Padding<1>>, BatchNorm2d<channels>>;

struct Net : Sequential<Conv2d<1, 16, 3, Padding<1>>, Residual<Body>, ReLU, GlobalAvgPool2d, Linear<16, 10>> {};

int main() { Model<Net, Image<1, 28, 28>> model; }
