#include "tenet/parallel/key_value_server.hpp"

#include <catch2/catch.hpp>
#include <tenet/comm/thread_transport.hpp>
#include <thread>

using namespace tenet;
using namespace std::chrono_literals;
using detail::StoreHeader;
using Messages = detail::StoreMessages<ThreadTransport>;
using enum StoreHeader::Kind;

namespace {

/// A server, rank 0 of two, and another rank's side of its messages: both are small enough for one thread.
struct Pair {
  explicit Pair(std::chrono::nanoseconds limit = 20s)
      : network(2, 20s),
        messages(ThreadTransport(network, 0)),
        other(ThreadTransport(network, 1)),
        server(
            messages,
            [](std::span<float> sum, std::span<const float> pushed) {
              for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += pushed[i];
            },
            [](const Pushed& pushed, std::span<float> value) {
              std::copy(pushed.values.begin(), pushed.values.end(), value.begin());
            },
            limit) {}

  /// What the other rank asks, and the server takes.
  void ask(StoreHeader header, std::vector<float> values = {}) {
    if (header.kind != pull) header.floats = static_cast<long>(values.size());
    other.send(0, header);
    if (header.kind != pull) other.send(0, values);
    const StoreHeader taken = messages.receive(1);
    if (taken.kind == pull)
      server.take_pull(1, taken);
    else
      server.take_values(1, taken);
  }
  StoreHeader answer() { return other.arrived(0) ? other.receive(0) : StoreHeader{}; }  // else: leave

  ThreadNetwork network;
  Messages messages, other;
  detail::StoreServer<ThreadTransport> server;
};

}  // namespace

TEST_CASE("what is assigned and pushed is acknowledged, and pulled as it has become", "[key_value_server]") {
  Pair ranks;
  ranks.ask({.kind = assign, .slot = 1, .key = 7}, {1, 2});
  const StoreHeader assigned = ranks.answer();
  CHECK(assigned.kind == acknowledged);
  CHECK(assigned.slot == 1);
  ranks.ask({.kind = push, .slot = 0, .key = 7, .weight = 2}, {3, 4});
  CHECK(ranks.answer().kind == acknowledged);
  ranks.ask({.kind = pull, .slot = 3, .key = 7, .staleness = 1, .floats = 2, .clock = 1});
  const StoreHeader found = ranks.answer();
  CHECK(found.kind == pulled);
  CHECK(found.slot == 3);
  std::vector<float> values(2);
  ranks.other.receive_into(0, values);
  CHECK(values == std::vector<float>{6, 8});
  CHECK(ranks.answer().kind == leave);  // nothing else
  CHECK(ranks.server.largest_lead() == 1);
}

TEST_CASE("a pull waits for the key, and for others as long as it has to", "[key_value_server]") {
  Pair ranks;
  const StoreHeader wanted{.kind = pull, .slot = 2, .key = 7, .in_rounds = 1, .floats = 1, .clock = 1};
  ranks.ask(wanted);
  CHECK(ranks.answer().kind == leave);
  ranks.ask({.kind = assign, .key = 7}, {1});
  CHECK(ranks.answer().kind == acknowledged);
  ranks.ask({.kind = push, .key = 7, .in_rounds = 1}, {3});
  CHECK(ranks.answer().kind == acknowledged);
  CHECK(ranks.answer().kind == leave);  // rank 0 has not pushed
  ranks.messages.send(0, StoreHeader{.kind = push, .key = 7, .in_rounds = 1, .floats = 1});
  ranks.messages.send(0, std::vector<float>{4});
  ranks.server.take_values(0, ranks.messages.receive(0));
  CHECK(ranks.messages.receive(0).kind == acknowledged);
  CHECK(ranks.answer().kind == pulled);
  std::vector<float> values(1);
  ranks.other.receive_into(0, values);
  CHECK(values[0] == 7);
  CHECK(ranks.server.largest_lead() == 0);
}

TEST_CASE("another length than the key's is refused, and said", "[key_value_server]") {
  Pair ranks;
  ranks.ask({.kind = assign, .key = 7}, {1, 2, 3});
  CHECK(ranks.answer().kind == acknowledged);
  ranks.ask({.kind = push, .slot = 1, .key = 7}, {1, 2});
  const StoreHeader pushed = ranks.answer();
  CHECK(pushed.kind == refused);
  CHECK(pushed.slot == 1);
  CHECK(pushed.floats == 3);
  ranks.ask({.kind = pull, .slot = 2, .key = 7, .floats = 4});
  const StoreHeader asked = ranks.answer();
  CHECK(asked.kind == refused);
  CHECK(asked.slot == 2);
  CHECK(asked.floats == 3);
}

TEST_CASE("whoever has waited for half of the limit is told once for whom", "[key_value_server]") {
  Pair ranks(200ms);
  ranks.ask({.kind = assign, .key = 7}, {1});
  ranks.ask({.kind = push, .key = 7, .in_rounds = 1}, {3});
  for (int i = 0; i < 2; ++i) CHECK(ranks.answer().kind == acknowledged);
  const auto begin = std::chrono::steady_clock::now();
  ranks.ask({.kind = pull, .slot = 3, .key = 7, .in_rounds = 1, .floats = 1, .clock = 1});
  ranks.server.tell_who_is_missed();
  if (std::chrono::steady_clock::now() - begin < 100ms) CHECK(ranks.answer().kind == leave);
  std::this_thread::sleep_for(110ms);
  ranks.server.tell_who_is_missed();
  ranks.server.tell_who_is_missed();
  const StoreHeader told = ranks.answer();
  CHECK(told.kind == waits);
  CHECK(told.slot == 3);
  CHECK(told.key == 0);  // rank 0 has not pushed
  CHECK(ranks.answer().kind == leave);
}
