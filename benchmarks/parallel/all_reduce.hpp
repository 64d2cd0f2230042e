#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

/// The sizes that are measured: 1 KB to 45 MB, the gradients of ResNet-18.
inline constexpr long all_reduce_sizes[]{256, 1024, 16384, 262144, 1048576, 11200000};

/// The least time of one call, over rounds that all ranks begin together.
template <class Meet, class Call>
double least_seconds(long floats, Meet meet, Call call) {
  const long calls = std::max(1L, 2000000 / floats / 4);
  double least = 1e30;
  for (int round = 0; round < 15; ++round) {
    meet();
    const auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) call();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
                                static_cast<double>(calls));
  }
  return least;
}

/// Writes numbers that the next all_reduce adds up: other ones each time, and small.
inline void write(std::vector<float>& data, long step) {
  std::fill(data.begin(), data.end(), 1e-9f * static_cast<float>(step));
}

/// An entry of a JSON object, by the number of bytes.
inline std::string entry(long floats, const std::string& value, bool first) {
  return std::string(first ? "" : ", ") + "\"" + std::to_string(4 * floats) + "\": " + value;
}
