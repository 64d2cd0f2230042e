#pragma once

#include <tenet/comm/transport.hpp>
#include <tenet/core/doorbell.hpp>
#include <thread>
#include <vector>

/// A check of transports that have a doorbell.
namespace doorbells {

inline const auto use_nothing = [](const float*, long, long) {};

/// Of two ranks the second sleeps until messages of the first wake it, and the first until what it has sent has been
/// received.
template <class T>
  requires tenet::HasDoorbell<T>
void wake_second(T& transport) {
  using namespace std::chrono_literals;
  using Clock = std::chrono::steady_clock;
  tenet::Doorbell* const doorbell = transport.doorbell();
  if (doorbell == nullptr) tenet::fail("doorbell", "of two ranks", "one", "none");
  for (const long floats : {1L, 0L, 500'000L}) {
    std::vector<float> numbers(static_cast<std::size_t>(floats), 5.0f);
    const tenet::MessageLabel label{"what wakes", floats, 1};
    if (transport.rank() == 0) {
      std::this_thread::sleep_for(30ms);
      transport.send(1, numbers.data(), floats, label);
      transport.receive(1, 0, label, use_nothing);  // before anything else wakes it
      continue;
    }
    doorbell->open();
    const Clock::time_point begin = Clock::now();
    while (!doorbell->sleep_unless([&] { return transport.arrived(0); }, 20s) && Clock::now() - begin < 10s) {
    }
    if (Clock::now() - begin > 10s || !transport.arrived(0)) tenet::fail("sleep", "until", "a message", "nothing");
    transport.receive(0, floats, label, use_nothing);
    transport.send(0, nullptr, 0, label);
  }
  std::vector<float> numbers(500'000, 5.0f);
  const tenet::MessageLabel label{"what is received", 0, 2};
  if (transport.rank() == 1) {
    std::this_thread::sleep_for(30ms);
    transport.receive(0, 500'000, label, use_nothing);
    return;
  }
  doorbell->open();
  transport.send(1, numbers.data(), 500'000, label);
  const Clock::time_point begin = Clock::now();
  doorbell->sleep_unless([] { return false; }, 20s);
  if (Clock::now() - begin > 10s) tenet::fail("sleep", "until", "a message has been received", "nothing");
  transport.finish();
}

}  // namespace doorbells
