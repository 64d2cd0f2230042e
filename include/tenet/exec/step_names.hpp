#pragma once

#include <string>
#include <tenet/exec/program.hpp>
#include <vector>

namespace tenet {

/// Whether a step of a program belongs to the optimizer's update.
template <class Program>
constexpr bool is_of_update(int step) {
  return step >= Program::lowered.first_update && Program::lowered.first_update < Program::lowered.after_update;
}

/// What people know a step by: its operation, and the path of the layer that it belongs to, "conv2d layer1.0.conv1". A
/// step of the backward pass has the layer that it computes a gradient for, one of the update has none.
template <class Program>
std::string step_name(int step) {
  const auto& lowered = Program::lowered.steps[step];
  std::string name = lowered.name;
  if constexpr (requires { Program::Definition::path_of_layer(0); }) {
    const int layer = Program::graph.nodes[Program::order.head[lowered.number]].layer;
    if (layer >= 0 && !is_of_update<Program>(step))
      name.append(" ").append(Program::Definition::path_of_layer(layer).view());
  }
  return name;
}

/// Those of all steps, made once.
template <class Program>
const std::vector<std::string>& step_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> made;
    for (int s = 0; s < Program::lowered.used.steps; ++s) made.push_back(step_name<Program>(s));
    return made;
  }();
  return names;
}

}  // namespace tenet
