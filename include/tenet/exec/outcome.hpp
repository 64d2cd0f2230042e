#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <string>
#include <tenet/core/error.hpp>
#include <type_traits>
#include <utility>

/// What becomes of something that was queued.
namespace tenet::detail {

/// The thread that runs it writes what there is of it, and then `ended`. The queue and others hold it; who is the last
/// to let go of it ends it.
struct Outcome {
  std::exception_ptr failure{};
  std::atomic<int> ended{0};
  std::atomic<int> holders{1};

  Outcome() = default;
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;
  virtual ~Outcome() = default;

  /// What it is of, for messages.
  virtual std::string what() const = 0;
  bool has_ended() const { return ended.load(std::memory_order_acquire) != 0; }
  void end() {
    ended.store(1, std::memory_order_release);
    ended.notify_all();
  }
};

/// Holds an outcome, or none.
template <class Kind>
class Held {
 public:
  Held() = default;
  /// One that is held already: by whoever made it, or counts that there is one more.
  explicit Held(Kind* outcome) : outcome_(outcome) {}
  Held(const Held& other) : outcome_(other.outcome_) {
    if (outcome_ != nullptr) outcome_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Held(Held&& other) noexcept : outcome_(std::exchange(other.outcome_, nullptr)) {}
  template <class Derived>
    requires std::is_base_of_v<Kind, Derived> && (!std::is_same_v<Kind, Derived>)
  Held(const Held<Derived>& other) : outcome_(other.get()) {
    if (outcome_ != nullptr) outcome_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Held& operator=(Held other) noexcept {
    std::swap(outcome_, other.outcome_);
    return *this;
  }
  ~Held() {
    if (outcome_ != nullptr && outcome_->holders.fetch_sub(1, std::memory_order_acq_rel) == 1) delete outcome_;
  }

  void reset() { *this = {}; }
  Kind* get() const { return outcome_; }
  Kind& operator*() const { return *outcome_; }
  Kind* operator->() const { return outcome_; }
  bool operator==(std::nullptr_t) const { return outcome_ == nullptr; }

 private:
  Kind* outcome_ = nullptr;
};

/// To be called where an exception is caught: throws an `Error` that says of what it is. The exception itself is nested
/// in it, for `std::rethrow_if_nested`.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_of(const std::string& name) {
  std::string what = "an exception that is not a std::exception";
  try {
    throw;
  } catch (const std::exception& failure) {
    what = failure.what();
  } catch (...) {
  }
  std::throw_with_nested(Error(name + ": " + what));
}
/// The same as a pointer.
[[gnu::cold, gnu::noinline]] inline std::exception_ptr failure_of(const std::string& name) {
  try {
    fail_of(name);
  } catch (...) {
    return std::current_exception();
  }
}

/// What a queued step waits for before it begins, as an `Event` gives it; or nothing. `wait` ends no later than a
/// limit, and throws where it has waited in vain, or for what has failed. A pointer, so that only who makes events
/// compiles it.
struct Awaited {
  Held<Outcome> outcome;
  void (*wait)(const Outcome&) = nullptr;

  void operator()() const {
    if (wait != nullptr) wait(*outcome);
  }
};

}  // namespace tenet::detail
