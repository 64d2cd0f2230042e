// What this machine can do at most: multiplications and additions (fma THREADS, FLOP per call below) and copying
// (copy THREADS), served as cases.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "../serve.hpp"
#include "tenet/core/vector.hpp"

using tenet::Vector;

constexpr long multiplications = 100000;              // of one call, each of `chains` vectors
constexpr int chains = 12;                            // independent, so that latency does not show
constexpr std::size_t bytes = std::size_t{64} << 20;  // copied by one call, more than caches hold

volatile float sink[64], one = 1.0f;  // the compiler cannot know them

/// Runs work(index) on so many threads at once, each pinned by nothing; seconds from the start to the last one's end.
template <class Work>
double seconds_on(int threads, long calls, Work work) {
  std::atomic<int> waiting{threads};
  std::vector<double> ends(static_cast<std::size_t>(threads));
  std::vector<std::chrono::steady_clock::time_point> begins(static_cast<std::size_t>(threads));
  const auto run = [&](int index) {
    work(index);  // warms up
    waiting.fetch_sub(1);
    while (waiting.load() > 0) {
    }
    begins[static_cast<std::size_t>(index)] = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) work(index);
    ends[static_cast<std::size_t>(index)] =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begins[static_cast<std::size_t>(index)])
            .count();
  };
  std::vector<std::thread> others;
  for (int index = 1; index < threads; ++index) others.emplace_back(run, index);
  run(0);
  for (std::thread& other : others) other.join();
  return *std::max_element(ends.begin(), ends.end());
}

template <int... C>
Vector multiply(Vector factor, Vector term, std::integer_sequence<int, C...>) {
  Vector sums[]{term + static_cast<float>(C)...};
  for (long i = 0; i < multiplications; ++i) ((sums[C] = sums[C] * factor + term), ...);
  return (sums[C] + ...);
}

int main() {
  static char* from[2];
  static char* to[2];
  std::vector<Case> cases;
  for (const int threads : {1, 2}) {
    const double flops = 2.0 * multiplications * chains * tenet::vector_width;
    cases.push_back({"fma " + std::to_string(threads), [=] { return std::vector<double>{flops * threads}; },
                     [=](long calls) {
                       return seconds_on(threads, calls, [](int index) {
                         Vector factor{}, term{};
                         factor += 0.5f * one, term += one;
                         sink[32 * index] = multiply(factor, term, std::make_integer_sequence<int, chains>())[0];
                       });
                     }});
    cases.push_back({"copy " + std::to_string(threads),
                     [=] { return std::vector<double>{2.0 * static_cast<double>(bytes) * threads}; },
                     [=](long calls) {
                       for (int i = 0; i < threads; ++i)
                         if (from[i] == nullptr) {
                           from[i] = new char[bytes], to[i] = new char[bytes];
                           std::memset(from[i], 1, bytes), std::memset(to[i], 1, bytes);
                         }
                       return seconds_on(threads, calls, [](int index) { std::memcpy(to[index], from[index], bytes); });
                     }});
  }
  return serve(cases);
}
