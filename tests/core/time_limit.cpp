#include "tenet/core/time_limit.hpp"

#include <catch2/catch.hpp>

#include "../support/message.hpp"
#include "../support/variable.hpp"
#include "tenet/comm/barrier.hpp"
#include "tenet/comm/thread_transport.hpp"

using namespace tenet;
using namespace std::chrono_literals;

TEST_CASE("the environment says how long threads and processes wait for each other", "[time_limit]") {
  const auto with = [](const char* seconds) {
    const Variable limit("TENET_TIMEOUT", seconds);
    return time_limit();
  };
  CHECK(with("2.5") == 2500ms);
  CHECK(with("") == 5min);
  CHECK(message_of([&] { with("soon"); }) ==
        "TENET_TIMEOUT: not a time; expected a positive number of seconds, found soon");
  CHECK(message_of([&] { with("-1"); }) != "");
  const Variable limit("TENET_TIMEOUT", "0.25");
  CHECK(Barrier(2).limit() == 250ms);
  ThreadNetwork network(1);
  CHECK(ThreadTransport(network, 0).limit() == 250ms);
  unsetenv("TENET_TIMEOUT");
  CHECK(time_limit() == 5min);
}
