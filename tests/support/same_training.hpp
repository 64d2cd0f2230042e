#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <initializer_list>
#include <string>

/// Steps with batches of these sizes, of the same samples, are those of another device: losses, parameters and
/// predictions within `tolerance` * (1 + |expected|), accuracies the same.
template <class Expected, class Found>
void check_same_training(Expected& expected, Found& found, const auto* inputs, const auto* targets,
                         std::initializer_list<int> batches, float tolerance) {
  const auto near = [tolerance](float a, float b) { return std::fabs(a - b) <= tolerance * (1 + std::fabs(b)); };
  const auto differing = [&](const auto& here, const auto& there) {
    long count = here.size() != there.size();
    for (std::size_t i = 0; i < here.size(); ++i) count += !near(there[i], here[i]);
    return count;
  };
  for (const int batch : batches) {
    const auto here = expected.step(inputs, targets, batch), there = found.step(inputs, targets, batch);
    CAPTURE(batch, here.loss, there.loss);
    CHECK(near(there.loss, here.loss));
    CHECK(there.accuracy == here.accuracy);
  }
  for (const std::string& name : expected.weights().names()) {
    if (name.ends_with("num_batches_tracked")) continue;  // counted elsewhere
    CAPTURE(name);
    CHECK(differing(expected.weights()[name], found.weights()[name]) == 0);
  }
  const int few = 5;
  CHECK(differing(expected.predict(inputs, few), found.predict(inputs, few)) == 0);
}
