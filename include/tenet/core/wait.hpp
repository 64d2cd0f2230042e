#pragma once

#include <atomic>
#include <tenet/core/processors.hpp>

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
/// The same where so many threads wait for each other: with fewer processors, looking keeps one that works from
/// working. Four ranks on two processors add up 1 KB in 9 us so, and in 15 where they look 100 times.
inline int spins_between(int threads, int processors = available_processors()) {
  return threads <= processors ? usual_spins : 10;
}

/// Of a thread that works for another one, whose processor it uses: whether that one computes.
inline constinit thread_local const std::atomic<bool>* computes_beside = nullptr;
inline bool gives_way() { return computes_beside != nullptr && computes_beside->load(std::memory_order_relaxed); }
/// How often such a thread looks meanwhile, in place of `spins`: for 20 us at most.
inline int spins_beside(int spins) { return gives_way() && spins > 1000 ? 1000 : spins; }

}  // namespace tenet
