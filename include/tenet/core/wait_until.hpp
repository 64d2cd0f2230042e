#pragma once

#include <algorithm>
#include <chrono>
#include <tenet/core/wait.hpp>
#include <thread>

/// Waiting for another thread, no longer than a limit. Apart from `wait.hpp`, as <chrono> costs the compiler 0.1 s.
namespace tenet {

/// Waits until ready() holds: at first awake, then asleep for moments. False where it does not within `limit`.
template <class Ready>
bool wait_until(Ready ready, std::chrono::nanoseconds limit, int spins = usual_spins) {
  for (int spin = 0; spin < spins; ++spin) {
    if (ready()) return true;
    pause();
  }
  // Where threads share a processor, it is one of these that is to come: it is let through, which takes 1 us, and a
  // sleep some 60.
  constexpr int yields = 20;
  for (int yield = 0; yield < yields; ++yield) {
    if (ready()) return true;
    std::this_thread::yield();
  }
  const auto begin = std::chrono::steady_clock::now();
  for (auto moment = std::chrono::microseconds(1); !ready(); moment += std::chrono::microseconds(1)) {
    if (std::chrono::steady_clock::now() - begin > limit) return ready();
    std::this_thread::sleep_for(std::min(moment, std::chrono::microseconds(200)));
  }
  return true;
}

}  // namespace tenet
