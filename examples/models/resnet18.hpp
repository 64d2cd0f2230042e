#pragma once

#include <tenet/tenet.hpp>
#include <type_traits>

/// A residual unit: two 3x3 convolutions with batch norm, beside them the input, or a 1x1 convolution of it where
/// channels or stride change (He et al., arXiv 1512.03385).
template <int In, int Out, int Step = 1>
struct ResidualUnit {
  tenet::Conv2d<In, Out, 3, tenet::Padding<1>, tenet::Stride<Step>> conv1;
  tenet::Conv2d<Out, Out, 3, tenet::Padding<1>> conv2;
  std::conditional_t<In != Out || Step != 1, tenet::Conv2d<In, Out, 1, tenet::Stride<Step>>, tenet::Identity> conv3;
  tenet::BatchNorm2d<Out> bn1, bn2;

  constexpr auto forward(auto x) const {
    const auto y = bn2(conv2(relu(bn1(conv1(x)))));
    return relu(y + conv3(x));
  }
};

/// The ResNet-18 variant for small images: a 3x3 stem with batch norm and ReLU, no max pooling, four stages of two
/// units with 64, 128, 256 and 512 channels, global average pooling, one fully connected layer.
template <int Channels = 1, int Classes = 10>
struct ResNet18
    : tenet::Sequential<
          tenet::Sequential<tenet::Conv2d<Channels, 64, 3, tenet::Padding<1>>, tenet::BatchNorm2d<64>, tenet::ReLU>,
          tenet::Sequential<ResidualUnit<64, 64>, ResidualUnit<64, 64>>,
          tenet::Sequential<ResidualUnit<64, 128, 2>, ResidualUnit<128, 128>>,
          tenet::Sequential<ResidualUnit<128, 256, 2>, ResidualUnit<256, 256>>,
          tenet::Sequential<ResidualUnit<256, 512, 2>, ResidualUnit<512, 512>>, tenet::GlobalAvgPool2d, tenet::Flatten,
          tenet::Linear<512, Classes>> {};
