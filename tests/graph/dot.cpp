#include "tenet/graph/dot.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../support/networks.hpp"
#include "../temporary_folder.hpp"
#include "tenet/tenet.hpp"

namespace {

using namespace tenet;

struct Block {
  Conv2d<2, 4, 3, Padding<1>, Bias<false>> conv;
  BatchNorm2d<4> norm;
  Linear<4, 3> scores;
  constexpr auto forward(auto x) const { return scores(dropout(global_avg_pool2d(gelu(norm(conv(x)))), 0.5f)); }
};
using BlockTrainer = Trainer<Block, CrossEntropy, Adam, Image<2, 5, 6>, Reference>;

/// What a drawing in Graphviz' language declares; reading it checks the grammar that is used.
struct Drawing {
  std::set<std::string> nodes;
  std::vector<std::pair<std::string, std::string>> edges;
  std::vector<std::string> labels;
  int boxes = 0, dotted = 0;

  explicit Drawing(const std::string& text) {
    // Tokens: identifiers, quoted strings, "->", and single characters.
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < text.size();) {
      const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
      std::size_t end = i + 1;
      if (text[i] == '"') {
        while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
        REQUIRE(end < text.size());  // the string ends
        ++end;
      } else if (word(text[i])) {
        while (end < text.size() && word(text[end])) ++end;
      } else if (text.compare(i, 2, "->") == 0) {
        end = i + 2;
      }
      if (!std::isspace(static_cast<unsigned char>(text[i]))) tokens.push_back(text.substr(i, end - i));
      i = end;
    }
    int depth = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::string& token = tokens[i];
      depth += (token == "{") - (token == "}");
      REQUIRE(depth >= 0);
      if (depth == 0 && token == "}") CHECK(i + 1 == tokens.size());  // one graph, nothing behind it
      boxes += token == "subgraph";
      dotted += token == "dotted";
      if (token == "->") edges.emplace_back(tokens.at(i - 1), tokens.at(i + 1));
      if (i + 1 < tokens.size() && tokens[i + 1] == "[" && token != "node" && token != "edge" &&
          tokens[i - 1] != "->") {
        CHECK(nodes.insert(token).second);  // declared once
        REQUIRE(tokens.at(i + 2) == "label");
        labels.push_back(tokens.at(i + 4));
      }
    }
    CHECK(depth == 0);
    CHECK(tokens.at(0) == "digraph");
  }

  /// Nodes whose label is this name, alone or with lines behind it.
  long labelled(const std::string& name) const {
    return std::count_if(labels.begin(), labels.end(), [&](const std::string& label) {
      return label == "\"" + name + "\"" || label.rfind("\"" + name + "\\n", 0) == 0;
    });
  }
};

/// The law of drawings: edges join declared nodes, and no operation stands alone.
void check_drawing(const Drawing& drawing) {
  std::set<std::string> joined;
  CHECK(drawing.edges.size() > 10);
  for (const auto& [from, to] : drawing.edges) {
    CAPTURE(from, to);
    CHECK(drawing.nodes.count(from) == 1);
    CHECK(drawing.nodes.count(to) == 1);
    CHECK(from != to);
    joined.insert(from);
    joined.insert(to);
  }
  for (const std::string& node : drawing.nodes) {
    CAPTURE(node);
    if (node[0] == 's') CHECK(joined.count(node) == 1);
  }
}

}  // namespace

TEST_CASE("the drawing of an inference graph is well formed", "[dot]") {
  const Drawing drawing(graph<Block, Image<2, 5, 6>, Reference>());
  check_drawing(drawing);
  CHECK(drawing.boxes == BlockTrainer::Predicting::order.count);
  for (const char* label : {"input", "conv.weight", "norm.running_mean", "scores.bias", "conv2d", "matmul"}) {
    CAPTURE(label);
    CHECK(drawing.labelled(label) == 1);
  }
  CHECK(drawing.labelled("target") == 0);
  CHECK(drawing.labelled("conv2d_input_gradient") == 0);
}

TEST_CASE("the drawing of a training step is well formed", "[dot]") {
  const Drawing drawing(BlockTrainer::graph());
  check_drawing(drawing);
  CHECK(drawing.boxes == BlockTrainer::Training::order.count);
  for (const char* label : {"target", "all parameters", "all gradients", "optimizer state 1", "conv2d_weight_gradient",
                            "dropout_mask", "new parameters 0", "new state 1"}) {
    CAPTURE(label);
    CHECK(drawing.labelled(label) == 1);
  }
  CHECK(drawing.dotted == 5);  // every gradient leads to the leaf that the optimizer reads
}

TEST_CASE("a drawing of a deeper network is well formed, and says where stored values lie", "[dot]") {
  using Step = Program<TrainingProgram<networks::Residual, CrossEntropy, Sgd, Image<2, 6, 5>, ReferenceKernels>>;
  const std::string text = to_dot(Step::graph, Step::fusion, Step::order, Step::plan,
                                  [](int slot) { return "slot " + std::to_string(slot); });
  const Drawing drawing(text);
  check_drawing(drawing);
  CHECK(drawing.boxes == Step::order.count);
  long slots = 0;
  for (int slot = 0; slot < Step::slots.count; ++slot) slots += drawing.labelled("slot " + std::to_string(slot));
  CHECK(slots == 14);  // ten parameters and four running statistics
  CHECK(text.find("activations + 0") != std::string::npos);
}

TEST_CASE("Graphviz reads the drawing of a training step", "[dot]") {
  if (std::system("command -v dot >/dev/null 2>&1") != 0) {
    WARN("dot is not installed");
    return;
  }
  TemporaryFolder folder;
  const std::string file = folder.write("step.dot", BlockTrainer::graph());
  CHECK(std::system(("dot -Tcanon '" + file + "' >/dev/null 2>'" + (folder / "errors") + "'").c_str()) == 0);
  CHECK(read_file(folder / "errors").empty());
  CHECK(std::system(("dot -Tcanon '" + folder.write("broken.dot", "digraph {") + "' >/dev/null 2>&1").c_str()) != 0);
}

TEST_CASE("types, arenas and leaves have names in drawings", "[dot]") {
  CHECK(to_string(Batched<64, 28, 28>::info) == "batch x 64 x 28 x 28");
  CHECK(to_string(Fixed<3, 4>::info) == "3 x 4");
  CHECK(to_string(Scalar::info) == "scalar");
  CHECK(to_string(Batched<>::info) == "batch");
  CHECK(to_string(Tokens<7>::info) == "batch x 7 int32");
  CHECK(std::string(name_of(Arena::per_sample)) == "activations");
  CHECK(std::string(name_of(Arena::gradients)) == "gradients");
  CHECK(std::string(name_of(Arena::numbers)) == "numbers");
  CHECK(name_of(Source::constant, 0.5f, 0) == "0.5");
  CHECK(name_of(Source::reciprocal_count, 0, 30) == "1 / (batch·30)");
  CHECK(name_of(Source::input, 0, 1) == "target");
}
