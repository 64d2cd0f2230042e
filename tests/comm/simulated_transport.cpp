#include "tenet/comm/simulated_transport.hpp"

#include <bit>
#include <tenet/parallel/key_value_store.hpp>

#include "../support/collectives.hpp"
#include "../support/message.hpp"

using namespace tenet;

namespace {

// Powers of two: their sums are exact, so that times can be compared as they are.
constexpr double alpha = 1.0 / 1024, bandwidth = 1 << 20, beta = sizeof(float) / bandwidth;
constexpr SimulatedLink usual{.latency = alpha, .bytes_per_second = bandwidth};
constexpr double never = SimulatedNetworkOptions::never;

int rounds_of(int size) { return std::bit_width(static_cast<unsigned>(size - 1)); }

/// The time of reduce(transport, data, floats, label) on ranks whose sums are checked.
template <class Reduce>
double seconds_of(int size, long floats, Reduce reduce, SimulatedNetworkOptions options = {.link = usual}) {
  CAPTURE(size, floats);
  SimulatedNetwork network(size, options);
  std::vector<std::vector<float>> found(static_cast<std::size_t>(size));
  const double seconds = network.run([&](SimulatedTransport& transport) {
    std::vector<float>& data = found[static_cast<std::size_t>(transport.rank())];
    data.resize(static_cast<std::size_t>(floats));
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(transport.rank() + 1 + i % 64);
    reduce(transport, data.data(), floats, MessageLabel{"sum", 0, 1});
  });
  int wrong = 0;
  for (const auto& of_rank : found)
    for (std::size_t i = 0; i < of_rank.size(); ++i)
      wrong += of_rank[i] != static_cast<float>(size * (size + 1) / 2 + size * static_cast<int>(i % 64));
  CHECK(wrong == 0);
  return seconds;
}

constexpr auto by_ring = [](auto&&... arguments) { all_reduce_by_ring(arguments...); };
constexpr auto by_halving = [](auto&&... arguments) { all_reduce_by_halving(arguments...); };
constexpr auto by_doubling = [](auto&&... arguments) { all_reduce_by_doubling(arguments...); };

void send_ones(SimulatedTransport& transport, int to, long floats, long step = 0) {
  const std::vector<float> ones(static_cast<std::size_t>(floats), 1.0f);
  transport.send(to, ones.data(), floats, {"message", 0, step});
}
void take(SimulatedTransport& transport, int from, long floats, long step = 0) {
  std::vector<float> found(static_cast<std::size_t>(floats));
  transport.receive_into(from, found.data(), floats, {"message", 0, step});
}

}  // namespace

TEST_CASE("a ring takes 2(n-1)(alpha + m/n beta)", "[simulated_transport]") {
  for (int n = 2; n <= 16; ++n) {
    const long part = 16 * n;
    CHECK(seconds_of(n, n * part, by_ring) == 2 * (n - 1) * (alpha + static_cast<double>(part) * beta));
  }
}

TEST_CASE("halving takes 2 log2(n) alpha + 2 (n-1)/n m beta", "[simulated_transport]") {
  for (const int n : {2, 4, 8, 16}) {
    const long part = 64;
    CHECK(seconds_of(n, n * part, by_halving) ==
          2 * rounds_of(n) * alpha + 2 * (n - 1) * static_cast<double>(part) * beta);
  }
}

TEST_CASE("doubling takes log2(n)(alpha + m beta), one round more for other n", "[simulated_transport]") {
  for (int n = 2; n <= 16; ++n) {
    const int rounds = rounds_of(n) + (std::has_single_bit(static_cast<unsigned>(n)) ? 0 : 1);
    CHECK(seconds_of(n, 256, by_doubling) == rounds * (alpha + 256 * beta));
  }
}

TEST_CASE("broadcast takes log2(n)(alpha + m beta), a barrier log2(n) alpha", "[simulated_transport]") {
  for (int n = 2; n <= 16; ++n) {
    CAPTURE(n);
    SimulatedNetwork network(n, {.link = usual});
    CHECK(network.run([](SimulatedTransport& transport) {
      barrier(transport, {"barrier", 0, 1});
    }) == rounds_of(n) * alpha);
    if (!std::has_single_bit(static_cast<unsigned>(n))) continue;
    CHECK(network.run([](SimulatedTransport& transport) {
      std::vector<float> data(256);
      broadcast(transport, 0, data.data(), 256, {"data", 0, 1});
    }) == rounds_of(n) * (alpha + 256 * beta));
  }
}

TEST_CASE("all_reduce takes the quickest way, to a rounding of the parts", "[simulated_transport]") {
  constexpr auto by_any = [](auto&&... arguments) { all_reduce(arguments...); };
  CHECK(seconds_of(8, 16, by_any) == seconds_of(8, 16, by_doubling));
  CHECK(seconds_of(8, 1 << 14, by_any) == seconds_of(8, 1 << 14, by_halving));
  CHECK(seconds_of(6, 6 * 4096, by_any) == seconds_of(6, 6 * 4096, by_ring));
}

TEST_CASE("the laws of collectives hold", "[simulated_transport]") {
  for (const int size : {1, 2, 3, 5, 8})
    for (const long floats : {1L, 5L, 100L, 1000L})
      collectives::check_all_reduce(
          [](int count, auto body) {
            std::vector<std::vector<float>> result(static_cast<std::size_t>(count));
            SimulatedNetwork(count).run([&](SimulatedTransport& transport) {
              result[static_cast<std::size_t>(transport.rank())] = body(transport);
            });
            return result;
          },
          size, floats, [](auto&&... arguments) { all_reduce(arguments...); });
}

TEST_CASE("one slow link makes the whole ring slow", "[simulated_transport]") {
  constexpr int n = 8;
  constexpr long part = 1024;
  const double quick = seconds_of(n, n * part, by_ring);
  const double slow = seconds_of(n, n * part, by_ring, {.link_between = [](int from, int to) {
                                   return from == 2 && to == 3 ? SimulatedLink{alpha, bandwidth / 16} : usual;
                                 }});
  // What goes over the slow link is 2(n-1) parts, which it sends without a pause.
  CHECK(slow > 2 * (n - 1) * part * beta * 16);
  CHECK(slow < 2 * (n - 1) * (alpha + part * beta * 16));
  CHECK(slow > 6 * quick);
}

TEST_CASE("what is computed while a message is under way takes no time besides", "[simulated_transport]") {
  const double message = alpha + 4096 * beta;
  for (const double computed : {0.0, message / 2, message, 3 * message}) {
    SimulatedNetwork network(2, {.link = usual});
    const double seconds = network.run([&](SimulatedTransport& transport) {
      send_ones(transport, 1 - transport.rank(), 4096);
      transport.compute(computed);
      take(transport, 1 - transport.rank(), 4096);
      transport.finish();
      if (transport.now() != std::max(computed, message)) fail("now", "time", "the longer one", "another");
    });
    CHECK(seconds == std::max(computed, message));
  }
}

TEST_CASE("buckets that leave during the backward pass hide behind it, as far as they are quicker",
          "[simulated_transport]") {
  constexpr int n = 4, buckets = 6;
  constexpr long floats = 256 * n;
  constexpr double exchange = 2 * (n - 1) * (alpha + 256 * beta);
  for (const double interval : {exchange / 2, 2 * exchange}) {
    SimulatedNetwork network(n, {.link = usual});
    CHECK(network.run([&](SimulatedTransport& transport) {
      std::vector<float> data(floats);
      for (int bucket = 0; bucket < buckets; ++bucket) {
        const double complete = (bucket + 1) * interval;
        if (transport.now() < complete) transport.compute(complete - transport.now());
        all_reduce_by_ring(transport, data.data(), floats, {"bucket", bucket, 1});
      }
    }) == (interval > exchange ? buckets * interval + exchange : interval + buckets * exchange));
  }
}

TEST_CASE("ports are busy with one message at a time, in each direction", "[simulated_transport]") {
  constexpr double size = 1024 * beta;
  SimulatedNetwork network(4, {.link = usual});
  // One rank sends to all: one after the other.
  network.run([](SimulatedTransport& transport) {
    if (transport.rank() != 0) return take(transport, 0, 1024);
    for (const int to : {3, 1, 2}) send_ones(transport, to, 1024);
    transport.finish();
  });
  CHECK(network.ended(3) == alpha + size);
  CHECK(network.ended(1) == alpha + 2 * size);
  CHECK(network.ended(2) == alpha + 3 * size);
  CHECK(network.ended(0) == alpha + 3 * size);
  // All send to one, which takes them one after the other, too; the one that is late waits for nobody.
  network.run([](SimulatedTransport& transport) {
    if (transport.rank() == 1) transport.compute(1);
    if (transport.rank() != 0) return send_ones(transport, 0, 1024);
    take(transport, 2, 1024);
    if (transport.now() != alpha + size) fail("now", "time", "of one message", "another");
    take(transport, 3, 1024);
    if (transport.now() != alpha + 2 * size) fail("now", "time", "of two messages", "another");
    take(transport, 1, 1024);
  });
  CHECK(network.ended(0) == 1 + alpha + size);
  // A message that came long ago is there although another one was asked for first.
  network.run([](SimulatedTransport& transport) {
    if (transport.rank() == 1) transport.compute(1);
    if (transport.rank() != 0) return send_ones(transport, 0, 1024);
    for (const int from : {1, 2, 3}) take(transport, from, 1024);
  });
  CHECK(network.ended(0) == 1 + alpha + size);
  // Both directions at once.
  CHECK(network.run([](SimulatedTransport& transport) {
    for (int i = 0; i < 3; ++i) send_ones(transport, transport.rank() ^ 1, 1024);
    for (int i = 0; i < 3; ++i) take(transport, transport.rank() ^ 1, 1024);
  }) == alpha + 3 * size);
}

TEST_CASE("a message to oneself takes no time", "[simulated_transport]") {
  SimulatedNetwork network(1);
  CHECK(network.run([](SimulatedTransport& transport) {
    send_ones(transport, 0, 100);
    if (!transport.arrived(0)) fail("arrived", "after a message", "yes", "no");
    take(transport, 0, 100);
    transport.finish();
  }) == 0);
}

TEST_CASE("times are the same in every run, however threads are scheduled", "[simulated_transport]") {
  SimulatedNetwork network(6, {.link_between = [](int from, int to) {
                             return SimulatedLink{1e-5 * (1 + (from * 7 + to * 3) % 5), 1e8 * (1 + (from + to) % 3)};
                           }});
  std::vector<double> first;
  for (int run = 0; run < 20; ++run) {
    network.run([run](SimulatedTransport& transport) {
      std::vector<float> data(5000, 1.0f);
      for (int step = 0; step < 5; ++step) {
        transport.compute(1e-5 * ((transport.rank() * 5 + step) % 4));
        if ((transport.rank() + run) % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        all_reduce(transport, data.data(), 5000, {"sum", 0, step});
        all_reduce_by_doubling(transport, data.data(), 50, {"sum", 1, step});
      }
      if (transport.rank() == 0) return;
      send_ones(transport, 0, 10);
    });
    std::vector<double> now;
    for (int rank = 0; rank < 6; ++rank) now.push_back(network.ended(rank));
    if (run == 0) first = now;
    CHECK(now == first);
  }
}

TEST_CASE("many ranks", "[simulated_transport]") {
  CHECK(seconds_of(64, 64 * 32, by_ring) == 2 * 63 * (alpha + 32 * beta));
  CHECK(seconds_of(64, 64 * 32, by_halving) == 2 * 6 * alpha + 2 * 63 * 32 * beta);
}

TEST_CASE("a delayed message holds up those who wait for it, up to the limit", "[simulated_transport]") {
  const auto delayed_by = [](double seconds) {
    return SimulatedNetworkOptions{.link = usual, .delay = [=](const SimulatedMessage& message) {
                                     const bool hit = message.from == 1 && message.to == 2 && message.number == 3;
                                     return hit && message.label.step == 1 ? seconds : 0.0;
                                   }};
  };
  const double in_time = seconds_of(4, 256, by_ring), late = seconds_of(4, 256, by_ring, delayed_by(0.5));
  CHECK(late == in_time + 0.5);
  CHECK(message_of([&] { seconds_of(4, 256, by_ring, delayed_by(512)); }) ==
        "rank 2, sum 0 of step 1: waits for a message from rank 1; expected within 300 s, found that it takes until "
        "512.005 s");
}

TEST_CASE("a message that is lost is named by both ranks", "[simulated_transport]") {
  SimulatedNetwork network(3, {.delay = [](const SimulatedMessage& message) {
                             return message.from == 0 && message.label.step == 2 ? never : 0.0;
                           }});
  for (int run = 0; run < 5; ++run) {
    const auto messages = network.failures([](SimulatedTransport& transport) {
      std::vector<float> data(90);
      for (int step = 0; step < 4; ++step) all_reduce_by_ring(transport, data.data(), 90, {"bucket", 7, step});
    });
    CHECK(messages[1] ==
          "rank 1, bucket 7 of step 2: waits for a message from rank 0; expected within 300 s, found that it was lost");
    CHECK(messages[2] ==
          "rank 2, bucket 7 of step 2: waits for a message from rank 1; expected within 300 s, found that rank 1 has "
          "failed");
    CHECK(messages[0] ==
          "rank 0, bucket 7 of step 2: waits for a message from rank 2; expected within 300 s, found that rank 2 has "
          "failed");
  }
  CHECK(network.failures([](SimulatedTransport& transport) {
    if (transport.rank() == 1) return take(transport, 0, 5, 1);
    if (transport.rank() == 2) return;
    send_ones(transport, 1, 5, 1);
    send_ones(transport, 1, 5, 2);
    transport.finish();
  })[0] ==
        "rank 0, message 0 of step 2: has sent a message, which waits for rank 1; expected within 300 s, found that "
        "it was lost");
}

TEST_CASE("run throws the cause, not what it led to", "[simulated_transport]") {
  SimulatedNetwork network(4);
  CHECK(message_of([&] {
          network.run([](SimulatedTransport& transport) {
            std::vector<float> data(64);
            if (transport.rank() == 2) throw Error("rank 2 has a reason");
            all_reduce_by_ring(transport, data.data(), 64, {"bucket", 7, 1});
          });
        }) == "rank 2 has a reason");
}

TEST_CASE("a rank that dies is named, with the time", "[simulated_transport]") {
  SimulatedNetwork network(3, {.link = usual, .deaths = {{1, 0.5}}});
  const auto messages = network.failures([](SimulatedTransport& transport) {
    std::vector<float> data(48);
    for (int step = 0; step < 100; ++step) {
      transport.compute(0.25);
      all_reduce_by_ring(transport, data.data(), 48, {"bucket", 7, step});
    }
  });
  CHECK(messages[1] == "rank 1: has died at 0.5 s");
  CHECK(
      messages[2] ==
      "rank 2, bucket 7 of step 1: waits for a message from rank 1; expected within 300 s, found that rank 1 has died "
      "at 0.5 s");
  CHECK(messages[0] ==
        "rank 0, bucket 7 of step 1: waits for a message from rank 2; expected within 300 s, found that rank 2 has "
        "failed");
  CHECK(network.ended(1) == 0.5);
}

TEST_CASE("what has left a rank before it dies arrives, what has not does not", "[simulated_transport]") {
  const double first = 1024 * beta;
  SimulatedNetwork network(2, {.link = usual, .deaths = {{0, first}}});
  const auto messages = network.failures([](SimulatedTransport& transport) {
    if (transport.rank() == 1) {
      take(transport, 0, 1024, 1);
      return take(transport, 0, 1024, 2);
    }
    send_ones(transport, 1, 1024, 1);
    send_ones(transport, 1, 1024, 2);
    transport.finish();
  });
  CHECK(messages[0].find("rank 0: has died at ") == 0);
  CHECK(messages[1].find("rank 1, message 0 of step 2: waits for a message from rank 0; expected within 300 s, found "
                         "that rank 0 has died at ") == 0);
}

TEST_CASE("waits for a rank that has ended, and of all for each other, do not hang", "[simulated_transport]") {
  SimulatedNetwork network(4);
  for (int run = 0; run < 20; ++run) {
    const auto messages = network.failures([](SimulatedTransport& transport) {
      const int rank = transport.rank();
      if (rank == 3) {
        send_ones(transport, 0, 1);
        return transport.finish();
      }
      take(transport, (rank + 1) % 3, 5, 9);
    });
    const std::string all = "; expected within 300 s, found that all ranks wait or have ended";
    CHECK(messages[0] == "rank 0, message 0 of step 9: waits for a message from rank 1" + all);
    CHECK(messages[1] == "rank 1, message 0 of step 9: waits for a message from rank 2" + all);
    CHECK(messages[2] == "rank 2, message 0 of step 9: waits for a message from rank 0" + all);
    CHECK(messages[3] ==
          "rank 3, message 0 of step 0: has sent a message, which waits for rank 0; expected within 300 s, "
          "found that all ranks wait or have ended");
  }
  CHECK(network.failures([](SimulatedTransport& transport) {
    if (transport.rank() == 0) take(transport, 2, 5, 9);
  })[0] ==
        "rank 0, message 0 of step 9: waits for a message from rank 2; expected within 300 s, found that rank 2 has "
        "ended");
}

TEST_CASE("a rank that takes an error for an answer goes on", "[simulated_transport]") {
  SimulatedNetwork network(2, {.link = usual, .limit = 2});
  for (int run = 0; run < 20; ++run)
    CHECK(network.run([](SimulatedTransport& transport) {
      const int other = 1 - transport.rank();
      const std::string found = message_of([&] { take(transport, other, 256); });
      if (found.find("all ranks wait") == std::string::npos) throw Error("found '" + found + "'");
      send_ones(transport, other, 256);
      take(transport, other, 256);
      transport.finish();
    }) == 2 + alpha + 256 * beta);
}

TEST_CASE("simulated ranks that are out of step are told apart", "[simulated_transport]") {
  SimulatedNetwork network(2);
  CHECK(message_of([&] {
          network.run([](SimulatedTransport& transport) {
            if (transport.rank() == 1) return take(transport, 0, 3, 8);
            send_ones(transport, 1, 3, 9);
            transport.finish();
          });
        }) ==
        "rank 1: rank 0 sent another message; expected message 0 of step 8 with 3 numbers, found message 0 of step 9 "
        "with 3 numbers");
}

TEST_CASE("links and times that cannot be are refused", "[simulated_transport]") {
  CHECK(message_of([] { SimulatedNetwork(0); }) == "SimulatedNetwork: ranks; expected at least one, found 0");
  CHECK(message_of([] { SimulatedNetwork(2, {.link = {.bytes_per_second = 0}}); }).find("from rank 0 to rank 1") !=
        std::string::npos);
  CHECK(message_of([] {
          SimulatedNetwork(1).run([](SimulatedTransport& transport) { transport.compute(-1); });
        }).find("compute: time; expected not negative") == 0);
}

TEST_CASE("a key-value store gives the right numbers over it", "[simulated_transport]") {
  SimulatedNetwork network(3, {.link = usual});
  const double seconds = network.run([](SimulatedTransport& transport) {
    KeyValueStore<SimulatedTransport> store(transport);
    const std::vector<float> zero(20'000), mine(20'000, static_cast<float>(1 + transport.rank()));
    std::vector<float> found(20'000);
    if (store.rank() == 0) store.assign(0, zero).wait();
    for (int step = 0; step < 3; ++step) {
      store.push(0, mine).wait();
      store.pull(0, found).wait();
      for (const float x : found)
        if (x != 6) fail("pull", "sum", "6", std::to_string(x));
    }
  });
  CHECK(seconds > 3 * 2 * (alpha + 20'000 / 3 * beta));
}

TEST_CASE("a key-value store is told that a rank has died", "[simulated_transport]") {
  SimulatedNetwork network(2, {.link = usual, .deaths = {{1, 0.25}}});
  const auto messages = network.failures([](SimulatedTransport& transport) {
    KeyValueStore<SimulatedTransport> store(transport, {.servers = {1}});
    const std::vector<float> one(1, 1.0f);
    std::vector<float> found(1);
    if (store.rank() == 0) store.assign(0, one).wait();
    for (int step = 0; step < 1000; ++step) {
      store.push(0, one).wait();
      store.pull(0, found).wait();
    }
  });
  CHECK(messages[0].find("rank 1 has died at 0.25 s") != std::string::npos);
  CHECK(messages[1] == "rank 1: has died at 0.25 s");
}
