#include "tenet/exec/sparse_execution.hpp"

#include <cmath>

#include "../support/gradient_check.hpp"
#include "../temporary_folder.hpp"

using namespace tenet;

namespace {

/// A bag of words: the mean of a sample's rows, and what is linear in it.
template <int Rows, int Width, class... Options>
struct Bag {
  Linear<Width, 3> scores;
  Embedding<Rows, Width, Options...> words;
  constexpr auto forward(auto tokens) const { return scores(tanh(mean<1>(words(tokens)))); }
};

/// Two tables of one input, one of them a sequence.
template <class... Options>
struct Wide {
  Embedding<11, 6, Options...> words;
  Linear<6, 4> hidden;
  Embedding<8, 4, Options...> shifts;
  Linear<20, 3> scores;
  constexpr auto forward(auto tokens) const {
    return scores(reshape<20>(gelu(hidden(words(tokens))) + shifts(tokens)));
  }
};

using Ints = std::vector<std::int32_t>;

/// Tokens of so many samples of five, low ones more often, and the samples' classes.
std::pair<Ints, Ints> drawn(int samples, int rows, std::uint64_t stream) {
  Random random(5, stream);
  std::pair<Ints, Ints> result;
  for (int i = 0; i < 5 * samples; ++i) {
    const float x = random.uniform(0, 1);
    result.first.push_back(static_cast<std::int32_t>(x * x * static_cast<float>(rows)));
  }
  for (int i = 0; i < samples; ++i) result.second.push_back(static_cast<std::int32_t>(random.below(3)));
  return result;
}

/// Steps of the same batches, of changing size, give both networks the same losses, gradients and parameters. Dense
/// networks would have a program of their own for one sample, which rounds in another order.
template <class Dense, class Lazy, class Optimizer, class... Tags>
void check_equal(Optimizer optimizer, int rows, double tolerance = 0) {
  Trainer<Dense, CrossEntropy, Optimizer, Tokens<5>, OneSampleNever, Tags...> dense{optimizer, 3};
  Trainer<Lazy, CrossEntropy, Optimizer, Tokens<5>, Tags...> lazy{optimizer, 3};
  const auto check = [&](std::span<const float> found, std::span<const float> expected) {
    REQUIRE(found.size() == expected.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      different += !(std::fabs(found[i] - expected[i]) <= tolerance * std::fmax(1.0f, std::fabs(expected[i])));
    CHECK(different == 0);
  };
  std::uint64_t stream = 0;
  for (const int samples : {6, 2, 40, 1, 40, 7}) {
    const auto [tokens, classes] = drawn(samples, rows, ++stream);
    const float expected = dense.step(tokens.data(), classes.data(), samples).loss;
    CHECK(lazy.step(tokens.data(), classes.data(), samples).loss == Approx(expected).epsilon(tolerance));
    for (const std::string& name : dense.weights().names()) {
      CAPTURE(samples, name);
      if (samples != 2) check(lazy.gradient(name), dense.gradient(name));  // not asked for after every step
      check(lazy.weights()[name], dense.weights()[name]);
    }
  }
}

/// PlainSgd at a standstill: a step finds gradients only.
struct Still {
  static constexpr int state_count = 0, scalar_count = 1;
  float learning_rate = 0;
  std::array<float, 1> scalars(long) const { return {0.0f}; }
  static constexpr auto update(auto parameters, auto gradient, const auto&, const auto& scalar) {
    return std::array{parameters - scalar[0] * gradient};
  }
};

}  // namespace

TEST_CASE("a training step with sparse tables has an execution of its own", "[sparse_execution]") {
  using Lazy = Trainer<Wide<Sparse>, CrossEntropy, PlainSgd, Tokens<5>>;
  using Dense = Trainer<Wide<>, CrossEntropy, PlainSgd, Tokens<5>>;
  STATIC_REQUIRE(std::is_same_v<Lazy::ExecutionOf<Lazy::Training>, SparseExecution<Lazy::Training>>);
  STATIC_REQUIRE(std::is_same_v<Lazy::ExecutionOf<Lazy::Evaluating>, Execution<Lazy::Evaluating>>);
  STATIC_REQUIRE(std::is_same_v<Dense::ExecutionOf<Dense::Training>, Execution<Dense::Training>>);
}

TEST_CASE("gradients of sparse tables are those of finite differences", "[sparse_execution]") {
  law::check_gradients<Wide<Sparse>, Tokens<5>, CrossEntropy, Reference, Still>({.step = 5e-3f, .token_limit = 8});
  law::check_gradients<Bag<7, 3, Sparse>, Tokens<5>, CrossEntropy, Cpu<0, 1>, Still>({.step = 5e-3f, .token_limit = 7});
}

TEST_CASE("plain SGD on a sparse table gives the bits of a dense one", "[sparse_execution]") {
  const PlainSgd plain{.learning_rate = 0.3f};
  check_equal<Bag<50, 5>, Bag<50, 5, Sparse>, PlainSgd, Reference>(plain, 50);
  check_equal<Bag<50, 5>, Bag<50, 5, Sparse>, PlainSgd, Cpu<0, 1>>(plain, 50);
  check_equal<Bag<3000, 24>, Bag<3000, 24, Sparse>, PlainSgd, Cpu<0, 2>>(plain, 3000);
  check_equal<Wide<>, Wide<Sparse>, PlainSgd, Cpu<0, 3>>(plain, 8);
  check_equal<Wide<>, Wide<Sparse>, Sgd, Cpu<0, 1>>(Sgd{.learning_rate = 0.3f}, 8);
}

TEST_CASE("rows may be longer than what is updated at once", "[sparse_execution]") {
  check_equal<Bag<6, 2500>, Bag<6, 2500, Sparse>, PlainSgd, Cpu<0, 2>>({.learning_rate = 0.3f}, 6);
}

TEST_CASE("sparse tables go with mixed precision and a bound on memory", "[sparse_execution]") {
  check_equal<Bag<50, 8>, Bag<50, 8, Sparse>, PlainSgd, Cpu<0, 1>, BFloat16>({.learning_rate = 0.3f}, 50, 1e-2);
  check_equal<Wide<>, Wide<Sparse>, PlainSgd, Cpu<0, 1>, MemoryBound<600>>({.learning_rate = 0.3f}, 8, 1e-6);
}

TEST_CASE("a token that is no row spoils the loss and no memory", "[sparse_execution]") {
  Trainer<Bag<7, 3, Sparse>, CrossEntropy, PlainSgd, Tokens<5>> trainer;
  const Ints tokens{0, 1, 7, 2, 3}, negative{0, 1, -1, 2, 3}, classes{1};
  CHECK(std::isnan(trainer.step(tokens.data(), classes.data(), 1).loss));
  CHECK(std::isnan(trainer.step(negative.data(), classes.data(), 1).loss));
  CHECK(!std::isnan(trainer.weights()["words.weight"][12]));
}

namespace {

/// Trains with rows poisoned that no token chooses, and follows every chosen one by the rule of the optimizer, which
/// carries a row's state from the last step that has touched it to the next one, and does nothing in between.
template <class Optimizer, class Rule>
void check_lazy(Optimizer optimizer, Rule rule) {
  constexpr int rows = 40, width = 6, states = Optimizer::state_count;
  Trainer<Bag<rows, width, Sparse>, CrossEntropy, Optimizer, Tokens<5>, Cpu<0, 1>> trainer{optimizer, 3};
  const auto table = [&] { return trainer.weights()["words.weight"]; };
  for (long i = 35 * width; i < rows * width; ++i) table()[static_cast<std::size_t>(i)] = NAN;
  std::vector<double> expected(table().begin(), table().end()), state(static_cast<std::size_t>(states * rows * width));
  bool rested = false;  // a row that was touched before and is not now
  std::vector<int> last(rows, 0);
  for (int step = 1; step <= 12; ++step) {
    const auto [tokens, classes] = drawn(3, 35, static_cast<std::uint64_t>(100 + step));
    REQUIRE(std::isfinite(trainer.step(tokens.data(), classes.data(), 3).loss));
    const auto gradient = trainer.gradient("words.weight");
    for (int row = 0; row < rows; ++row) {
      const bool touched = std::find(tokens.begin(), tokens.end(), row) != tokens.end();
      rested = rested ||
               (touched && last[static_cast<std::size_t>(row)] > 0 && last[static_cast<std::size_t>(row)] < step - 1);
      if (touched) last[static_cast<std::size_t>(row)] = step;
      for (int j = 0; j < width; ++j) {
        const auto i = static_cast<std::size_t>(row * width + j);
        if (touched)
          rule(expected[i], &state[i * static_cast<std::size_t>(states)], static_cast<double>(gradient[i]), step);
        else
          CHECK(gradient[i] == 0);
      }
    }
    for (int i = 0; i < 35 * width; ++i)
      REQUIRE(table()[static_cast<std::size_t>(i)] ==
              Approx(expected[static_cast<std::size_t>(i)]).epsilon(2e-5).margin(2e-6));
    for (int i = 35 * width; i < rows * width; ++i) REQUIRE(std::isnan(table()[static_cast<std::size_t>(i)]));
  }
  CHECK(rested);
}

double power(double base, int exponent) { return std::pow(base, exponent); }

}  // namespace

TEST_CASE("optimizers are lazy: rows that are not touched rest, with their state", "[sparse_execution]") {
  check_lazy(Adam{.learning_rate = 0.05f}, [](double& p, double* state, double g, int step) {
    state[0] = 0.9 * state[0] + 0.1 * g;
    state[1] = 0.999 * state[1] + 0.001 * g * g;
    p -= 0.05 / (1 - power(0.9, step)) * state[0] / (std::sqrt(state[1] / (1 - power(0.999, step))) + 1e-8);
  });
  check_lazy(AdamW{.learning_rate = 0.05f, .weight_decay = 0.1f}, [](double& p, double* state, double g, int step) {
    state[0] = 0.9 * state[0] + 0.1 * g;
    state[1] = 0.999 * state[1] + 0.001 * g * g;
    p *= 1 - 0.05 * 0.1;
    p -= 0.05 / (1 - power(0.9, step)) * state[0] / (std::sqrt(state[1] / (1 - power(0.999, step))) + 1e-8);
  });
  check_lazy(Sgd{.learning_rate = 0.5f, .momentum = 0.9f, .weight_decay = 0.01f},
             [](double& p, double* state, double g, int) {
               state[0] = 0.9 * state[0] + g + 0.01 * p;
               p -= 0.5 * state[0];
             });
}

TEST_CASE("sparse and dense networks read each other's files and predict the same", "[sparse_execution]") {
  const TemporaryFolder folder;
  Trainer<Wide<Sparse>, CrossEntropy, Adam, Tokens<5>> lazy{{}, 1};
  Trainer<Wide<>, CrossEntropy, Adam, Tokens<5>> dense{{}, 2};
  const auto [tokens, classes] = drawn(9, 8, 1);
  for (int step = 0; step < 3; ++step) lazy.step_async(tokens.data(), classes.data(), 9);
  lazy.save(folder / "lazy.safetensors");
  dense.load(folder / "lazy.safetensors");
  const auto expected = dense.predict(tokens.data(), 9), found = lazy.predict(tokens.data(), 9);
  REQUIRE(std::equal(found.begin(), found.end(), expected.begin(), expected.end()));
  dense.step(tokens.data(), classes.data(), 9);
  dense.save(folder / "dense.safetensors");
  Model<Wide<Sparse>, Tokens<5>> model(folder / "dense.safetensors");
  const auto after = dense.predict(tokens.data(), 9), from_file = model(tokens.data(), 9);
  CHECK(std::equal(from_file.begin(), from_file.end(), after.begin(), after.end()));
}

TEST_CASE("results of sparse tables have the same bits for any number of threads", "[sparse_execution]") {
  using Net = Bag<100000, 40, Sparse>;
  Trainer<Net, CrossEntropy, Adam, Tokens<5>, Cpu<0, 1>> one{{.learning_rate = 0.1f}, 1};
  Trainer<Net, CrossEntropy, Adam, Tokens<5>, Cpu<0, 4>> four{{.learning_rate = 0.1f}, 1};
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto [tokens, classes] = drawn(400, 1000, step);
    CHECK(one.step(tokens.data(), classes.data(), 400).loss == four.step(tokens.data(), classes.data(), 400).loss);
  }
  CHECK(std::equal(one.weights().parameters(), one.weights().parameters() + one.weights().table.parameter_floats,
                   four.weights().parameters()));
}

TEST_CASE("the graph and the summary of a network with sparse tables", "[sparse_execution]") {
  Trainer<Wide<Sparse>, CrossEntropy, Adam, Tokens<5>> trainer;
  const std::string graph = trainer.graph();
  CAPTURE(graph);
  CHECK(graph.find("tokens of words.weight") != std::string::npos);
  CHECK(graph.find("gradients of rows of shifts.weight") != std::string::npos);
  CHECK(trainer.summary().find("parameters: 189") != std::string::npos);
}
