// The body of a residual unit halves the image, the shortcut does not.
// sound: nvcc
// expect: both branches of a residual sum need one shape
// expect: give the shortcut a 1x1 Conv2d with the channels and stride of the body
// expect: Expected<16, 14, 14>
// expect: Found<8, 28, 28>
// expect(g++): Layer<.*"layer1.0.bn2"
// expect(clang): Layer<.*"layer1.0.bn2"
// expect(nvcc): Layer<.*'l', 'a', 'y', 'e', 'r', '1', '\.', '0', '\.', 'b', 'n', '2'
#include <tenet/tenet.hpp>

using namespace tenet;

#ifdef FAULT
using Shortcut = Identity;
#else
using Shortcut = Conv2d<8, 16, 1, Stride<2>>;
#endif

struct Unit {
  Conv2d<8, 16, 3, Stride<2>, Padding<1>> conv1;
  BatchNorm2d<16> bn1;
  Conv2d<16, 16, 3, Padding<1>> conv2;
  BatchNorm2d<16> bn2;
  Shortcut shortcut;

  constexpr auto forward(auto x) const {
    const auto before = shortcut(x);
    return relu(bn2(conv2(relu(bn1(conv1(x))))) + before);
  }
};

struct Net {
  Conv2d<1, 8, 3, Padding<1>> stem;
  Sequential<Unit> layer1;
  Linear<16, 10> head;

  constexpr auto forward(auto x) const { return head(global_avg_pool2d(layer1(stem(x)))); }
};

int main() { Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer; }
