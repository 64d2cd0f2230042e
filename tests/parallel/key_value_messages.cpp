#include "tenet/parallel/key_value_messages.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <tenet/comm/thread_transport.hpp>
#include <thread>

using namespace tenet;
using namespace std::chrono_literals;
using detail::StoreHeader;
using detail::StoreMessages;

namespace {

/// Reads what a rank has sent itself when that is received, as transports may.
class LateTransport : public ThreadTransport {
 public:
  explicit LateTransport(ThreadNetwork& network) : ThreadTransport(network, 0) {}
  void send(int, const float* data, long, MessageLabel) { sent_.push_back(data); }
  void receive_into(int, float* to, long floats, MessageLabel) {
    std::copy_n(sent_.front(), floats, to);
    sent_.pop_front();
  }

 private:
  std::deque<const float*> sent_;
};

}  // namespace

TEST_CASE("a header may be read when others have been sent behind it", "[key_value_messages]") {
  ThreadNetwork network(1, 20s);
  StoreMessages messages{LateTransport(network)};
  for (int round = 0; round < 20; ++round) {
    for (int key = 0; key < 16; ++key) messages.send(0, {.key = 100 * round + key});
    for (int key = 0; key < 16; ++key) CHECK(messages.receive(0).key == 100 * round + key);
  }
}

TEST_CASE("headers and the numbers behind them arrive as they were sent, in their order", "[key_value_messages]") {
  ThreadNetwork network(3, 20s);
  constexpr int rounds = 100;  // more than headers are kept at a time
  const auto header_of = [](int round) {
    StoreHeader header{.kind = round % 2 == 0 ? StoreHeader::Kind::push : StoreHeader::Kind::waits,
                       .slot = round % 4,
                       .key = round,
                       .floats = 10 * round,
                       .clock = 1L << 40,
                       .weight = 0.1f,
                       .setting_count = 2};
    header.settings[1] = -3.5f;
    return header;
  };
  std::thread other([&] {
    StoreMessages messages{ThreadTransport(network, 2)};
    for (int round = 0; round < rounds; ++round) {
      messages.send(0, header_of(round));
      const std::vector<float> values(static_cast<std::size_t>(10 * round), static_cast<float>(round));
      if (round % 2 == 0) messages.send(0, values);
      while (!messages.arrived(0)) std::this_thread::yield();
      CHECK(messages.receive(0).key == -round);
      messages.transport().finish();
    }
  });
  StoreMessages messages{ThreadTransport(network, 0)};
  CHECK(messages.rank() == 0);
  CHECK(messages.size() == 3);
  for (int round = 0; round < rounds; ++round) {
    while (!messages.arrived(2)) std::this_thread::yield();
    CHECK_FALSE(messages.arrived(1));
    const StoreHeader header = messages.receive(2), expected = header_of(round);
    CHECK(header.kind == expected.kind);
    CHECK(header.slot == expected.slot);
    CHECK(header.key == expected.key);
    CHECK(header.floats == expected.floats);
    CHECK(header.clock == expected.clock);
    CHECK(header.weight == expected.weight);
    CHECK(header.setting_count == expected.setting_count);
    CHECK(header.settings == expected.settings);
    if (round % 2 == 0) {
      std::vector<float> values(static_cast<std::size_t>(header.floats));
      messages.receive_into(2, values);
      CHECK(values == std::vector<float>(values.size(), static_cast<float>(round)));
    }
    messages.send(2, {.key = -round});
  }
  messages.transport().finish();
  other.join();
}
