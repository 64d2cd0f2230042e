#pragma once

#include <array>
#include <cstddef>
#include <tenet/tenet.hpp>
#include <type_traits>

/// The deep residual networks of He et al. (arXiv 1512.03385), table 1, for images of 3 channels.
namespace resnet {

template <int In, int Middle, int Step>
struct Bottleneck {
  using NoBias = tenet::Bias<false>;
  using Shortcut =
      tenet::Sequential<tenet::Conv2d<In, 4 * Middle, 1, tenet::Stride<Step>, NoBias>, tenet::BatchNorm2d<4 * Middle>>;
  tenet::Conv2d<In, Middle, 1, NoBias> conv1;
  tenet::BatchNorm2d<Middle> bn1;
  tenet::Conv2d<Middle, Middle, 3, tenet::Padding<1>, tenet::Stride<Step>, NoBias> conv2;
  tenet::BatchNorm2d<Middle> bn2;
  tenet::Conv2d<Middle, 4 * Middle, 1, NoBias> conv3;
  tenet::BatchNorm2d<4 * Middle> bn3;
  std::conditional_t<In != 4 * Middle || Step != 1, Shortcut, tenet::Identity> downsample;

  constexpr auto forward(auto x) const {
    const auto y = bn3(conv3(relu(bn2(conv2(relu(bn1(conv1(x))))))));
    return relu(y + downsample(x));
  }
};

/// Count units, named "0", "1", … though the first has a type of its own.
template <int In, int Middle, int Step, int Count>
struct Stage {
  Bottleneck<In, Middle, Step> first;
  std::array<Bottleneck<4 * Middle, Middle, 1>, Count - 1> rest;

  constexpr auto forward(auto x) const {
    auto y = first.forward(x);
    for (const auto& unit : rest) y = unit.forward(y);
    return y;
  }
  constexpr void visit_children(auto&& function) {
    function(0L, first);
    for (std::size_t i = 0; i < rest.size(); ++i) function(static_cast<long>(i) + 1, rest[i]);
  }
};

/// ResNet-50: <3, 4, 6, 3>, ResNet-101: <3, 4, 23, 3>, ResNet-152: <3, 8, 36, 3>.
template <int N1, int N2, int N3, int N4, int Classes = 1000>
struct ResNet {
  tenet::Conv2d<3, 64, 7, tenet::Padding<3>, tenet::Stride<2>, tenet::Bias<false>> conv1;
  tenet::BatchNorm2d<64> bn1;
  Stage<64, 64, 1, N1> layer1;
  Stage<256, 128, 2, N2> layer2;
  Stage<512, 256, 2, N3> layer3;
  Stage<1024, 512, 2, N4> layer4;
  tenet::Linear<2048, Classes> fc;

  constexpr auto forward(auto x) const {
    const auto stem = tenet::max_pool2d<3, 2, 1>(relu(bn1(conv1(x))));
    return fc(tenet::global_avg_pool2d(layer4.forward(layer3.forward(layer2.forward(layer1.forward(stem))))));
  }
};

using ResNet50 = ResNet<3, 4, 6, 3>;
using ResNet152 = ResNet<3, 8, 36, 3>;

}  // namespace resnet
