#pragma once

#include <atomic>
#include <climits>
#include <cstdint>
#include <thread>  // with its durations, where <chrono> costs the compiler 0.1 s
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tenet {

/// Where threads sleep until another one, perhaps of another process, has something for them; zeros are a new one. To
/// be woken takes some microseconds. To wake by oneself, now and then, to look costs a virtual machine's core 20 us
/// each time, as much as the timer's: a thread that looked every 60 us took a third of a core from the one beside it.
///
/// Not `std::atomic::wait`, which lets others through four times before it sleeps: Linux has whoever does so pay a turn
/// each time. A thread that works for moments beside one that computes had to wait for its processor for 0.3 to 1.3 ms
/// so, in every second step, when it was woken next.
class Doorbell {
 public:
  /// Before it, nobody is woken by `ring`; who rings at the same moment may not know yet.
  void open() { is_open_.store(true, std::memory_order_relaxed); }

  /// Behind what ready() of a sleeper looks at. It costs next to nothing where nobody has opened it. Once where there
  /// is more than one thing: who sleeps again in between has had his turn, and waits for the next one.
  void ring() {
    if (!is_open_.load(std::memory_order_relaxed)) return;
    // Of this and what a sleeper adds one comes first: either this sees the sleeper, or that one what there is for it.
    const std::uint32_t sleepers = sleepers_.fetch_add(0, std::memory_order_acq_rel);
    if (sleepers == 0 || (sleepers & muted) != 0) return;
    rings_.fetch_add(1, std::memory_order_release);
    wake_all();
  }

  /// From here on nobody is woken, as the caller looks itself for what others have. He does so once more behind
  /// `unmute`.
  void mute() { sleepers_.fetch_or(muted, std::memory_order_acq_rel); }
  void unmute() { sleepers_.fetch_and(~muted, std::memory_order_acq_rel); }

  /// Sleeps until somebody rings, or `most` is over; not where ready() holds. Whether it held.
  template <class Ready>
  bool sleep_unless(Ready ready, std::chrono::nanoseconds most) {
    const struct Sleeper {
      std::atomic<std::uint32_t>& sleepers;
      explicit Sleeper(std::atomic<std::uint32_t>& all) : sleepers(all) {
        sleepers.fetch_add(1, std::memory_order_acq_rel);
      }
      ~Sleeper() { sleepers.fetch_sub(1, std::memory_order_relaxed); }
    } sleeper(sleepers_);
    const std::uint32_t rings = rings_.load(std::memory_order_acquire);
    if (ready()) return true;
    sleep_while(rings, most);
    return false;
  }

  /// Sleeps until ready() holds, behind which somebody rings.
  template <class Ready>
  void sleep_until(Ready ready) {
    open();
    while (!sleep_unless(ready, forever))
      ;
  }

  /// Whether nobody is woken.
  bool is_muted() const { return (sleepers_.load(std::memory_order_relaxed) & muted) != 0; }

 private:
  static constexpr auto forever = std::chrono::nanoseconds::max();
  static constexpr std::uint32_t muted = 1U << 31;  // beside the number of sleepers
#if defined(__linux__)
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  void wake_all() { syscall(SYS_futex, &rings_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }
  void sleep_while(std::uint32_t rings, std::chrono::nanoseconds most) {
    const timespec rest{static_cast<time_t>(most.count() / 1'000'000'000), most.count() % 1'000'000'000};
    syscall(SYS_futex, &rings_, FUTEX_WAIT, rings, most == forever ? nullptr : &rest, nullptr, 0);
  }
#else
  void wake_all() { rings_.notify_all(); }
  void sleep_while(std::uint32_t rings, std::chrono::nanoseconds most) {
    if (most == forever) return rings_.wait(rings, std::memory_order_acquire);
    for (const auto end = std::chrono::steady_clock::now() + most;
         rings_.load(std::memory_order_acquire) == rings && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
#endif

  std::atomic<std::uint32_t> is_open_{0}, sleepers_{0}, rings_{0};
};

/// Of somebody to whom messages come: `come` is rung for each of them, and `received` where one that he has sent has
/// been received. In lines of the cache of their own.
struct MessageDoorbells {
  alignas(64) Doorbell come;
  alignas(64) Doorbell received;
};

}  // namespace tenet
