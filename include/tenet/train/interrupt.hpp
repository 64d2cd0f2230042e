#pragma once

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>

#include "tenet/core/error.hpp"

namespace tenet {

/// While one lives, the first Ctrl-C (SIGINT) only makes `requested()` true, so that a loop can end in good order; the
/// second does what it did before, which is to end the process.
///
/// The outermost guard alone acts; its end brings the previous handler back. A process that ignores SIGINT, as under
/// nohup, goes on ignoring it. Guards are made and ended in one thread; `requested()` may be asked in any.
class InterruptGuard {
 public:
  InterruptGuard() {
    if (depth_++ > 0) return;
    flag_ = false;
    struct sigaction action = {};
    action.sa_handler = &handle;
    action.sa_flags = SA_RESTART;  // reads and writes under way are not disturbed
    sigemptyset(&action.sa_mask);
    // The handler needs the previous action, so this is known before the handler is.
    const bool known = sigaction(SIGINT, nullptr, &previous_) == 0;
    if (known && previous_.sa_handler == SIG_IGN) return;
    if (!known || sigaction(SIGINT, &action, nullptr) != 0) {
      --depth_;
      throw Error(std::string("InterruptGuard: cannot handle SIGINT: ").append(std::strerror(errno)));
    }
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard() {
    if (--depth_ == 0) sigaction(SIGINT, &previous_, nullptr);
  }

  /// Whether Ctrl-C was pressed since the outermost guard began; stays true after its end, until the next begins.
  static bool requested() { return flag_.load(std::memory_order_relaxed); }

 private:
  // Only what a signal handler may do: a lock-free store, and sigaction.
  static void handle(int) {
    const int error = errno;
    flag_.store(true, std::memory_order_relaxed);
    sigaction(SIGINT, &previous_, nullptr);
    errno = error;
  }

  static_assert(std::atomic<bool>::is_always_lock_free);
  static inline std::atomic<bool> flag_ = false;
  static inline int depth_ = 0;
  static inline struct sigaction previous_ = {};
};

}  // namespace tenet
