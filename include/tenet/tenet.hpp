#pragma once

// First, so that a message about a mistake begins with few lines of includes.
#include <tenet/ops/mistake.hpp>

/// The library but for its optional components (`tenet/data/fashion_mnist.hpp` needs zlib) and transforms of data sets,
/// which few programs use (`tenet/data/transform.hpp`).
#include <tenet/data/generated_images.hpp>
#include <tenet/device/cpu.hpp>
#include <tenet/device/reference.hpp>
#include <tenet/nn/activation.hpp>
#include <tenet/nn/attention.hpp>
#include <tenet/nn/batch_norm.hpp>
#include <tenet/nn/conv2d.hpp>
#include <tenet/nn/dropout.hpp>
#include <tenet/nn/embedding.hpp>
#include <tenet/nn/layer_norm.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/loss.hpp>
#include <tenet/nn/pool2d.hpp>
#include <tenet/nn/sequential.hpp>
#include <tenet/optim/adam.hpp>
#include <tenet/optim/clip_grad_norm.hpp>
#include <tenet/optim/schedule.hpp>
#include <tenet/optim/sgd.hpp>
#include <tenet/train/imperative.hpp>
#include <tenet/train/model.hpp>
#include <tenet/train/trainer.hpp>
