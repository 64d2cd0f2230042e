#include "tenet/comm/machine_transport.hpp"

#include <tenet/comm/collectives.hpp>
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/either_transport.hpp>
#include <tenet/comm/simulated_transport.hpp>

#include "../support/doorbells.hpp"
#include "../support/message.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

using Both = MachineTransport<ThreadTransport, ThreadTransport>;
static_assert(KnowsMachines<Both> && SharesInside<Both> && MayShareMemory<Both> && !SharesMemory<Both>);
static_assert(!MayShareMemory<MachineTransport<SimulatedTransport, ThreadTransport>>);

namespace {

/// Calls body(transport) on a rank for each number of a machine.
template <class Body>
std::vector<std::string> run(const std::vector<int>& machine_of_rank, Body body) {
  const MachineTopology machines(machine_of_rank, {});
  std::vector<std::unique_ptr<ThreadNetwork>> networks;
  for (int machine = 0; machine < machines.count(); ++machine)
    networks.push_back(std::make_unique<ThreadNetwork>(static_cast<int>(machines.ranks(machine).size()),
                                                       std::chrono::milliseconds(500)));
  return ranks::run(
      static_cast<int>(machine_of_rank.size()),
      [&](ThreadTransport& transport) {
        const int rank = transport.rank();
        Both both(
            ThreadTransport(*networks[static_cast<std::size_t>(machines.machine_of(rank))], machines.place_of(rank)),
            transport, machine_of_rank);
        Both moved = std::move(both);
        body(moved);
      },
      std::chrono::milliseconds(500));
}

}  // namespace

TEST_CASE("messages go to ranks of the same machine and of others, in order", "[machine_transport]") {
  for (const std::string& message : run({0, 1, 0, 1, 2}, [](Both& transport) {
         const int rank = transport.rank(), n = transport.size();
         std::vector<std::vector<float>> sent;
         for (int to = 0; to < n; ++to)
           for (int i = 0; i < 3; ++i) {
             sent.emplace_back(2000, static_cast<float>(100 * rank + 10 * to + i));
             transport.send(to, sent.back().data(), 2000, {"message", i, to});
           }
         std::vector<float> found(2000);
         for (int from = 0; from < n; ++from)
           for (int i = 0; i < 3; ++i) {
             transport.receive_into(from, found.data(), 2000, {"message", i, rank});
             if (found[1999] != static_cast<float>(100 * from + 10 * rank + i))
               fail("receive", "message", "another", std::to_string(found[1999]));
           }
         transport.finish();
         barrier(transport, {"barrier", 0, 0});
         for (int from = 0; from < n; ++from)
           if (transport.arrived(from)) fail("arrived", "behind all", "nothing", "something");
       }))
    CHECK(message == "");
}

TEST_CASE("memory is common to the ranks of a machine alone, unless there is one only", "[machine_transport]") {
  for (const std::vector<int>& of_rank : {std::vector{0, 0, 1, 1}, std::vector{4, 4, 4, 4}})
    for (const std::string& message : run(of_rank, [&](Both& transport) {
           const bool is_one = of_rank[3] == of_rank[0];
           const OwnNumbers numbers(transport, 100);
           std::fill_n(numbers.data(), 100, static_cast<float>(transport.rank()));
           if (transport.link().shares != is_one || (transport.machines() == nullptr) != is_one)
             fail("link", "of so many machines", is_one ? "shared" : "apart", "otherwise");
           if (transport.link().machine.count != (is_one ? 1 : 2) || transport.link().machine.shares == is_one)
             fail("link", "cost of a machine", "that of ranks that share memory", "another");
           const auto use = [&](const SharedNumbers* shared) {
             const int first = transport.rank() / 2 * 2;
             for (int place = 0; place < (is_one ? 4 : 2); ++place)
               if (shared[place].data[99] != static_cast<float>(is_one ? place : first + place))
                 fail("share", "numbers", "those of a machine's ranks", std::to_string(shared[place].data[99]));
           };
           if (transport.share(numbers.data(), 100, {"numbers", 0, 1}, 1, use) != is_one)
             fail("share", "between machines", is_one ? "true" : "false", "otherwise");
           if (!transport.share_inside(numbers.data(), 100, {"numbers", 0, 2}, 1, use))
             fail("share_inside", "", "true", "false");
         }))
      CHECK(message == "");
}

TEST_CASE("a message wakes the rank that sleeps, where all of them are on one machine", "[machine_transport]") {
  for (const std::string& message : run({0, 0}, [](Both& transport) { doorbells::wake_second(transport); }))
    CHECK(message == "");
  for (const std::string& message : run({0, 0, 1}, [](Both& transport) {
         if (transport.doorbell() != nullptr) fail("doorbell", "of several machines", "none", "one");
       }))
    CHECK(message == "");
}

TEST_CASE("who waits for a rank names it by its number among all", "[machine_transport]") {
  const auto messages = run({0, 0, 1, 1}, [](Both& transport) {
    float number = 0;
    if (transport.rank() == 1) transport.receive_into(2, &number, 1, {"bucket", 3, 17});
  });
  CHECK(messages[1] ==
        "rank 1, bucket 3 of step 17: waits for a message from rank 2; expected within 0.5 s, found nothing");
}

TEST_CASE("a transport of other ranks than those of the machine is refused", "[machine_transport]") {
  ThreadNetwork inside(2), outside(4);
  CHECK(message_of([&] {
          Both(ThreadTransport(inside, 0), ThreadTransport(outside, 3), std::vector{0, 0, 1, 1});
        }) ==
        "rank 3: the transport inside of its machine; expected that of 2 ranks, of which it is the one with place 1, "
        "found 2, with place 0");
}

namespace {

/// What waits in one transport goes on while a rank waits in the other one.
struct Waiting : ThreadTransport {
  using ThreadTransport::ThreadTransport;
  Waiting(const ThreadTransport& own) : ThreadTransport(own) {}
  void call_while_waiting(Function<void()> call) { call_ = std::move(call); }
  void progress() { ++*progressed; }
  void finish() {
    call_();
    ThreadTransport::finish();
  }
  std::shared_ptr<int> progressed = std::make_shared<int>(0);

 private:
  Function<void()> call_;
};

}  // namespace

TEST_CASE("while one transport waits the other one goes on", "[machine_transport]") {
  ThreadNetwork network(1);
  const Waiting inside(ThreadTransport(network, 0)), outside(ThreadTransport(network, 0));
  MachineTransport<Waiting, Waiting> first(inside, outside, std::vector{0});
  MachineTransport<Waiting, Waiting> transport = std::move(first);
  transport.finish();
  CHECK(*inside.progressed == 1);
  CHECK(*outside.progressed == 1);
}
