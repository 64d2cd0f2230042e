#include "tenet/comm/trees.hpp"

#include <bit>
#include <tenet/comm/collectives.hpp>

#include "../support/collectives.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

TEST_CASE("all_reduce by halving", "[collectives]") {
  collectives::check_all_reduce_of_threads([](auto& transport, auto&&... arguments) {
    if (std::has_single_bit(static_cast<unsigned>(transport.size())))
      all_reduce_by_halving(transport, arguments...);
    else
      all_reduce_by_ring(transport, arguments...);
  });
}

TEST_CASE("all_reduce by doubling", "[collectives]") {
  collectives::check_all_reduce_of_threads([](auto&&... arguments) { all_reduce_by_doubling(arguments...); });
}

TEST_CASE("all_reduce by sharing", "[collectives]") {
  collectives::check_all_reduce_of_threads([](auto&&... arguments) {
    if (!all_reduce_by_sharing(arguments...)) fail("share", "between threads", "true", "false");
  });
}

TEST_CASE("halving, doubling and sharing add up in the order of the same tree", "[collectives]") {
  for (const int size : {2, 4, 8}) {
    for (const long floats : {1L, 5L, 16L, 100L, 1000L}) {
      CAPTURE(size, floats);
      std::vector<std::vector<float>> terms;
      const auto weight = [](int rank) { return 1.0f / static_cast<float>(3 + 2 * rank); };
      for (int rank = 0; rank < size; ++rank) {
        terms.push_back(collectives::numbers_of(rank, floats));
        for (volatile float& term : terms.back()) term = term * weight(rank);  // rounded before it is added
      }
      for (int distance = 1; distance < size; distance *= 2)
        for (int rank = 0; rank + distance < size; rank += 2 * distance)
          for (std::size_t i = 0; i < terms[0].size(); ++i)
            terms[static_cast<std::size_t>(rank)][i] += terms[static_cast<std::size_t>(rank + distance)][i];
      for (const int way : {0, 1, 2, 3}) {
        std::vector<float> found;
        ranks::run_well(size, [&](ThreadTransport& transport) {
          std::vector<float> data = collectives::numbers_of(transport.rank(), floats);
          const float own = weight(transport.rank());
          if (way == 0) all_reduce_by_halving(transport, data.data(), floats, {"sum", 0, 1}, own);
          if (way == 1) all_reduce_by_doubling(transport, data.data(), floats, {"sum", 0, 1}, own);
          if (way == 2) all_reduce_by_sharing(transport, data.data(), floats, {"sum", 0, 1}, own);
          if (way == 3) all_reduce(transport, data.data(), floats, {"sum", 0, 1}, own);
          if (transport.rank() == size - 1) found = data;
        });
        CHECK(found == terms[0]);
      }
    }
  }
}
