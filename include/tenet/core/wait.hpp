#pragma once

#include <atomic>
#include <chrono>
#include <tenet/core/processors.hpp>
#include <thread>

/// Waiting for another thread.
namespace tenet {

/// Tells the processor that a loop waits.
inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  asm volatile("pause");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// How often a thread that waits looks before it sleeps, some 20 ns each time: threads that work at the same pace meet
/// within microseconds.
inline constexpr int usual_spins = 4000;
/// The same where so many threads wait for each other: with fewer processors, looking keeps them from one that works.
inline int spins_between(int threads) { return threads <= available_processors() ? usual_spins : 100; }

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
