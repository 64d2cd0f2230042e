#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <tenet/comm/collectives.hpp>
#include <vector>

#include "ranks.hpp"

/// What tests of collectives share, over any transport.
namespace collectives {

/// What a rank begins with: numbers of which sums are rounded, so that another order of summation is another sum.
inline float number(int rank, long i) { return static_cast<float>((i * 37 + rank * 61) % 1009) / 1009.0f - 0.5f; }

inline std::vector<float> numbers_of(int rank, long floats) {
  std::vector<float> result(static_cast<std::size_t>(floats));
  for (long i = 0; i < floats; ++i) result[static_cast<std::size_t>(i)] = number(rank, i);
  return result;
}

inline float weight_of(int rank) { return 0.25f + 0.5f * static_cast<float>(rank); }

inline double weighted_sum(int ranks, long i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += static_cast<double>(weight_of(rank)) * number(rank, i);
  return sum;
}

/// reduce(transport, data, floats, label, weight) leaves the same sum, to the bit, on all ranks. collect(size, body)
/// runs the ranks and returns what body(transport) returns on each.
template <class Collect, class Reduce>
void check_all_reduce(Collect collect, int size, long floats, Reduce reduce) {
  CAPTURE(size, floats);
  const std::vector<std::vector<float>> found = collect(size, [&](auto& transport) {
    std::vector<float> data;
    for (int step = 0; step < 3; ++step) {  // again and again on the same connections
      data = numbers_of(transport.rank(), floats);
      data.push_back(7);
      reduce(transport, data.data(), floats, tenet::MessageLabel{"sum", 0, step}, weight_of(transport.rank()));
      if (data.back() != 7) tenet::fail("all_reduce", "wrote behind the end", "7", std::to_string(data.back()));
      data.pop_back();
    }
    return data;
  });
  for (const auto& of_rank : found) CHECK(of_rank == found[0]);
  REQUIRE(found[0].size() == static_cast<std::size_t>(floats));
  double worst = 0;
  for (long i = 0; i < floats; ++i)
    worst = std::fmax(worst, std::fabs(found[0][static_cast<std::size_t>(i)] - weighted_sum(size, i)));
  CHECK(worst < 1e-5);
}

/// The same among threads, of few of them and more.
template <class Reduce>
void check_all_reduce_of_threads(Reduce reduce) {
  for (const int size : {1, 2, 3, 4, 5, 8})
    for (const long floats : {1L, 5L, 16L, 100L, 1000L})
      check_all_reduce([](int count, auto body) { return ranks::collect(count, body); }, size, floats, reduce);
}

}  // namespace collectives
