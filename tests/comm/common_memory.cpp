#include "tenet/comm/common_memory.hpp"

#include <tenet/comm/simulated_transport.hpp>

#include "../support/processes.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

static_assert(SharesMemory<ThreadTransport> && SharesMemory<SharedMemoryTransport> &&
              !SharesMemory<SimulatedTransport>);

namespace {

/// Each rank writes its own number, and finds those of all others.
template <class T>
std::vector<float> exchange(T& transport) {
  float* const small = common_memory(transport, 1, {"a number", 0, 0});
  float* const numbers = common_memory(transport, 100'000, {"numbers", 0, 0});
  const int rank = transport.rank(), size = transport.size();
  std::vector<float> found{*small, numbers[0], numbers[99'999]};  // zeros
  barrier(transport, {"before", 0, 0});
  numbers[99'999 - rank] = static_cast<float>(1 + rank);
  if (rank == 0) *small = 7;
  barrier(transport, {"behind", 0, 0});
  found.push_back(*small);
  for (int other = 0; other < size; ++other) found.push_back(numbers[99'999 - other]);
  barrier(transport, {"the end", 0, 0});
  return found;
}

}  // namespace

TEST_CASE("what a rank writes into common memory all of them find", "[common_memory]") {
  const std::vector<float> expected{0, 0, 0, 7, 1, 2, 3};
  for (const auto& found : ranks::collect(3, [](ThreadTransport& transport) { return exchange(transport); }))
    CHECK(found == expected);
  for (const auto& found : processes::collect(3, [](SharedMemoryTransport& transport) { return exchange(transport); }))
    CHECK(found == expected);
}
