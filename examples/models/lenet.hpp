#pragma once

#include <tenet/tenet.hpp>

/// LeNet with ReLU and average pooling on 28x28 images of one channel (LeCun et al., Proc. IEEE 86, 1998).
struct LeNet : tenet::Sequential<tenet::Conv2d<1, 6, 5, tenet::Padding<2>>, tenet::ReLU, tenet::AvgPool2d<2>,
                                 tenet::Conv2d<6, 16, 5>, tenet::ReLU, tenet::AvgPool2d<2>, tenet::Flatten,
                                 tenet::Linear<400, 120>, tenet::ReLU, tenet::Linear<120, 84>, tenet::ReLU,
                                 tenet::Linear<84, 10>> {};
