#pragma once

#include <cmath>
#include <cstdint>
#include <tenet/core/random.hpp>

/// How many times as long as others a worker takes to compute in a step: for `StepTimeOptions`.
namespace tenet {

/// One worker takes `factor` times as long as the others.
inline auto one_is_slow(int slow, double factor) {
  return [=](int worker, long) { return worker == slow ? factor : 1.0; };
}
/// In each step another one of the workers, drawn at random, takes `factor` times as long.
inline auto slow_in_turns(int workers, double factor, std::uint64_t seed = 1) {
  return [=](int worker, long step) {
    Random random(seed, static_cast<std::uint64_t>(step));
    return static_cast<int>(random.below(static_cast<std::uint32_t>(workers))) == worker ? factor : 1.0;
  };
}
/// Each step of each worker takes exp(deviation · x) times as long, x normal with mean 0 and variance 1.
inline auto with_jitter(double deviation, std::uint64_t seed = 1) {
  return [=](int worker, long step) {
    Random random(seed, static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(worker));
    return std::exp(deviation * static_cast<double>(random.normal()));
  };
}

}  // namespace tenet
