#pragma once

#include "tenet/cuda.hpp"
#include "tenet/device/cuda_on_host.hpp"
#include "tenet/tenet.hpp"

/// What the tests that need whole programs of a GPU share, as each program takes the compiler some ten seconds.
namespace small_network {

struct Net : tenet::Sequential<tenet::Conv2d<1, 4, 3>, tenet::ReLU, tenet::Flatten, tenet::Linear<784, 10>> {};
using Input = tenet::Image<1, 16, 16>;

template <class Device, class... Policies>
using TrainerOn = tenet::Trainer<Net, tenet::CrossEntropy, tenet::Sgd, Input, Device, Policies...>;

}  // namespace small_network
