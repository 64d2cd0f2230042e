#include "tenet/comm/time_limit.hpp"

#include <catch2/catch.hpp>

#include "../support/message.hpp"

using namespace tenet;
using namespace std::chrono_literals;

TEST_CASE("the environment says how long processes wait for each other", "[time_limit]") {
  const char* const before = std::getenv("TENET_TIMEOUT");
  const std::string kept = before == nullptr ? "" : before;
  const auto with = [](const char* seconds) {
    setenv("TENET_TIMEOUT", seconds, 1);
    return process_time_limit();
  };
  CHECK(with("2.5") == 2500ms);
  CHECK(with("") == 5min);
  CHECK(message_of([&] { with("soon"); }) ==
        "TENET_TIMEOUT: not a time; expected a positive number of seconds, found soon");
  CHECK(message_of([&] { with("-1"); }) != "");
  unsetenv("TENET_TIMEOUT");
  CHECK(process_time_limit() == 5min);
  if (before != nullptr) setenv("TENET_TIMEOUT", kept.c_str(), 1);
}
