// What two of this machine's cores do at a time, over one of them alone: sums of products in registers, which need no
// memory. Where cores are halves of one, or other machines' work runs on them, two do less than twice as much, and none
// of the times beside it can be better. Prints {"alone": […], "together": […]}, seconds of rounds.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tenet/core/processors.hpp>
#include <tenet/core/vector.hpp>
#include <thread>
#include <vector>

namespace {

// Read behind the first look at the clock and written before the second one, as a compiler may move arithmetic across the
// looks: to both of them volatile memory keeps its order.
volatile float start = 1, kept;

/// A few milliseconds of a core.
double seconds_of_round() {
  constexpr int sums = 12;  // more than a core has under way at a time
  tenet::Vector sum[sums];
  const auto factor = tenet::broadcast<tenet::Vector>(0.9999f), term = tenet::broadcast<tenet::Vector>(1e-4f);
  const auto begin = std::chrono::steady_clock::now();
  for (auto& one : sum) one = tenet::broadcast<tenet::Vector>(start);
  for (int i = 0; i < 2'000'000; ++i)
#pragma GCC unroll 16  // or the sums are kept in memory, where a store and its load take what they take
    for (auto& one : sum) one = one * factor + term;
  for (int i = 1; i < sums; ++i) sum[0] += sum[i];
  float numbers[tenet::vector_width];
  tenet::store(numbers, sum[0]);
  for (const float number : numbers) kept = number;
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return seconds.count();
}

void print(const char* name, const std::vector<double>& seconds, const char* behind) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9f", i > 0 ? ", " : "", seconds[i]);
  std::printf("]%s", behind);
}

}  // namespace

/// program [ROUNDS]
int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  std::vector<double> alone, together;
  std::barrier<> meet(2);
  double of_other = 0;
  std::thread other([&] {
    tenet::keep_to_part(1, 2);
    for (int round = 0; round < rounds; ++round) {
      meet.arrive_and_wait();  // the first one has worked alone
      of_other = seconds_of_round();
      meet.arrive_and_wait();
    }
  });
  tenet::keep_to_part(0, 2);
  for (int round = 0; round < rounds; ++round) {
    alone.push_back(seconds_of_round());
    meet.arrive_and_wait();
    const double own = seconds_of_round();
    meet.arrive_and_wait();
    together.push_back(std::max(own, of_other));
  }
  other.join();
  std::printf("{");
  print("alone", alone, ", ");
  print("together", together, "}\n");
}
