// What two of this machine's cores do at a time, over one of them alone: products and sums in their first caches. Where
// cores are halves of one, or other machines' work runs on them, two do less than twice as much, and none of the times
// beside it can be better. Prints {"alone": […], "together": […]}, seconds of rounds.
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

/// A few milliseconds of a core: y = y · factor + x, in the first cache. Products in registers alone would not do: they
/// keep their pace where other work takes half of a core's loads and stores, and a training step 1.6 times as long.
double seconds_of_round() {
  constexpr std::size_t floats = 2048;
  alignas(64) static thread_local float x[floats], y[floats];
  volatile float last = x[0];  // read behind the first look at the clock, written before the second: it stays there
  const auto begin = std::chrono::steady_clock::now();
  const auto factor = tenet::broadcast<tenet::Vector>(0.9999f + last);
  for (int round = 0; round < 40'000; ++round) {
    for (std::size_t i = 0; i < floats; i += tenet::vector_width)
      tenet::store(y + i, tenet::load(y + i) * factor + tenet::load(x + i));
    asm volatile("" : : "r"(x), "r"(y) : "memory");  // other rounds may not be one with this
  }
  last = y[floats / 2];
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
