#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <tenet/comm/transport.hpp>
#include <tenet/core/buffer.hpp>
#include <tenet/core/doorbell.hpp>
#include <tenet/core/time_limit.hpp>
#include <tenet/core/wait_until.hpp>
#include <vector>

namespace tenet {

/// What the ranks of one process share: for each ordered pair of them a few messages under way. A message is a pointer:
/// the receiver reads the sender's memory; of a small one it is a copy, so that nobody waits until it has been read.
class ThreadNetwork {
 public:
  using Limit = std::chrono::nanoseconds;

  explicit ThreadNetwork(int size, Limit limit = time_limit())
      : size_(size),
        limit_(limit),
        spins_(spins_between(size)),
        boxes_(std::make_unique<Box[]>(static_cast<std::size_t>(size * size))),
        bells_(std::make_unique<MessageDoorbells[]>(static_cast<std::size_t>(size))),
        waits_for_(std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(size))) {
    for (int rank = 0; rank < size; ++rank) waits_for_[static_cast<std::size_t>(rank)] = nobody;
  }

  int size() const { return size_; }

  /// Ends all waiting, now and from now on: a rank has failed.
  void abandon() noexcept { abandoned_.store(true); }

 private:
  friend class ThreadTransport;

  // Measured: all_reduce of 4 KB takes 0.34 us with copies, and 0.53 without.
  static constexpr long most_copied = 1024;
  struct alignas(64) Message {
    const float* data = nullptr;
    long floats = 0;
    MessageLabel label{};
    SharedNumbers shared{};  // of `share`
    alignas(64) float copy[most_copied];
  };
  static constexpr unsigned under_way = 16;
  /// Written by one rank, read by another. Counters begin anew after 2^32.
  struct alignas(64) Box {
    std::atomic<unsigned> sent{0};
    // Of the sender: whether the other one may still read its memory, which it does no more when it has received this
    // many messages.
    bool lends = false;
    unsigned lent = 0;
    alignas(64) std::atomic<unsigned> received{0};
    std::atomic<bool> reading{false};
    Message messages[under_way];

    /// The one to be sent next.
    Message& next() { return messages[sent.load(std::memory_order_relaxed) % under_way]; }
  };

  /// The rank for which `rank` waits in the end: one that itself waits for nobody, as it is gone or still computes.
  int last_waited_for(int rank) const {
    for (int i = 0; i < size_; ++i) {
      const int next = waits_for_[static_cast<std::size_t>(rank)].load(std::memory_order_relaxed);
      if (next == nobody) break;
      rank = next;
    }
    return rank;
  }

  static constexpr int nobody = -1;

  MessageDoorbells& bells(int rank) { return bells_[static_cast<std::size_t>(rank)]; }
  Box& box(int from, int to) { return boxes_[static_cast<std::size_t>(from * size_ + to)]; }

  int size_;
  Limit limit_;
  int spins_;
  std::unique_ptr<Box[]> boxes_;
  std::unique_ptr<MessageDoorbells[]> bells_;
  std::unique_ptr<std::atomic<int>[]> waits_for_;
  std::atomic<bool> abandoned_{false};
  std::mutex mutex_;  // of the memory
  std::vector<Buffer> memory_;
};

/// A `Transport` between threads of one process.
class ThreadTransport {
 public:
  ThreadTransport(ThreadNetwork& network, int rank)
      : network_(&network), rank_(rank), shared_(static_cast<std::size_t>(network.size())) {}

  int rank() const { return rank_; }
  int size() const { return network_->size_; }
  /// Waking up to look, and reading another core's memory.
  LinkCost link() const { return {1.1e-7, 2e-10, 4e-10, true}; }

  ThreadNetwork::Limit limit() const { return network_->limit_; }

  /// Zeros for all ranks, which live as long as the network; see `common_memory`.
  float* memory(long floats) {
    const std::lock_guard lock(network_->mutex_);
    return network_->memory_.emplace_back(floats).data();
  }
  static long place_of(const float* data) { return reinterpret_cast<std::intptr_t>(data); }
  static float* at(long place) { return reinterpret_cast<float*>(static_cast<std::intptr_t>(place)); }

  void send(int to, const float* data, long floats, MessageLabel label) {
    ThreadNetwork::Message& message = next_message(to, floats, label);
    message.data = data;
    if (floats > ThreadNetwork::most_copied) return leave(to, true);
    if (floats > 0) {
      std::memcpy(message.copy, data, sizeof(float) * static_cast<std::size_t>(floats));
      message.data = message.copy;
    }
    leave(to, false);
    prepare(network_->box(rank_, to).next(), floats);
  }

  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    const ThreadNetwork::Message& message = await(from, floats, label);
    if (message.data == message.copy) {
      if (network_->abandoned_.load(std::memory_order_relaxed)) fail_abandoned(label);
      use(message.data, 0L, floats);
    } else {
      use_memory_of(from, from + 1, label, [&] { use(message.data, 0L, floats); });
    }
    take(from);
  }

  /// Always true: all memory of a process is common.
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use) {
    for (int to = 0; to < size(); ++to) {
      ThreadNetwork::Message& message = next_message(to, floats, label);
      message.data = data;
      message.shared = {data, weight};
      leave(to, true);
    }
    for (int from = 0; from < size(); ++from)
      shared_[static_cast<std::size_t>(from)] = await(from, floats, label).shared;
    use_memory_of(0, size(), label, [&] { use(static_cast<const SharedNumbers*>(shared_.data())); });
    for (int from = 0; from < size(); ++from) take(from);
    finish("shares its numbers with");
    return true;
  }

  void receive_into(int from, float* to, long floats, MessageLabel label) {
    receive(from, floats, label, [to](const float* part, long first, long count) {
      if (count > 0) std::memcpy(to + first, part, sizeof(float) * static_cast<std::size_t>(count));
    });
  }

  Doorbell* doorbell() { return &network_->bells(rank_).come; }
  bool arrived(int from) {
    if (network_->abandoned_.load(std::memory_order_relaxed)) fail_abandoned({"waiting for messages", -1, 0});
    const ThreadNetwork::Box& box = network_->box(from, rank_);
    return box.sent.load(std::memory_order_acquire) != box.received.load(std::memory_order_relaxed);
  }

  /// This rank has failed: ends all waiting, and waits itself until nobody reads its memory. Whether another one has
  /// failed before.
  bool abandon() noexcept {
    const bool before = network_->abandoned_.exchange(true);
    for (int to = 0; to < size(); ++to)
      if (to != rank_)
        wait_until([&] { return !network_->box(rank_, to).reading.load(); }, std::chrono::hours(1));  // they do read
    return before;
  }

  /// What has been copied may be changed, so that only the rest is waited for.
  void finish() { finish("has sent a message, which waits for"); }

 private:
  /// `doing`: what it waits for whom, for a message.
  void finish(const char* doing) {
    for (int to = 0; to < size(); ++to) {
      ThreadNetwork::Box& box = network_->box(rank_, to);
      if (!box.lends) continue;
      wait(network_->bells(rank_).received, to, doing, box.messages[(box.lent - 1) % ThreadNetwork::under_way].label,
           [&] { return static_cast<int>(box.received.load(std::memory_order_acquire) - box.lent) >= 0; });
      box.lends = false;
    }
  }

  /// Asks for the lines of the cache that a message like the last one will be written to: the other rank has read them.
  [[gnu::always_inline]] static void prepare(const ThreadNetwork::Message& message, long floats) {
    __builtin_prefetch(&message, 1);
    for (long i = 0; i < floats; i += 16) __builtin_prefetch(message.copy + i, 1);
  }

  /// The next message to that rank, when there is room.
  ThreadNetwork::Message& next_message(int to, long floats, const MessageLabel& label) {
    ThreadNetwork::Box& box = network_->box(rank_, to);
    const unsigned number = box.sent.load(std::memory_order_relaxed);
    wait(network_->bells(rank_).received, to, "has a message to send, which waits for", label,
         [&] { return number - box.received.load(std::memory_order_acquire) < ThreadNetwork::under_way; });
    ThreadNetwork::Message& message = box.next();
    message.floats = floats;
    message.label = label;
    return message;
  }
  /// Sends it.
  void leave(int to, bool lends) {
    ThreadNetwork::Box& box = network_->box(rank_, to);
    const unsigned sent = box.sent.load(std::memory_order_relaxed) + 1;
    if (lends) {
      box.lends = true;
      box.lent = sent;
    }
    box.sent.store(sent, std::memory_order_release);
    network_->bells(to).come.ring();
  }

  /// The next message from that rank, when it has come.
  const ThreadNetwork::Message& await(int from, long floats, const MessageLabel& label) {
    ThreadNetwork::Box& box = network_->box(from, rank_);
    const unsigned number = box.received.load(std::memory_order_relaxed);
    wait(network_->bells(rank_).come, from, "waits for a message from", label,
         [&] { return box.sent.load(std::memory_order_acquire) != number; });
    const ThreadNetwork::Message& message = box.messages[number % ThreadNetwork::under_way];
    if (message.floats != floats || !(message.label == label)) {
      abandon();
      detail::fail_message(rank_, from, label, floats, message.label, message.floats);
    }
    return message;
  }
  /// It has been used.
  void take(int from) {
    std::atomic<unsigned>& received = network_->box(from, rank_).received;
    received.store(received.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    network_->bells(from).received.ring();
  }

  /// Calls use(), which uses memory of the ranks [first, last). Either this sees that a rank has failed, or one of them
  /// that has failed sees that its memory is used.
  template <class Use>
  void use_memory_of(int first, int last, const MessageLabel& label, Use use) {
    bool failed;
    {
      const struct Reading {
        ThreadTransport& transport;
        int first, last;
        Reading(ThreadTransport& reader, int from, int to) : transport(reader), first(from), last(to) {
          for (int rank = first; rank < last; ++rank) flag(rank).store(true);
        }
        ~Reading() {
          for (int rank = first; rank < last; ++rank) flag(rank).store(false, std::memory_order_release);
        }
        std::atomic<bool>& flag(int rank) const { return transport.network_->box(rank, transport.rank_).reading; }
      } reading(*this, first, last);
      failed = network_->abandoned_.load();
      if (!failed) use();
    }
    if (failed) fail_abandoned(label);
  }

  [[noreturn, gnu::cold]] void fail_abandoned(const MessageLabel& label) {
    abandon();
    detail::fail_abandoned(rank_, label);
  }

  template <class Ready>
  void wait(Doorbell& bell, int peer, const char* doing, const MessageLabel& label, Ready ready) {
    if (ready()) return;
    std::atomic<int>& waits_for = network_->waits_for_[static_cast<std::size_t>(rank_)];
    waits_for.store(peer, std::memory_order_relaxed);
    wait_until(
        bell, [&] { return ready() || network_->abandoned_.load(std::memory_order_relaxed); }, network_->limit_,
        spins_beside(network_->spins_));
    if (!ready()) {
      const int last = network_->last_waited_for(peer);
      if (abandon()) detail::fail_abandoned(rank_, label);
      detail::fail_waiting(rank_, doing, peer, label, std::chrono::duration<double>(network_->limit_).count(), last);
    }
    waits_for.store(ThreadNetwork::nobody, std::memory_order_relaxed);
  }

  ThreadNetwork* network_;
  int rank_;
  std::vector<SharedNumbers> shared_;  // of all ranks
};

static_assert(SharesMemory<ThreadTransport>);

}  // namespace tenet
