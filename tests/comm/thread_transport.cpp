#include "tenet/comm/thread_transport.hpp"

#include <cmath>

#include "../support/ranks.hpp"

using namespace tenet;
using namespace std::chrono_literals;

TEST_CASE("messages arrive in order, more of them than may be under way", "[thread_transport]") {
  constexpr int messages = 100;
  ranks::run_well(2, [](ThreadTransport& transport) {
    std::vector<float> sent(messages * 3);
    for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<float>(i);
    int wrong = 0;
    const auto receive_all = [&] {
      for (int m = 0; m < messages; ++m)
        transport.receive(1 - transport.rank(), 3, {"message", m, 1}, [&](const float* part, long first, long count) {
          wrong += first != 0 || count != 3;
          for (long i = 0; i < count; ++i) wrong += part[i] != static_cast<float>(3 * m + i);
        });
    };
    const auto send_all = [&] {
      for (int m = 0; m < messages; ++m)
        transport.send(1 - transport.rank(), &sent[static_cast<std::size_t>(3 * m)], 3, {"message", m, 1});
      transport.finish();
    };
    if (transport.rank() == 0) {
      send_all();
      receive_all();
    } else {
      receive_all();
      send_all();
    }
    if (wrong != 0) fail("receive", "wrong numbers", "none", wrong);
  });
}

TEST_CASE("after finish what was sent may be changed", "[thread_transport]") {
  std::atomic<int> wrong{0};
  ranks::run_well(2, [&](ThreadTransport& transport) {
    float value = 0;
    for (int step = 0; step < 200; ++step) {
      if (transport.rank() == 0) {
        value = static_cast<float>(step);
        transport.send(1, &value, 1, {"value", 0, step});
        transport.finish();
        value = -1;
      } else {
        transport.receive(0, 1, {"value", 0, step},
                          [&](const float* part, long, long) { wrong += *part != static_cast<float>(step); });
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a message that does not come is named, and all others stop waiting", "[thread_transport]") {
  const auto messages = ranks::run(
      3,
      [](ThreadTransport& transport) {
        if (transport.rank() == 2) return;  // says nothing
        transport.receive(2, 5, {"bucket", 4, 7}, [](const float*, long, long) {});
      },
      50ms);
  const std::string late =
      ", bucket 4 of step 7: waits for a message from rank 2; expected within 0.05 s, found nothing";
  const std::string ended = ", bucket 4 of step 7: another rank has failed";
  CAPTURE(messages);
  CHECK(messages[2] == "");
  int named = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::string me = "rank " + std::to_string(rank);
    named += messages[rank] == me + late;
    CHECK((messages[rank] == me + late || messages[rank] == me + ended));
  }
  CHECK(named >= 1);
}

TEST_CASE("nobody takes what was sent: finish says so", "[thread_transport]") {
  const auto messages = ranks::run(
      2,
      [](ThreadTransport& transport) {
        const float value = 1;
        if (transport.rank() == 1) return;
        transport.send(1, &value, 1, {"bucket", 2, 9});
        transport.finish();
      },
      50ms);
  CHECK(messages[0].find("rank 0, bucket 2 of step 9: has sent a message, which waits for rank 1") == 0);
}

TEST_CASE("what a rank that fails has sent stays as it is while it is read", "[thread_transport]") {
  std::atomic<int> wrong{0}, seen{0};
  const auto messages = ranks::run(
      2,
      [&](ThreadTransport& transport) {
        if (transport.rank() == 0) {
          std::vector<float> values(1000, 3.0f);
          transport.send(1, values.data(), 1000, {"bucket", 2, 9});
          try {
            transport.finish();
          } catch (...) {
            std::fill(values.begin(), values.end(), 0.0f);
            throw;
          }
        } else {
          transport.receive(0, 1000, {"bucket", 2, 9}, [&](const float* part, long, long count) {
            std::this_thread::sleep_for(150ms);
            for (long i = 0; i < count; ++i) wrong += part[i] != 3.0f, ++seen;
          });
        }
      },
      30ms);
  CHECK(messages[0] != "");
  CHECK(seen == 1000);
  CHECK(wrong == 0);
}

TEST_CASE("a rank knows whether a message has come", "[thread_transport]") {
  ranks::run_well(2, [](ThreadTransport& transport) {
    const float value = 5;
    if (transport.rank() == 0) {
      if (transport.arrived(1)) fail("arrived", "nobody has sent", "no", "yes");
      transport.send(1, &value, 1, {"bucket", 1, 1});
      transport.finish();
      return;
    }
    if (!wait_until([&] { return transport.arrived(0); }, 10s)) fail("arrived", "a message", "yes", "no");
    float found = 0;
    transport.receive_into(0, &found, 1, {"bucket", 1, 1});
    if (found != 5 || transport.arrived(0)) fail("arrived", "after the message", "no", "yes");
  });
}

TEST_CASE("ranks that are out of step are told apart", "[thread_transport]") {
  const auto messages = ranks::run(2, [](ThreadTransport& transport) {
    const float values[3]{};
    if (transport.rank() == 0) {
      transport.send(1, values, 3, {"bucket", 2, 9});
      transport.finish();
    } else {
      transport.receive(0, 3, {"bucket", 1, 9}, [](const float*, long, long) {});
    }
  });
  CHECK(
      messages[1] ==
      "rank 1: rank 0 sent another message; expected bucket 1 of step 9 with 3 numbers, found bucket 2 of step 9 with "
      "3 numbers");
  CHECK(messages[0] != "");
}
