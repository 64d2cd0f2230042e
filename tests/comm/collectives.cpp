#include "tenet/comm/collectives.hpp"

#include <cmath>

#include "../support/collectives.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

namespace {

using collectives::numbers_of;
using collectives::weight_of;
using collectives::weighted_sum;

constexpr int sizes[]{1, 2, 3, 4, 5, 8};
constexpr long counts[]{1, 5, 16, 100, 1000};

}  // namespace

TEST_CASE("all_reduce", "[collectives]") {
  collectives::check_all_reduce_of_threads([](auto&&... arguments) { all_reduce(arguments...); });
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

TEST_CASE("broadcast gives all ranks what the root has, whole or in parts", "[collectives]") {
  constexpr LinkCost slow{1, 1e-9}, narrow{1e-9, 1};
  STATIC_REQUIRE(!broadcasts_parts(8, 50'000, slow) && broadcasts_parts(8, 50'000, narrow));
  STATIC_REQUIRE(!broadcasts_parts(2, 50'000, narrow));  // each number would be sent as often
  STATIC_REQUIRE(!broadcasts_parts(8, 37, narrow));      // there are no parts
  struct WithLink : ThreadTransport {
    LinkCost cost;
    WithLink(const ThreadTransport& own, const LinkCost& of) : ThreadTransport(own), cost(of) {}
    LinkCost link() const { return cost; }
  };
  for (const int size : sizes)
    for (int root = 0; root < size; ++root)
      for (const long floats : {37L, 50'000L})
        for (const LinkCost& cost : {slow, narrow}) {
          CAPTURE(size, root, floats, cost.seconds);
          const auto found = ranks::collect(size, [&](ThreadTransport& transport) {
            WithLink with(transport, cost);
            std::vector<float> data = numbers_of(transport.rank(), floats);
            broadcast(with, root, data.data(), floats, {"parameters", 0, 0});
            return data;
          });
          for (const auto& of_rank : found) CHECK(of_rank == numbers_of(root, floats));
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
