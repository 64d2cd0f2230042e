#include "tenet/comm/common_memory.hpp"

#include <sys/resource.h>

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

namespace {

/// Whether other processes can read it.
bool is_common(const SharedMemoryTransport& transport, const float* data) {
  const long place = transport.place_of(data);
  return place >= 0 && place < 1L << 36;
}
void check_zeros(const OwnNumbers& numbers, long floats) {
  if (std::count(numbers.data(), numbers.data() + floats, 0.0f) != floats)
    fail("own numbers", "new", "zeros", "others");
}

}  // namespace

TEST_CASE("a rank's own numbers lie where they are sent from, if they are sent", "[common_memory]") {
  constexpr long floats = 100'000;
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    const OwnNumbers sent(transport, floats), kept(transport, floats, false);
    check_zeros(sent, floats);
    check_zeros(kept, floats);
    if (!is_common(transport, sent.data())) fail("own numbers", "sent", "in common memory", "elsewhere");
    if (is_common(transport, kept.data())) fail("own numbers", "not sent", "elsewhere", "in common memory");
    barrier(transport, {"the end", 0, 0});
  });
  SimulatedNetwork network(1);
  network.run([](SimulatedTransport& transport) { check_zeros(OwnNumbers(transport, floats), floats); });
}

TEST_CASE("where common memory has no room, a rank's own numbers are copied when they are sent", "[common_memory]") {
  constexpr long floats = 1'000'000;
  for (const int poor : {0, 1}) {  // the other one finds room
    processes::run_well(2, [poor](SharedMemoryTransport& transport) {
      const bool is_poor = transport.rank() == poor;
      if (is_poor) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit little{1 << 20, 1 << 20};  // bytes of a file that grows: the first one to ask makes it grow
        setrlimit(RLIMIT_FSIZE, &little);
      } else {
        barrier(transport, {"the poor one first", 0, 0});
      }
      const OwnNumbers numbers(transport, floats);
      if (is_poor) barrier(transport, {"the poor one first", 0, 0});
      check_zeros(numbers, floats);
      if (is_common(transport, numbers.data()) == is_poor)
        fail("own numbers", "without room", "elsewhere", "in common memory");
      std::fill_n(numbers.data(), floats, static_cast<float>(1 + transport.rank()));
      all_reduce(transport, numbers.data(), floats, {"numbers", 0, 0});
      if (std::count(numbers.data(), numbers.data() + floats, 3.0f) != floats)
        fail("all_reduce", "wrong numbers", "3", "others");
    });
  }
}
