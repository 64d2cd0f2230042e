#pragma once

#include <atomic>
#include <memory>
#include <tenet/comm/transport.hpp>
#include <tenet/core/time_limit.hpp>
#include <tenet/core/wait_until.hpp>

namespace tenet {

/// A point at which threads that work together meet, again and again. What one of them wrote before it, all of them see
/// behind it.
///
/// No wait is endless: one that lasts longer than the limit throws an `Error` that names who waits, who is missing and
/// what for, and ends those of the others, too. A thread that fails itself says so by `abandon`.
class Barrier {
 public:
  using Limit = std::chrono::nanoseconds;

  /// `party` is what messages call each of them.
  explicit Barrier(int parties, Limit limit = time_limit(), const char* party = "thread")
      : parties_(parties),
        party_(party),
        limit_(limit),
        spins_(spins_between(parties)),
        come_(std::make_unique<Count[]>(static_cast<std::size_t>(parties))) {}

  int parties() const { return parties_; }
  Limit limit() const { return limit_; }

  /// Waits for all others; `party` is the caller, `label` what they meet for.
  void arrive_and_wait(int party, const MessageLabel& label) {
    const long meeting = come_[index(party)].value.load(std::memory_order_relaxed) + 1;
    come_[index(party)].value.store(meeting, std::memory_order_release);
    for (int other = 0; other < parties_; ++other) {
      const std::atomic<long>& come = come_[index(other)].value;
      const bool ended = wait_until(
          [&] { return come.load(std::memory_order_acquire) >= meeting || abandoned_.load(std::memory_order_relaxed); },
          limit_, spins_);
      if (come.load(std::memory_order_acquire) >= meeting) continue;
      abandon();
      if (ended) detail::fail_abandoned(detail::with_number(party_, party), party_, label);
      detail::fail_waiting(detail::with_number(party_, party), "waits for " + detail::with_number(party_, other), label,
                           std::chrono::duration<double>(limit_).count());
    }
  }

  /// Ends the waiting of all, now and from now on, with `PeerFailed`.
  void abandon() noexcept { abandoned_.store(true, std::memory_order_relaxed); }

  /// As new; while nobody waits.
  void reset() noexcept {
    for (int party = 0; party < parties_; ++party) come_[index(party)].value.store(0, std::memory_order_relaxed);
    abandoned_.store(false, std::memory_order_release);
  }

 private:
  struct alignas(64) Count {
    std::atomic<long> value{0};
  };
  static std::size_t index(int party) { return static_cast<std::size_t>(party); }

  int parties_;
  const char* party_;
  Limit limit_;
  int spins_;
  std::unique_ptr<Count[]> come_;
  alignas(64) std::atomic<bool> abandoned_{false};
};

}  // namespace tenet
