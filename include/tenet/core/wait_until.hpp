#pragma once

#include <algorithm>
#include <chrono>
#include <tenet/core/wait.hpp>
#include <thread>

/// Waiting for another thread, no longer than a limit. Apart from `wait.hpp`, as <chrono> costs the compiler 0.1 s.
namespace tenet {

/// How long whoever waits stays awake when it has looked often enough: a thread that sleeps comes 60 us late, on a
/// virtual machine, and the next one that waits for it as much later again.
inline constexpr std::chrono::milliseconds usual_patience{1};

/// Waits until ready() holds: at first it only looks; then it lets others through each time, which takes 1 us, or as
/// long as one of them works on this processor; then it sleeps for moments. False where it does not within `limit`.
template <class Ready>
bool wait_until(Ready ready, std::chrono::nanoseconds limit, int spins = usual_spins,
                std::chrono::nanoseconds patience = usual_patience) {
  for (int spin = 0; spin < spins; ++spin) {
    if (ready()) return true;
    pause();
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto waited = [=] { return std::chrono::steady_clock::now() - begin; };
  for (patience = std::min(patience, limit); waited() < patience; std::this_thread::yield())
    if (ready()) return true;
  for (auto moment = std::chrono::microseconds(1); !ready(); moment += std::chrono::microseconds(1)) {
    if (waited() > limit) return ready();
    std::this_thread::sleep_for(std::min(moment, std::chrono::microseconds(200)));
  }
  return true;
}

}  // namespace tenet
