#include "tenet/exec/sparse_tables.hpp"

#include <catch2/catch.hpp>
#include <tenet/tenet.hpp>

using namespace tenet;

namespace {

/// Two tables that read one input, between dense parameters.
struct Two {
  Linear<4, 3> scores;
  Embedding<9, 4, Sparse> words;
  Linear<3, 3> more;
  Embedding<7, 3, Sparse> biases;
  constexpr auto forward(auto tokens) const {
    return more(scores(mean<1>(words(tokens)))) + mean<1, 2>(biases(reshape<3, 2>(tokens)));
  }
};
using Training = TrainerOf<Two, CrossEntropy, Adam, Tokens<6>>::Training;
constexpr auto& tables = tables_of_step<Training>;

static_assert(Training::slots.table_count == 2);
static_assert(tables.size() == 2);
static_assert(tables[0].rows == 9 && tables[0].width == 4 && tables[1].rows == 7 && tables[1].width == 3);
static_assert(tables[0].tokens_of_sample == 6);
static_assert(tables[0].tokens == tables[1].tokens && tables[0].tokens.arena == Arena::inputs);
static_assert(tables[0].gradients.arena == Arena::per_sample && tables[0].gradients != tables[1].gradients);

/// Stands in for an execution: its values are where a test has put them, its update is p = p - g, s = s + 1.
struct Values {
  const std::int32_t* tokens;
  const float *of_words, *of_biases;
  const void* at(const Place& place) const {
    if (place.arena == Arena::inputs) return tokens;
    return place == tables[0].gradients ? of_words : of_biases;
  }
  void update(float* parameters, float* gradients, float* states, long count, long state_step) const {
    for (long i = 0; i < count; ++i) {
      parameters[i] -= gradients[i];
      states[i] += 1;
      states[state_step + i] += 10;
    }
  }
};

}  // namespace

TEST_CASE("sparse tables lie behind all other parameters, and their gradients are kept until the update",
          "[sparse_tables]") {
  CHECK(tables[0].offset == Training::slots.dense_floats);
  CHECK(tables[1].offset == Training::slots.dense_floats + 48);
  CHECK(Training::slots.parameter_floats == Training::slots.dense_floats + 48 + 32);
  // No table of gradients is computed, and none is an output.
  for (const auto& node : Training::graph.nodes)
    if (node.is_computed()) CHECK(std::string(node.operation->name) != "embedding_gradient");
}

TEMPLATE_TEST_CASE("a row is updated once, with the sum of what its tokens have", "[sparse_tables]", Cpu<>, Reference) {
  const auto executor = make_executor<TestType>();
  const std::int32_t tokens[]{5, 1, 5, 6, 1, 5, 6, 6, 8, 0, -3, 9};
  constexpr long all = Training::slots.parameter_floats;
  std::vector<float> of_words(48), of_biases(36), parameters(all, 100.0f), states(2 * all, 0.0f);
  for (std::size_t i = 0; i < 48; ++i) of_words[i] = static_cast<float>(i);
  for (std::size_t i = 0; i < 36; ++i) of_biases[i] = static_cast<float>(i);
  SparseTables<Training> sparse;
  const Values values{tokens, of_words.data(), of_biases.data()};
  sparse.find(values, 2);
  sparse.update<PlainAccess>(values, *executor, parameters.data(), states.data());

  std::vector<float> expected(all, 100.0f), times(all, 0.0f);
  for (int table = 0; table < 2; ++table) {
    const int width = tables[static_cast<std::size_t>(table)].width;
    for (int i = 0; i < 12; ++i)
      for (int j = 0; j < width; ++j) {
        if (tokens[i] < 0 || tokens[i] >= 7) continue;  // no row of one table is none of any
        const auto at =
            static_cast<std::size_t>(tables[static_cast<std::size_t>(table)].offset + tokens[i] * width + j);
        expected[at] -= static_cast<float>(i * width + j);
        times[at] = 1;
      }
  }
  CHECK(parameters == expected);
  for (std::size_t i = 0; i < times.size(); ++i) {
    CHECK(states[i] == times[i]);
    CHECK(states[static_cast<std::size_t>(all) + i] == 10 * times[i]);
  }

  // Shown, they are the differences; what an earlier step has shown is gone.
  std::vector<float> gradients(all, 0.0f);
  sparse.show_gradients(gradients.data());
  for (std::size_t i = 0; i < gradients.size(); ++i) CHECK(gradients[i] == 100 - expected[i]);
  const std::int32_t next[]{2, 2, 2, 2, 2, 3};
  const Values other{next, of_words.data(), of_biases.data()};
  sparse.find(other, 1);
  sparse.update<PlainAccess>(other, *executor, parameters.data(), states.data());
  sparse.show_gradients(gradients.data());
  for (long row = 0; row < 9; ++row)
    CHECK((gradients[static_cast<std::size_t>(tables[0].offset + 4 * row + 1)] != 0) == (row == 2 || row == 3));
}

TEST_CASE("touched rows are copied from another table", "[sparse_tables]") {
  const auto executor = make_executor<Cpu<>>();
  const std::int32_t tokens[]{5, 1, 5, 2, 1, 5};
  constexpr long all = Training::slots.parameter_floats;
  std::vector<float> from(all, 1.0f), to(all, 0.0f);
  SparseTables<Training> sparse;
  sparse.find(Values{tokens, nullptr, nullptr}, 1);
  sparse.load<PlainAccess, false>(*executor, from.data(), to.data());
  for (long i = 0; i < all; ++i) {
    const long word = i - tables[0].offset, bias = i - tables[1].offset;
    const bool touched = (word >= 0 && word < 36 && (word / 4 == 1 || word / 4 == 5 || word / 4 == 2)) ||
                         (bias >= 0 && bias < 21 && (bias / 3 == 1 || bias / 3 == 5 || bias / 3 == 2));
    CHECK(to[static_cast<std::size_t>(i)] == (touched ? 1.0f : 0.0f));
  }
}
