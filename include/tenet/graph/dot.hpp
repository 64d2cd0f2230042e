#pragma once

#include <string>
#include <tenet/graph/memory_plan.hpp>

namespace tenet {

/// "64 x 28 x 28", with "batch x " before it if the tensor has a batch.
inline std::string to_string(const TensorInfo& info) {
  std::string result = info.batched ? "batch" : info.rank == 0 ? "scalar" : "";
  for (int i = 0; i < info.rank; ++i) result += (result.empty() ? "" : " x ") + std::to_string(info.extents[i]);
  if (info.dtype == DType::int32) result += " int32";
  return result;
}

inline const char* name_of(Arena arena) {
  constexpr const char* names[]{"activations", "fixed",  "parameters", "gradients",
                                "buffers",     "states", "input",      "numbers"};
  return names[static_cast<int>(arena)];
}

inline std::string name_of(Source source, float value, int index) {
  switch (source) {
    case Source::operation:
      return "operation";
    case Source::input:
      return index == 0 ? "input" : "target";
    case Source::parameter:
      return "parameter";
    case Source::buffer:
      return "buffer";
    case Source::constant: {
      char text[32];
      std::snprintf(text, sizeof text, "%g", static_cast<double>(value));
      return text;
    }
    case Source::scalar:
      return "scalar " + std::to_string(index);
    case Source::reciprocal_count:
      return "1 / (batch·" + std::to_string(index) + ")";
    case Source::batch_share:
      return "share of the batch";
    case Source::seed:
      return "seed";
    case Source::parameters:
      return "all parameters";
    case Source::gradients:
      return "all gradients";
    case Source::state:
      return "optimizer state " + std::to_string(index);
    case Source::slot_state:
      return "optimizer state of a parameter";
  }
  return "";
}

/// A planned graph in Graphviz' language: one box a step, which holds the operations that are fused into it; every
/// stored value says where it lies. `name_of_slot(slot)` names parameters.
template <class G, class Fusion, class Order, class Plan, class SlotName>
std::string to_dot(const G& graph, const Fusion& fusion, const Order& order, const Plan& plan, SlotName name_of_slot) {
  std::string dot =
      "digraph step {\n  rankdir=TB; compound=true; fontname=\"sans-serif\";\n"
      "  node [shape=box, style=\"filled,rounded\", fillcolor=\"#ffffff\", color=\"#8899aa\", fontname=\"sans-serif\", "
      "fontsize=10];\n"
      "  edge [color=\"#667788\", arrowsize=0.6];\n";
  const auto is_element = [&](int i) { return graph.nodes[i].is(Kind::element); };
  const auto place = [&](int i) {
    std::string text = name_of(plan.place[i].arena);
    text += " + " + std::to_string(plan.place[i].offset);
    if (plan.place[i].dtype == DType::bfloat16) text += ", bfloat16";
    return text;
  };
  std::string edges;
  // Members of a box: an element-wise operation that is evaluated in several regions is drawn in each.
  const auto draw = [&](int i, int step, bool stored) {
    const auto& node = graph.nodes[i];
    const std::string id = "s" + std::to_string(step) + "n" + std::to_string(i);
    std::string line = "    " + id + " [label=\"" + node.operation->name + "\\n" + to_string(*node.type);
    if (stored) line += "\\n" + place(i);
    line += "\"";
    if (!stored) line += ", fillcolor=\"#eef6ff\"";
    return line + "];\n";
  };
  std::string drawn_name[G::count];
  const auto connect = [&](int i, int step, auto inside) {
    for (int j = 0; j < graph.nodes[i].operand_count; ++j) {
      const int value = fusion.value[graph.nodes[i].operands[j]];
      const std::string to = "s" + std::to_string(step) + "n" + std::to_string(i);
      if (inside(value))
        edges += "  s" + std::to_string(step) + "n" + std::to_string(value) + " -> " + to + ";\n";
      else if (!drawn_name[value].empty())
        edges += "  " + drawn_name[value] + " -> " + to + ";\n";
    }
  };
  for (int i = 0; i < G::count; ++i) {
    const auto& node = graph.nodes[i];
    if (node.is_computed() || node.source == Source::constant || node.source == Source::reciprocal_count ||
        node.source == Source::scalar || node.source == Source::seed)
      continue;
    drawn_name[i] = "leaf" + std::to_string(i);
    std::string label = name_of(node.source, node.value, node.index);
    if (node.source == Source::parameter || node.source == Source::buffer) label = name_of_slot(node.index);
    dot += "  " + drawn_name[i] + " [label=\"" + label + "\\n" + to_string(*node.type) +
           "\", shape=ellipse, style=filled, fillcolor=\"" + (node.source == Source::input ? "#fff2cc" : "#e2f0d9") +
           "\"];\n";
  }
  for (int s = 0; s < order.count; ++s) {
    const int head = order.head[s];
    int members[64]{}, count = 0;
    const auto add_region = [&](int root) {
      for (int m = fusion.first_member[root]; m >= 0 && count < 64; m = fusion.next_member[m])
        members[count++] = fusion.member[m];
    };
    if (!is_element(head)) members[count++] = head;
    add_region(head);
    if (!is_element(head) && fusion.epilogue[head] >= 0) add_region(fusion.epilogue[head]);
    dot += "  subgraph cluster" + std::to_string(s) + " {\n    label=\"step " + std::to_string(s) +
           "\"; fontsize=9; color=\"#bbccdd\"; style=rounded; bgcolor=\"" +
           (head < graph.forward_count ? "#f4f8ff" : "#fff6f4") + "\";\n";
    for (int k = 0; k < count; ++k) {
      const bool stored = fusion.stored[members[k]] && !(members[k] == head && fusion.absorbed[head]);
      dot += draw(members[k], s, stored);
      if (fusion.stored[members[k]])
        drawn_name[members[k]] = "s" + std::to_string(s) + "n" + std::to_string(members[k]);
    }
    dot += "  }\n";
    for (int k = 0; k < count; ++k)
      connect(members[k], s, [&](int value) {
        for (int q = 0; q < count; ++q)
          if (members[q] == value) return true;
        return false;
      });
  }
  for (int i = 0; i < G::output_count; ++i) {
    constexpr const char* names[]{"result ",
                                  "gradient ",
                                  "new buffer ",
                                  "new parameters ",
                                  "new state ",
                                  "new ",
                                  "new state of a parameter",
                                  "tokens of ",
                                  "gradients of rows of "};
    const Output& output = graph.outputs[i];
    if (output.destination == Destination::gradient) {  // together they are what the optimizer reads
      for (int leaf = 0; leaf < G::count; ++leaf)
        if (graph.nodes[leaf].source == Source::gradients && !drawn_name[fusion.value[output.node]].empty())
          edges += "  " + drawn_name[fusion.value[output.node]] + " -> " + drawn_name[leaf] + " [style=dotted];\n";
      continue;
    }
    const std::string id = "out" + std::to_string(i);
    std::string label = names[static_cast<int>(output.destination)];
    if (output.destination == Destination::parameter || output.destination == Destination::table_tokens ||
        output.destination == Destination::table_rows)
      label += name_of_slot(output.index);
    else if (output.destination != Destination::slot_state)
      label += std::to_string(output.index);
    dot += "  " + id + " [label=\"" + label + "\", shape=ellipse, style=filled, fillcolor=\"#f8d7e3\"];\n";
    if (!drawn_name[fusion.value[output.node]].empty())
      edges += "  " + drawn_name[fusion.value[output.node]] + " -> " + id + ";\n";
  }
  return dot + edges + "}\n";
}

}  // namespace tenet
