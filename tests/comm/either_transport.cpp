#include "tenet/comm/either_transport.hpp"

#include <algorithm>
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/simulated_transport.hpp>

#include "../support/ranks.hpp"

using namespace tenet;

using Either = EitherTransport<ThreadTransport, SimulatedTransport>;
struct OtherSimulated : SimulatedTransport {};
static_assert(SharesMemory<Either> && !SharesMemory<EitherTransport<SimulatedTransport, OtherSimulated>>);

namespace {

/// Sums of all ranks, of numbers where the transport has memory for them or else.
std::vector<float> sums(Either transport, bool is_first) {
  if (transport.is_first() != is_first) fail("is_first", "of two", "the one it was made of", "the other");
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
