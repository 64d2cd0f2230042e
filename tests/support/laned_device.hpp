#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "far_device.hpp"

/// `far::Device` with lanes. What it is given on the first ones is done at once; what the lane of copies is given waits
/// as long as it can: until another lane, or the host, waits for a mark behind it.
namespace laned {

struct Executor : far::Executor {
  using far::Executor::Executor;

  /// Everything up to a place in a lane's queue.
  struct Mark {
    Executor* lane = nullptr;
    long place = 0;
  };
  Executor& lane(int i) {
    if (i == 0) return *this;
    while (lanes_.size() < static_cast<std::size_t>(i)) {
      lanes_.push_back(std::make_unique<Executor>(device()));
      lanes_.back()->number_ = static_cast<int>(lanes_.size());
      lanes_.back()->first_ = this;
    }
    return *lanes_[static_cast<std::size_t>(i - 1)];
  }
  Mark mark() { return {this, given_}; }
  void wait(const Mark& mark) {
    if (is_slow())
      give_later([mark] { mark.lane->run_until(mark.place); });
    else
      mark.lane->run_until(mark.place);
  }
  void await(const Mark& mark) {
    if (mark.lane->is_slow()) ++awaited_copies;
    mark.lane->run_until(mark.place);
  }
  long awaited_copies = 0;

  void copy_in(void* to, const void* from, long bytes) {
    (first_ == nullptr ? this : first_)->bytes_in += bytes;
    if (!is_slow()) return static_cast<void>(std::memcpy(to, from, static_cast<std::size_t>(bytes)));
    give_later([=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }

 private:
  bool is_slow() const { return number_ > 4; }
  void give_later(std::function<void()> task) {
    tasks_.push_back(std::move(task));
    ++given_;
  }
  void run_until(long place) {
    for (; done_ < place; ++done_) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

  int number_ = 0;
  Executor* first_ = nullptr;
  std::vector<std::unique_ptr<Executor>> lanes_;
  std::deque<std::function<void()>> tasks_;
  long given_ = 0, done_ = 0;
};

struct Kernels : tenet::ReferenceKernels {
  using Executor = laned::Executor;
  using Kernel = void (*)(Executor&, const Arguments&);
};

struct Device {
  using Kernels = laned::Kernels;
  static constexpr int index = 0;
  static constexpr int threads() { return 1; }
};

}  // namespace laned
