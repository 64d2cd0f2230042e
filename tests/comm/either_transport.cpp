#include "tenet/comm/either_transport.hpp"

#include <algorithm>
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/machine_transport.hpp>
#include <tenet/comm/simulated_transport.hpp>

#include "../support/doorbells.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

using Either = EitherTransport<ThreadTransport, SimulatedTransport>;
struct OtherSimulated : SimulatedTransport {};
using Machine = MachineTransport<ThreadTransport, ThreadTransport>;
struct OtherThread : ThreadTransport {};
static_assert(KnowsMachines<Either> && !KnowsMachines<EitherTransport<ThreadTransport, OtherThread>>);
static_assert(!SharesInside<Either> && SharesInside<EitherTransport<ThreadTransport, Machine, SimulatedTransport>>);
static_assert(SharesMemory<Either> && !SharesMemory<EitherTransport<SimulatedTransport, OtherSimulated>>);

namespace {

/// Sums of all ranks, of numbers where the transport has memory for them or else.
std::vector<float> sums(Either transport, bool is_first) {
  if (transport.is<ThreadTransport>() != is_first) fail("is", "of two", "the one it was made of", "the other");
  const OwnNumbers numbers(transport, 5000);
  const MessageLabel label{"numbers", 0, 1};
  std::fill_n(numbers.data(), 5000, static_cast<float>(1 + transport.rank()));
  const bool is_shared = transport.share(numbers.data(), 5000, label, 1, [](const SharedNumbers*) {});
  if (is_shared != is_first || transport.link().shares != is_first)
    fail("share", "", is_first ? "true" : "false", "otherwise");
  float* const memory = transport.memory(10);
  if ((memory != nullptr) != is_first || transport.at(transport.place_of(memory)) != memory)
    fail("at", "", is_first ? "where they lie" : "nowhere", "something else");
  all_reduce(transport, numbers.data(), 5000, {"numbers", 0, 2});
  barrier(transport, {"barrier", 0, 3});
  if (transport.arrived((transport.rank() + 1) % transport.size()))
    fail("arrived", "behind all", "nothing", "something");
  return {numbers.data(), numbers.data() + 5000};
}

}  // namespace

TEST_CASE("one of two transports does what it does by itself", "[either_transport]") {
  const std::vector<float> expected(5000, 6);
  for (const auto& found : ranks::collect(3, [](ThreadTransport& transport) { return sums(transport, true); }))
    CHECK(found == expected);
  SimulatedNetwork network(3);
  std::vector<std::vector<float>> found(3);
  network.run([&](SimulatedTransport& transport) {
    found[static_cast<std::size_t>(transport.rank())] = sums(transport, false);
  });
  for (const auto& of_rank : found) CHECK(of_rank == expected);
}

TEST_CASE("one of several transports may know which ranks run on one machine", "[either_transport]") {
  using Any = EitherTransport<SimulatedTransport, ThreadTransport, Machine>;
  ThreadNetwork inside(1), outside(2);
  const Any alone(ThreadTransport(inside, 0));
  CHECK(alone.machines() == nullptr);
  CHECK(!alone.is<Machine>());
  Any either(Machine(ThreadTransport(inside, 0), ThreadTransport(outside, 1), std::vector{3, 5}));
  REQUIRE(either.is<Machine>());
  const MachineTopology* const before = either.machines();
  Any moved = std::move(either);
  CHECK(moved.machines() == before);
  CHECK(moved.machines()->count() == 2);
  float number = 7, found = 0;
  CHECK(
      moved.share_inside(&number, 1, {"number", 0, 0}, 1, [&](const SharedNumbers* shared) { found = *shared->data; }));
  CHECK(found == 7);
}

TEST_CASE("of the doorbells that transports may have it is the chosen one's", "[either_transport]") {
  static_assert(HasDoorbell<Either> && !HasDoorbell<EitherTransport<SimulatedTransport, OtherSimulated>>);
  ranks::run_well(2, [](ThreadTransport& transport) {
    Either either(transport);
    doorbells::wake_second(either);
  });
  SimulatedNetwork network(1);
  network.run([&](SimulatedTransport& transport) { CHECK(Either(transport).doorbell() == nullptr); });
}
