#pragma once

#include <chrono>
#include <mutex>
#include <tenet/core/timeline.hpp>
#include <tenet/parallel/key_value_server.hpp>
#include <thread>
#include <utility>

namespace tenet {

/// Values by key, kept on servers, which are ranks like the others: every rank pushes to and pulls from a key, and what
/// pushes do to a value is up to the store's reduction and updater.
///
///     KeyValueStore store(transport, {.consistency = Consistency::bulk_synchronous()});
///     store.assign(0, values).wait();                    // one of the ranks
///     store.push(0, gradients, {.priority = 3});             // returns at once
///     store.pull(0, values).wait();
///
/// Keys are not negative. A value of 4096 numbers for each server, or more, is cut into a part for each; a smaller one
/// lies on one, number key % n of n servers. Requests to a key are met in their order; a pull waits for the key to be
/// assigned, and for as many pushes of the other ranks as the consistency asks for. A thread of the store's own sends,
/// receives and serves: values move while the caller computes. Who waits does that himself meanwhile: reductions and
/// updaters run on his thread or on the store's, one at a time. Memory that is pushed from or pulled to is the store's
/// until the request is done. (Li et al., OSDI 2014; Ho et al., NeurIPS 2013, for the bounded staleness.)
///
/// The transport is the store's alone. All ranks construct and destroy a store; the destructor waits for the others.
template <Transport T>
class KeyValueStore {
 public:
  explicit KeyValueStore(T transport, KeyValueOptions options = {})
      : messages_(std::move(transport)),
        options_(with_defaults(std::move(options), messages_.transport())),
        server_(messages_, options_.reduction, options_.updater, options_.limit),
        asked_(static_cast<std::size_t>(size())) {
    for (const int server : options_.servers)
      if (server < 0 || server >= size())
        fail("KeyValueStore", "no such server", "a rank from 0 to " + std::to_string(size() - 1),
             std::to_string(server));
    state_->rank = messages_.rank();
    state_->limit = options_.limit;
    doorbell_.open();
    state_->doorbell = &doorbell_;
    state_->take_turn = [this] { return take_turn(); };
    thread_ = std::thread([this] { serve_until_all_leave(); });
  }
  KeyValueStore(const KeyValueStore&) = delete;
  KeyValueStore& operator=(const KeyValueStore&) = delete;

  ~KeyValueStore() {
    {
      const std::lock_guard lock(mutex_);
      leaving_ = true;
    }
    doorbell_.ring();
    thread_.join();
  }

  int rank() const { return state_->rank; }
  int size() const { return messages_.size(); }

  /// Gives a key a value: its first one, or another in place of what it has. One of the ranks does.
  PendingRequest assign(int key, std::span<const float> value) {
    return submit(detail::request_for(detail::RequestKind::assign, user_key(key), value.data(), nullptr, value.size()));
  }
  PendingRequest push(int key, std::span<const float> values, PushOptions options = {}) {
    return submit(detail::push_request(user_key(key), values, options, options_.consistency), options.wakes);
  }
  PendingRequest pull(int key, std::span<float> value, PullOptions options = {}) {
    if (options.behind >= size())
      fail("KeyValueStore::pull", "behind", "a rank below " + std::to_string(size()), long{options.behind});
    return submit(detail::pull_request(user_key(key), value, options, options_.consistency), options.wakes);
  }

  /// Waits until all ranks have come here, and have been answered whatever they had asked for.
  void synchronize() {
    static constexpr int meeting_point = -1;
    state_->wait([&] { return state_->pending == 0; });
    const Consistency all = Consistency::bulk_synchronous();
    float nothing = 0;
    if (rank() == 0)
      submit(detail::request_for(detail::RequestKind::assign, meeting_point, &nothing, nullptr, 1), false).wait();
    submit(detail::push_request(meeting_point, {&nothing, 1}, {}, all), false).wait();
    submit(detail::pull_request(meeting_point, {&nothing, 1}, {}, all), false).wait();
  }

  /// The most pushes by which a rank that pulled from this server was ahead of the slowest one when it was answered.
  long largest_lead() const { return server_.largest_lead(); }

 private:
  using Request = detail::Request;
  using Header = detail::StoreHeader;
  using HeaderKind = detail::StoreHeader::Kind;

  // So few requests to a server at a time that `send` never waits for it: pushes and pulls are counted apart, as a pull
  // may have to wait for another rank's push, but no push for a pull.
  static constexpr int pushes_at_a_time = detail::requests_at_a_time, pulls_at_a_time = detail::requests_at_a_time,
                       slots = pushes_at_a_time + pulls_at_a_time;

  struct Slot {
    std::shared_ptr<Request> request;
    std::size_t number = 0;
    FloatRange part{};
  };

  static KeyValueOptions with_defaults(KeyValueOptions options, const T& transport) {
    if (options.limit.count() == 0) options.limit = transport.limit();
    if (options.servers.empty())
      for (int rank = 0; rank < transport.size(); ++rank) options.servers.push_back(rank);
    if (!options.reduction)
      options.reduction = [](std::span<float> sum, std::span<const float> pushed) {
        detail::add_floats(sum.data(), sum.data(), pushed.data(), length(sum));
      };
    if (!options.updater)
      options.updater = [](const Pushed& pushed, std::span<float> value) {
        std::copy(pushed.values.begin(), pushed.values.end(), value.begin());
      };
    return options;
  }
  static Doorbell* doorbell_of(T& transport) {
    if constexpr (HasDoorbell<T>) return transport.doorbell();
    return nullptr;
  }
  Slot& slot_of(int server, int slot) {
    return asked_[static_cast<std::size_t>(server)][static_cast<std::size_t>(slot)];
  }
  static int user_key(int key) {
    if (key < 0) fail("KeyValueStore", "key", "not negative", long{key});
    return key;
  }
  static long length(std::span<const float> values) { return static_cast<long>(values.size()); }

  PendingRequest submit(std::shared_ptr<Request> request, bool wakes = true) {
    request->store = state_;
    request->parts = detail::parts_on(options_.servers, request->key, request->floats);
    for (const detail::ServerPart& part : request->parts) request->asked.push_back(part.server);
    request->answered = std::vector<std::atomic<bool>>(request->parts.size());
    request->open = static_cast<int>(request->parts.size());
    if constexpr (HasTimelineRow<T>) request->begin = timeline_now();
    state_->pending.fetch_add(1);
    {
      const std::lock_guard lock(mutex_);
      long& pushes = pushes_of_[request->key];
      if (request->kind == detail::RequestKind::push) ++pushes;
      request->clock = pushes;
      submitted_.push_back(request);
      has_submitted_.store(true, std::memory_order_release);
    }
    if (wakes) doorbell_.ring();
    return PendingRequest(std::move(request));
  }

  // What follows is the thread's, and in turns that of whoever waits.

  void serve_until_all_leave() {
    ask_for_short_turns();
    try {
      for (bool goes_on = true; goes_on;) {
        bool any = false;
        if (const std::unique_lock turn(state_->turns, std::try_to_lock); turn) {
          any = take_turn();
          goes_on = !has_ended_;
        }
        if (goes_on && !any) wait_for_work();
      }
    } catch (...) {
      const std::lock_guard turn(state_->turns);
      end_with(std::current_exception());
    }
    const std::lock_guard turn(state_->turns);
    state_->take_turn = nullptr;
  }
  /// Sends, receives and serves what there is. Whether there was something.
  bool take_turn() {
    if (has_ended_) return false;
    try {
      if (state_->give_up) {
        // Somebody has waited too long: what was given to this store is nobody's business any longer.
        if constexpr (requires(T transport) { transport.abandon(); }) messages_.transport().abandon();
        end_with(nullptr);
        return false;
      }
      const bool leaves = is_leaving(), sent = send_waiting(), served = serve();
      if (leaves && leaving_since_ == std::chrono::steady_clock::time_point{})
        leaving_since_ = std::chrono::steady_clock::now();
      if (leaves && !has_said_so_ && waiting_.empty() && all_answered()) {
        for (int peer = 0; peer < size(); ++peer) messages_.send(peer, {.kind = HeaderKind::leave});
        has_said_so_ = true;
      }
      if (sent || served) return true;
      server_.tell_who_is_missed();
      const auto is_patient = [&] { return std::chrono::steady_clock::now() - leaving_since_ < options_.limit; };
      if ((has_said_so_ && left_ == size()) || (leaves && !is_patient())) {
        messages_.transport().finish();
        has_ended_ = true;
      }
      return false;
    } catch (...) {
      end_with(std::current_exception());
      return false;
    }
  }
  void end_with(std::exception_ptr failure) {
    if (std::exchange(has_ended_, true)) return;  // the first failure is what those who wait read
    state_->failure = std::move(failure);
    state_->failed = true;
    state_->answers.ring();
  }
  bool is_leaving() {
    const std::lock_guard lock(mutex_);
    return leaving_ && submitted_.empty();
  }
  bool all_answered() const {
    for (const auto& slots_of_server : asked_)
      for (const Slot& slot : slots_of_server)
        if (slot.request != nullptr) return false;
    return true;
  }
  /// At most for moments: then it looks whether the store is to end, and where nobody rings for messages, for those. A
  /// look takes 20 us of the processor where its rank may compute: every 60 us, bulk-synchronous steps of LeNet
  /// took 1.3 to 1.4 times as long.
  void wait_for_work() {
    bool is_rung = true;
    const auto is_there = [&] {
      std::unique_lock turn(state_->turns, std::try_to_lock);
      if (!turn) {
        if (state_->is_helped) return false;
        turn.lock();  // somebody's last one
      }
      if (has_submitted_.load(std::memory_order_acquire)) return true;
      for (int peer = 0; peer < size(); ++peer)
        if (messages_.arrived(peer)) return true;
      is_rung = doorbell_of(messages_.transport()) != nullptr;
      return false;
    };
    using std::chrono::nanoseconds;
    if (wait_until(is_there, nanoseconds(0), std::min(state_->spins, most_spins), nanoseconds(0))) return;
    doorbell_.sleep_unless(is_there, std::chrono::microseconds(is_rung ? 2000 : 400));
  }

  /// Sends requests as far as the servers take them, those of higher priority first.
  bool send_waiting() {
    if (has_submitted_.exchange(false, std::memory_order_acquire)) {
      const std::lock_guard lock(mutex_);
      for (auto& request : submitted_) {
        const auto behind = std::find_if(waiting_.begin(), waiting_.end(),
                                         [&](const auto& other) { return other->priority < request->priority; });
        // Not before another one to the same key.
        const auto same = std::find_if(std::make_reverse_iterator(waiting_.end()), std::make_reverse_iterator(behind),
                                       [&](const auto& other) { return other->key == request->key; });
        waiting_.insert(same.base(), std::move(request));
      }
      submitted_.clear();
    }
    bool any = false;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const std::shared_ptr<Request>& request = *at;
      bool blocked = false;
      for (auto before = waiting_.begin(); before != at; ++before) blocked |= (*before)->key == request->key;
      const std::size_t unsent = request->parts.size();
      if (!blocked)
        std::erase_if(request->parts, [&](const detail::ServerPart& part) { return send_part(request, part); });
      any |= request->parts.size() != unsent;
      if (request->parts.empty())
        at = waiting_.erase(at);
      else
        ++at;
    }
    return any;
  }

  bool send_part(const std::shared_ptr<Request>& request, const detail::ServerPart& part) {
    const bool pulls = request->kind == detail::RequestKind::pull;
    int slot = pulls ? pushes_at_a_time : 0;
    const int last = pulls ? slots : pushes_at_a_time;
    while (slot < last && slot_of(part.server, slot).request != nullptr) ++slot;
    if (slot == last) return false;
    slot_of(part.server, slot) = {request, part.number, part.range};
    Header header{.kind = request->kind == detail::RequestKind::push   ? HeaderKind::push
                          : request->kind == detail::RequestKind::pull ? HeaderKind::pull
                                                                       : HeaderKind::assign};
    header.slot = slot;
    header.key = request->key;
    header.first = part.range.first;
    header.in_rounds = request->consistency.in_rounds;
    header.staleness = request->consistency.staleness;
    header.floats = part.range.count;
    header.clock = request->clock;
    header.behind = request->behind;
    header.weight = request->weight;
    header.setting_count = request->setting_count;
    header.settings = request->settings;
    messages_.send(part.server, header);
    if (!pulls)
      messages_.send(part.server, {request->data + part.range.first, static_cast<std::size_t>(part.range.count)});
    return true;
  }

  bool serve() {
    bool any = false;
    for (int from = 0; from < size(); ++from)
      for (int count = 0; count < 4 && messages_.arrived(from); ++count) {
        take_message(from);
        any = true;
      }
    return any;
  }

  void take_message(int from) {
    const Header header = messages_.receive(from);
    switch (header.kind) {
      case HeaderKind::assign:
      case HeaderKind::push:
        server_.take_values(from, header);
        break;
      case HeaderKind::pull:
        server_.take_pull(from, header);
        break;
      case HeaderKind::acknowledged:
        done(slot_of(from, header.slot));
        break;
      case HeaderKind::pulled: {
        Slot& slot = slot_of(from, header.slot);
        messages_.receive_into(from, {slot.request->to + slot.part.first, static_cast<std::size_t>(slot.part.count)});
        done(slot);
        break;
      }
      case HeaderKind::refused: {
        Slot& slot = slot_of(from, header.slot);
        slot.request->refusal = slot.request->name() + ": another length than the key's on rank " +
                                std::to_string(from) + "; expected " + std::to_string(header.floats) + ", found " +
                                std::to_string(slot.part.count);
        done(slot);
        break;
      }
      case HeaderKind::waits:
        if (const auto& request = slot_of(from, header.slot).request; request != nullptr) request->missing = header.key;
        break;
      case HeaderKind::leave:
        ++left_;
        break;
    }
  }
  void done(Slot& slot) {
    const std::shared_ptr<Request> request = std::move(slot.request);
    request->answered[slot.number] = true;
    slot.request = nullptr;
    if (request->open.load(std::memory_order_relaxed) == 1) {
      record(*request);
      state_->pending.fetch_sub(1);
    }
    request->open.fetch_sub(1, std::memory_order_release);
    state_->answers.ring();
  }

  /// A request that is done, in the transport's row if it has one.
  void record([[maybe_unused]] const Request& request) {
    if constexpr (HasTimelineRow<T>)
      messages_.transport().timeline_row->add({.begin = request.begin,
                                               .end = timeline_now(),
                                               .name = detail::name_of(request.kind),
                                               .number = request.key,
                                               .bytes = 4 * request.floats,
                                               .kind = SpanKind::request});
  }

  static constexpr int most_spins = 400;  // it may have nothing to do for long

  detail::StoreMessages<T> messages_;
  Doorbell own_doorbell_;
  Doorbell& doorbell_ =
      doorbell_of(messages_.transport()) != nullptr ? *doorbell_of(messages_.transport()) : own_doorbell_;
  KeyValueOptions options_;
  std::shared_ptr<detail::StoreState> state_ = std::make_shared<detail::StoreState>();
  std::mutex mutex_;  // of the next four
  std::vector<std::shared_ptr<Request>> submitted_;
  std::map<int, long> pushes_of_;
  bool leaving_ = false;
  std::atomic<bool> has_submitted_{false};
  detail::StoreServer<T> server_;
  std::vector<std::array<Slot, slots>> asked_;  // of each server
  std::vector<std::shared_ptr<Request>> waiting_;
  int left_ = 0;
  std::chrono::steady_clock::time_point leaving_since_{};
  bool has_said_so_ = false, has_ended_ = false;
  std::thread thread_;
};

}  // namespace tenet
