#pragma once

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
  const auto begin = std::chrono::steady_clock::now();
  auto moment = std::chrono::microseconds(0);  // the first times only another thread is let through
  while (!ready()) {
    if (std::chrono::steady_clock::now() - begin > limit) return ready();
    if (moment.count() == 0)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(moment);
    if (moment < std::chrono::microseconds(200)) moment += std::chrono::microseconds(1);
  }
  return true;
}

}  // namespace tenet
