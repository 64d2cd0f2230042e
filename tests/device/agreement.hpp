#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "random_numbers.hpp"
#include "tenet/device/cpu/workers.hpp"
#include "tenet/device/reference/serial.hpp"

/// The executors of every test: pools of 1, 2 and 3 workers.
inline tenet::cpu::Workers& pool(int threads) {
  static tenet::cpu::Workers pools[3] = {tenet::cpu::Workers(1), tenet::cpu::Workers(2), tenet::cpu::Workers(3)};
  return pools[threads - 1];
}

/// The law of a device: run(executor, result) agrees with the reference within `tolerance` * (1 + |reference|), has the
/// same bits for any number of threads, and writes nothing beyond its result.
template <class Run>
void check_agreement(long size, double tolerance, Run run) {
  constexpr float untouched = 12345.25f;
  const auto count = static_cast<std::size_t>(size);
  std::vector<float> expected(count, untouched), first;
  tenet::reference::Serial serial;
  run(serial, expected.data());
  for (int threads = 1; threads <= 3; ++threads) {
    std::vector<float> result(count + 64, untouched);
    run(pool(threads), result.data());
    if (threads == 1) {
      double worst = 0;
      long differing = 0, nonzero = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (expected[i] != 0) ++nonzero;
        if (std::isnan(expected[i]) != std::isnan(result[i])) ++differing;
        if (std::isnan(expected[i]) || expected[i] == result[i]) continue;
        worst = std::fmax(worst, std::fabs(double{result[i]} - expected[i]) / (1 + std::fabs(double{expected[i]})));
      }
      CHECK(differing == 0);
      CHECK(worst <= tolerance);
      CHECK((size == 0 || nonzero > 0));  // a test of zeros tests nothing
      first = result;
      for (std::size_t i = count; i < result.size(); ++i) {
        if (result[i] != untouched) FAIL("written beyond the result at " << i << " of " << count);
      }
    }
    CHECK(std::memcmp(first.data(), result.data(), 4 * count) == 0);
  }
}

/// A kernel works in the `floats` of workspace that it says it needs: run(workers) asks for no more, and writes nothing
/// behind them.
template <class Run>
void check_workspace(long floats, Run run) {
  constexpr long behind = 64;
  constexpr float untouched = 12345.25f;
  std::vector<float> memory(static_cast<std::size_t>(floats + behind), untouched);
  tenet::cpu::Workers workers(2);
  workers.lend_workspace(memory.data(), floats);
  run(workers);
  CHECK(workers.owned_workspace() == 0);
  CHECK(std::count(memory.end() - behind, memory.end(), untouched) == behind);
}
