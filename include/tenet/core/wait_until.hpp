#pragma once

#include <algorithm>
#include <chrono>
#include <tenet/core/doorbell.hpp>
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

/// The same, where somebody rings behind what ready() looks at: it sleeps there. A thread beside which another one
/// computes sleeps as soon as it has looked often enough: where it lets that one through, it has the processor back
/// when the scheduler's clock ticks, after milliseconds, but at once where it is woken.
template <class Ready>
bool wait_until(Doorbell& doorbell, Ready ready, std::chrono::nanoseconds limit, int spins = usual_spins) {
  using std::chrono::nanoseconds;
  // Whoever waits looks so often even where nobody rings: one who has ended cannot.
  constexpr nanoseconds moment{2'000'000};
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto rest = [&] { return end - std::chrono::steady_clock::now(); };
  if (wait_until(ready, nanoseconds(0), spins, nanoseconds(0))) return true;
  if (computes_beside == nullptr)
    for (const auto asleep = rest() - usual_patience; rest() > asleep; std::this_thread::yield())
      if (ready()) return true;
  doorbell.open();
  while (!doorbell.sleep_unless(ready, std::min(rest(), doorbell.is_muted() ? moment / 40 : moment)))
    if (rest() <= nanoseconds(0)) return ready();
  return true;
}

}  // namespace tenet
