#include "tenet/comm/collectives.hpp"

#include <bit>
#include <cmath>

#include "../support/ranks.hpp"

using namespace tenet;

namespace {

/// What a rank begins with: numbers of which sums are rounded, so that another order of summation is another sum.
float number(int rank, long i) { return static_cast<float>((i * 37 + rank * 61) % 1009) / 1009.0f - 0.5f; }

std::vector<float> numbers_of(int rank, long floats) {
  std::vector<float> result(static_cast<std::size_t>(floats));
  for (long i = 0; i < floats; ++i) result[static_cast<std::size_t>(i)] = number(rank, i);
  return result;
}

float weight_of(int rank) { return 0.25f + 0.5f * static_cast<float>(rank); }

double weighted_sum(int ranks, long i) {
  double sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += static_cast<double>(weight_of(rank)) * number(rank, i);
  return sum;
}

constexpr int sizes[]{1, 2, 3, 4, 5, 8};
constexpr long counts[]{1, 5, 16, 100, 1000};

/// reduce(transport, data, floats, label, weight) leaves the same sum, to the bit, on all ranks.
template <class Reduce>
void check_all_reduce(Reduce reduce) {
  for (const int size : sizes) {
    for (const long floats : counts) {
      CAPTURE(size, floats);
      std::vector<std::vector<float>> found(static_cast<std::size_t>(size));
      ranks::run_well(size, [&](ThreadTransport& transport) {
        for (int step = 0; step < 3; ++step) {  // again and again on the same connections
          std::vector<float> data = numbers_of(transport.rank(), floats);
          data.push_back(7);
          reduce(transport, data.data(), floats, MessageLabel{"sum", 0, step}, weight_of(transport.rank()));
          if (data.back() != 7) fail("all_reduce", "wrote behind the end", "7", std::to_string(data.back()));
          data.pop_back();
          found[static_cast<std::size_t>(transport.rank())] = data;
        }
      });
      for (const auto& of_rank : found) CHECK(of_rank == found[0]);
      double worst = 0;
      for (long i = 0; i < floats; ++i)
        worst = std::fmax(worst, std::fabs(found[0][static_cast<std::size_t>(i)] - weighted_sum(size, i)));
      CHECK(worst < 1e-5);
    }
  }
}

}  // namespace

TEST_CASE("parts cover all numbers, one after the other", "[collectives]") {
  for (const long floats : {0L, 1L, 15L, 16L, 33L, 1000L, 61712L}) {
    for (const int parts : {1, 2, 3, 7, 64}) {
      long next = 0;
      for (int part = 0; part < parts; ++part) {
        const FloatRange found = part_of(floats, part, parts);
        CHECK(found.first == next);
        CHECK(found.count >= 0);
        if (floats >= 16L * parts) CHECK(found.first % 16 == 0);
        next += found.count;
      }
      CHECK(next == floats);
    }
  }
}

TEST_CASE("all_reduce by a ring", "[collectives]") {
  check_all_reduce([](auto&&... arguments) { all_reduce_by_ring(arguments...); });
}
TEST_CASE("all_reduce by halving", "[collectives]") {
  check_all_reduce([](auto& transport, auto&&... arguments) {
    if (std::has_single_bit(static_cast<unsigned>(transport.size())))
      all_reduce_by_halving(transport, arguments...);
    else
      all_reduce_by_ring(transport, arguments...);
  });
}
TEST_CASE("all_reduce by doubling", "[collectives]") {
  check_all_reduce([](auto&&... arguments) { all_reduce_by_doubling(arguments...); });
}
TEST_CASE("all_reduce", "[collectives]") {
  check_all_reduce([](auto&&... arguments) { all_reduce(arguments...); });
}

TEST_CASE("reduce_scatter leaves each rank its part of the sum, and all_gather brings the parts together",
          "[collectives]") {
  for (const int size : sizes) {
    for (const long floats : counts) {
      CAPTURE(size, floats);
      std::vector<std::vector<float>> parts(static_cast<std::size_t>(size)), all(parts);
      ranks::run_well(size, [&](ThreadTransport& transport) {
        const auto rank = static_cast<std::size_t>(transport.rank());
        std::vector<float> data = numbers_of(transport.rank(), floats);
        reduce_scatter(transport, data.data(), floats, {"part", 0, 1}, weight_of(transport.rank()));
        transport.finish();
        const FloatRange own = part_of(floats, transport.rank(), size);
        parts[rank].assign(data.begin() + own.first, data.begin() + own.first + own.count);
        for (long i = 0; i < floats; ++i)
          if (i < own.first || i >= own.first + own.count) data[static_cast<std::size_t>(i)] = -99;
        barrier(transport, {"barrier", 0, 1});
        all_gather(transport, data.data(), floats, {"all", 0, 1});
        transport.finish();
        all[rank] = data;
      });
      std::vector<float> joined;
      for (const auto& part : parts) joined.insert(joined.end(), part.begin(), part.end());
      for (const auto& of_rank : all) CHECK(of_rank == joined);
      double worst = 0;
      for (long i = 0; i < floats; ++i)
        worst = std::fmax(worst, std::fabs(joined[static_cast<std::size_t>(i)] - weighted_sum(size, i)));
      CHECK(worst < 1e-5);
    }
  }
}

TEST_CASE("broadcast gives all ranks what the root has", "[collectives]") {
  for (const int size : sizes) {
    for (int root = 0; root < size; ++root) {
      CAPTURE(size, root);
      std::vector<std::vector<float>> found(static_cast<std::size_t>(size));
      ranks::run_well(size, [&](ThreadTransport& transport) {
        std::vector<float> data = numbers_of(transport.rank(), 37);
        broadcast(transport, root, data.data(), 37, {"parameters", 0, 0});
        found[static_cast<std::size_t>(transport.rank())] = data;
      });
      for (const auto& of_rank : found) CHECK(of_rank == numbers_of(root, 37));
    }
  }
}

TEST_CASE("nobody leaves a barrier before all have come", "[collectives]") {
  for (const int size : sizes) {
    std::atomic<int> come{0}, wrong{0};
    ranks::run_well(size, [&](ThreadTransport& transport) {
      for (int step = 1; step <= 50; ++step) {
        ++come;
        barrier(transport, {"barrier", 0, step});
        wrong += come < step * size;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a rank that is gone is named by those that wait for it", "[collectives]") {
  for (const int gone : {0, 1, 2}) {
    const auto messages = ranks::run(
        3,
        [&](ThreadTransport& transport) {
          std::vector<float> data = numbers_of(transport.rank(), 1000);
          for (int step = 0; step < 5; ++step) {
            if (transport.rank() == gone && step == 3) return;
            all_reduce_by_ring(transport, data.data(), 1000, {"bucket", 1, step});
          }
        },
        std::chrono::milliseconds(100));
    CAPTURE(gone, messages);
    int naming = 0;
    const std::string name = "for rank " + std::to_string(gone) + "; expected within 0.1 s";
    const std::string directly = "from rank " + std::to_string(gone) + "; expected within 0.1 s";
    for (const std::string& message : messages)
      naming += (message.find(name) != std::string::npos || message.find(directly) != std::string::npos) &&
                message.find("bucket 1 of step 3") != std::string::npos;
    CHECK(naming >= 1);
    CHECK(messages[static_cast<std::size_t>(gone)] == "");
  }
}

TEST_CASE("halving and doubling add up in the order of the same tree", "[collectives]") {
  for (const int size : {2, 4, 8}) {
    for (const long floats : counts) {
      CAPTURE(size, floats);
      std::vector<std::vector<float>> terms;
      for (int rank = 0; rank < size; ++rank) terms.push_back(numbers_of(rank, floats));
      for (int distance = 1; distance < size; distance *= 2)
        for (int rank = 0; rank + distance < size; rank += 2 * distance)
          for (std::size_t i = 0; i < terms[0].size(); ++i)
            terms[static_cast<std::size_t>(rank)][i] += terms[static_cast<std::size_t>(rank + distance)][i];
      for (const int way : {0, 1, 2}) {
        std::vector<float> found;
        ranks::run_well(size, [&](ThreadTransport& transport) {
          std::vector<float> data = numbers_of(transport.rank(), floats);
          if (way == 0) all_reduce_by_halving(transport, data.data(), floats, {"sum", 0, 1});
          if (way == 1) all_reduce_by_doubling(transport, data.data(), floats, {"sum", 0, 1});
          if (way == 2) all_reduce(transport, data.data(), floats, {"sum", 0, 1});
          if (transport.rank() == size - 1) found = data;
        });
        CHECK(found == terms[0]);
      }
    }
  }
}
