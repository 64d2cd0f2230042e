#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <tenet/comm/transport.hpp>
#include <tenet/core/doorbell.hpp>
#include <tenet/core/wait.hpp>
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
  // Whoever waits until what he has sent has been received is woken, too: by himself he wakes every 2 ms.
  std::vector<float> numbers(500'000, 5.0f);
  const std::atomic<bool> computes{true};
  tenet::computes_beside = &computes;
  std::vector<double> late, took;
  for (long round = 0; round < 31; ++round) {
    const tenet::MessageLabel label{"what is received", round, 2};
    double received = 0;  // seconds
    float said[sizeof received / sizeof(float)];
    const auto now = [] { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); };
    if (transport.rank() == 0) {
      transport.send(1, numbers.data(), 500'000, label);
      transport.finish();
      late.push_back(now());
      transport.receive_into(1, said, std::size(said), label);
      std::memcpy(&received, said, sizeof received);
      late.back() -= received;
    } else {
      std::this_thread::sleep_for(500us);
      const double begin = now();
      transport.receive(0, 500'000, label, use_nothing);
      received = now();
      took.push_back(received - begin);
      std::memcpy(said, &received, sizeof received);
      transport.send(0, said, std::size(said), label);
      transport.finish();
    }
  }
  std::sort(late.begin(), late.end());
  std::sort(took.begin(), took.end());
  tenet::computes_beside = nullptr;
  // The quickest quarter: other programs use the processors, too. Where there is no room for all of it, the sender goes
  // on 15 times.
  if (!took.empty() && took[7] > 10e-3) tenet::fail("receive", "while room is made in turns", "soon", "late");
  if (!late.empty() && late[7] > 0.75e-3) tenet::fail("finish", "returns when all is received", "soon", "late");
}

}  // namespace doorbells
