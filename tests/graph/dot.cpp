#include "tenet/graph/dot.hpp"

#include <catch2/catch.hpp>

#include "../support/networks.hpp"
#include "../support/traced.hpp"

using namespace tenet;

namespace {
int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

template <class Program>
std::string drawing() {
  return to_dot(Program::graph, Program::fusion, Program::order, Program::plan,
                [](int slot) { return "slot " + std::to_string(slot); });
}
}  // namespace

TEST_CASE("types, arenas and leaves have names") {
  CHECK(to_string(Batched<3, 4>::info) == "batch x 3 x 4");
  CHECK(to_string(Fixed<5, 6>::info) == "5 x 6");
  CHECK(to_string(Scalar::info) == "scalar");
  CHECK(to_string(Tokens<7>::info) == "batch x 7 int32");
  CHECK(std::string(name_of(Arena::gradients)) == "gradients");
  CHECK(std::string(name_of(Arena::numbers)) == "numbers");
  CHECK(name_of(Source::constant, 0.5f, 0) == "0.5");
  CHECK(name_of(Source::input, 0, 1) == "target");
}

TEST_CASE("a drawing has a box for every step, and all braces close") {
  using Step = traced::Training<networks::Residual, Image<2, 6, 5>, CrossEntropy>;
  const std::string dot = drawing<Step>();
  CHECK(occurrences(dot, "subgraph cluster") == Step::order.count);
  CHECK(occurrences(dot, "{") == occurrences(dot, "}"));
  CHECK(occurrences(dot, "slot ") == 14);  // ten parameters and four running statistics
  CHECK(occurrences(dot, "label=\"new parameters") == 1);
  CHECK(occurrences(dot, "activations + 0") > 0);
}

TEST_CASE("every arrow leads from one thing that is drawn to another") {
  const std::string dot = drawing<traced::Training<Sequential<Linear<3, 4>, Tanh, Linear<4, 2>>, Features<3>>>();
  int arrows = 0;
  for (std::size_t at = dot.find(" -> "); at != std::string::npos; at = dot.find(" -> ", at + 1), ++arrows) {
    const std::size_t begin = dot.rfind('\n', at) + 3;
    const std::string from = dot.substr(begin, at - begin),
                      to = dot.substr(at + 4, dot.find_first_of("; ", at + 4) - at - 4);
    INFO(from << " -> " << to);
    CHECK(dot.find(from + " [") != std::string::npos);
    CHECK(dot.find(to + " [") != std::string::npos);
  }
  CHECK(arrows > 10);
}
