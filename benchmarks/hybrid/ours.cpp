// Ten x = x * x over five floats, imperative and compiled: nanoseconds of one run, as JSON.
#include <chrono>
#include <cstdio>
#include <tenet/tenet.hpp>

using namespace tenet;

struct TenSquares {
  constexpr auto forward(auto x) const {
    for (int i = 0; i < 10; ++i) x = x * x;
    return x;
  }
};

/// The least time of one call, in nanoseconds, over several rounds.
template <class Function>
double best(Function function, int calls) {
  double least = 1e30;
  for (int round = 0; round < 9; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) function();
    const auto end = std::chrono::steady_clock::now();
    const double each = std::chrono::duration<double, std::nano>(end - begin).count() / calls;
    if (each < least) least = each;
  }
  return least;
}

int main() {
  const float numbers[5]{1.001f, 0.999f, 1.0005f, 0.9995f, 1.0f};
  Model<TenSquares, Features<5>, Cpu<0, 1>> compiled;
  Imperative<TenSquares, Cpu<0, 1>> imperative;

  float checked[5];
  const auto result = compiled(numbers);
  for (std::size_t i = 0; i < 5; ++i) checked[i] = result[i];
  const auto same = imperative(imperative.tensor<Features<5>>(numbers));
  for (std::size_t i = 0; i < 5; ++i)
    if (same.values()[i] != checked[i]) {
      std::fprintf(stderr, "imperative and compiled differ\n");
      return 1;
    }

  volatile float sink = 0;
  const double fast = best([&] { sink = compiled(numbers)[0]; }, 200000);
  // Calls that do not depend on each other overlap in the processor; here each is given the result of the last.
  float chain[5]{1, 1, 1, 1, 1};
  const double latency = best(
      [&] {
        const auto next = compiled(chain);
        for (std::size_t i = 0; i < 5; ++i) chain[i] = next[i];
      },
      200000);
  const double slow = best(
      [&] {
        imperative.clear();
        sink = imperative(imperative.tensor<Features<5>>(numbers)).values()[0];
      },
      20000);
  std::printf(
      "{\"compiled\": %.2f, \"chained\": %.2f, \"imperative\": %.2f, \"values\": [%.9g, %.9g, %.9g, %.9g, %.9g]}\n",
      fast, latency, slow, static_cast<double>(checked[0]), static_cast<double>(checked[1]),
      static_cast<double>(checked[2]), static_cast<double>(checked[3]), static_cast<double>(checked[4]));
}
