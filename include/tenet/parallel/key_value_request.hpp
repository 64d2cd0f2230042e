#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tenet/comm/collectives.hpp>
#include <tenet/core/doorbell.hpp>
#include <tenet/core/function.hpp>
#include <tenet/core/wait_until.hpp>
#include <thread>
#include <vector>

/// What a rank asks a key-value store for.
namespace tenet {

/// What a pull waits for. A rank's clock at a key is the number of its pushes to it.
struct Consistency {
  /// The pushes of all ranks with the same number are one: they become part of the value together, in the order of
  /// ranks. Otherwise each does when it comes.
  bool in_rounds = true;
  /// A pull waits until the slowest rank's clock is at most so far behind that of the rank that pulls.
  long staleness = 0;

  static constexpr long unbounded = 1L << 62;
  static constexpr Consistency bulk_synchronous() { return {true, 0}; }
  static constexpr Consistency asynchronous() { return {false, unbounded}; }
  static constexpr Consistency bounded_staleness(long most) { return {false, most}; }
};

template <Transport T>
class KeyValueStore;

struct PushOptions {
  int priority = 0;                   ///< requests with a higher one overtake those that still wait to be sent
  float weight = 1;                   ///< what is pushed counts so many times
  std::span<const float> settings{};  ///< at most 8 numbers for the updater
  /// False: the caller is about to wait, and so to send this one himself; if he does not, it lies for 2 ms at most.
  bool wakes = true;
};
struct PullOptions {
  int priority = 0;
  /// A rank: the pull waits until that rank has assigned the key a value after as many pushes to it as the caller has
  /// made, or has pushed once more, and so has nothing to assign. -1: none.
  int behind = -1;
  bool wakes = true;  ///< see `PushOptions`
};

namespace detail {

enum class RequestKind { assign, push, pull };
inline const char* name_of(RequestKind kind) {
  constexpr const char* names[]{"assign", "push", "pull"};
  return names[static_cast<int>(kind)];
}

inline constexpr std::size_t most_settings = 8;  ///< of a push
/// So many pushes, and so many pulls, of a rank are at a server at a time.
inline constexpr int requests_at_a_time = 2;

/// What a store's thread and those who wait for it share. Sending, receiving and serving go by turns: the thread takes
/// them, but while somebody waits, he does. So nobody waits for the scheduler to change from one thread to the other:
/// where these share a processor, one that is ready to run, but not at its turn, waits until the scheduler's clock
/// ticks, every 4 ms, say.
struct StoreState {
  int rank = 0;
  std::chrono::nanoseconds limit{};
  std::atomic<int> pending{0};  // requests
  std::atomic<bool> give_up{false};
  std::exception_ptr failure;       // written before `failed`; none where the thread was told to give up
  std::atomic<bool> failed{false};  // there are no turns any longer

  std::mutex turns;                    // of the next one
  Function<bool()> take_turn;          // whether there was something to do; null when the thread has ended
  Doorbell* doorbell = nullptr;        // of the thread
  Doorbell answers;                    // rung behind each request that is done, and behind `failed`
  std::atomic<bool> is_helped{false};  // the thread may sleep: somebody else looks for what comes
  const int spins = spins_between(2);

  StoreState() { answers.open(); }

  /// Waits for ready(), which holds when a request is done. False where it does not within the limit.
  template <class Ready>
  bool wait(Ready ready) {
    const auto is_over = [&] { return ready() || failed; };
    for (const auto end = std::chrono::steady_clock::now() + limit; !is_over();) {
      if (!is_helped.exchange(true)) help(is_over, end);
      const auto rest = end - std::chrono::steady_clock::now();
      if (rest.count() <= 0) return is_over();
      answers.sleep_unless(is_over, rest);
    }
    return true;
  }

 private:
  /// Takes turns as long as something comes now and then.
  template <class Over>
  void help(Over is_over, std::chrono::steady_clock::time_point end) {
    const std::lock_guard lock(turns);
    if (!take_turn) return is_helped.store(false);
    doorbell->mute();
    int looks = 0;
    for (auto last = std::chrono::steady_clock::now(); !is_over() && last < end;) {
      if (take_turn()) {
        looks = 0;
        last = std::chrono::steady_clock::now();
      } else if (++looks < spins) {
        pause();
      } else {
        if (std::chrono::steady_clock::now() - last > usual_patience) break;
        std::this_thread::yield();
      }
    }
    // What comes from here on wakes the thread, which waits for the end of this turn; what has come is this turn's, and
    // where there was something, there may be more than it takes.
    is_helped.store(false);
    doorbell->unmute();
    if (take_turn()) doorbell->ring();
  }
};

struct ServerPart {
  int server;
  std::size_t number;  // among the request's
  FloatRange range;
};
/// Floats of a value for each of its servers, from which on all of them have a part.
inline constexpr long enough_for_a_server = 4096;
/// Where the value of a key lies: in parts of equal size on all servers where each has enough of it; else whole on one,
/// number key % n of the n.
inline std::vector<ServerPart> parts_on(std::span<const int> servers, int key, long floats) {
  const int count = static_cast<int>(servers.size());
  std::vector<ServerPart> parts;
  if (count == 1 || floats < enough_for_a_server * count)
    parts.push_back({servers[static_cast<std::size_t>((key % count + count) % count)], 0, {0, floats}});
  else
    for (const int server : servers)
      parts.push_back({server, parts.size(), part_of(floats, static_cast<int>(parts.size()), count)});
  return parts;
}

struct Request {
  RequestKind kind = RequestKind::pull;
  int key = 0;
  const float* data = nullptr;
  float* to = nullptr;
  long floats = 0;
  int priority = 0;
  float weight = 1;
  int setting_count = 0;
  std::array<float, most_settings> settings{};
  Consistency consistency{};
  int behind = -1;  // of a pull
  long clock = 0;
  std::shared_ptr<StoreState> store{};
  std::vector<ServerPart> parts{};            // still to be sent
  std::vector<int> asked{};                   // the servers of all parts
  std::vector<std::atomic<bool>> answered{};  // which of them have answered
  static constexpr int nobody = -2, value = -1;
  std::atomic<int> missing{nobody};  // for what a server says that it waits: a rank's push, or a first value
  std::string refusal{};             // written before `open`
  std::atomic<int> open{0};          // parts without an answer
  std::int64_t begin = 0;            // `timeline_now()`, where requests are recorded

  std::string name() const {
    std::string result = "rank ";
    return result.append(std::to_string(store->rank))
        .append(", ")
        .append(name_of(kind))
        .append(" of key ")
        .append(std::to_string(key));
  }
};

[[noreturn, gnu::cold]] inline void fail_unanswered(const Request& request) {
  std::string servers;
  for (std::size_t i = 0; i < request.asked.size(); ++i)
    if (!request.answered[i]) servers.append(servers.empty() ? "" : ", ").append(std::to_string(request.asked[i]));
  std::string what = "waits for server " + servers;
  const int missing = request.missing;
  if (missing == Request::value) what += ", which waits for somebody to assign it";
  if (missing >= 0) what.append(", which waits for a push from rank ").append(std::to_string(missing));
  char limit[32];
  std::snprintf(limit, sizeof limit, "%.3g s", std::chrono::duration<double>(request.store->limit).count());
  fail(request.name(), what, "within " + std::string(limit), "no answer");
}

inline std::shared_ptr<Request> request_for(RequestKind kind, int key, const float* data, float* to,
                                            std::size_t floats) {
  auto request = std::make_shared<Request>();
  request->kind = kind;
  request->key = key;
  request->data = data;
  request->to = to;
  request->floats = static_cast<long>(floats);
  return request;
}
inline std::shared_ptr<Request> push_request(int key, std::span<const float> values, const PushOptions& options,
                                             Consistency wanted) {
  if (options.settings.size() > most_settings)
    fail("KeyValueStore::push", "settings", "at most 8", static_cast<long>(options.settings.size()));
  auto request = request_for(RequestKind::push, key, values.data(), nullptr, values.size());
  request->priority = options.priority;
  request->weight = options.weight;
  request->consistency = wanted;
  request->setting_count = static_cast<int>(options.settings.size());
  std::copy(options.settings.begin(), options.settings.end(), request->settings.begin());
  return request;
}
inline std::shared_ptr<Request> pull_request(int key, std::span<float> value, const PullOptions& options,
                                             Consistency wanted) {
  auto request = request_for(RequestKind::pull, key, nullptr, value.data(), value.size());
  request->priority = options.priority;
  request->behind = options.behind;
  request->consistency = wanted;
  return request;
}

}  // namespace detail

/// What a store has been asked for; to be waited for before the memory that was given is used otherwise.
class PendingRequest {
 public:
  PendingRequest() = default;

  bool ready() const {
    return request_ == nullptr || request_->open.load(std::memory_order_acquire) == 0 || request_->store->failed;
  }
  /// Throws `Error` where a server refuses, where no answer comes within the store's limit, and what has ended the
  /// store's communication. All but the first end the store: no memory that it was given is used any longer.
  void wait() {
    if (request_ == nullptr) return;
    const std::shared_ptr<detail::Request> request = std::move(request_);
    detail::StoreState& store = *request->store;
    const auto is_done = [&] { return request->open.load(std::memory_order_acquire) == 0; };
    if (!store.wait(is_done)) {
      store.give_up = true;
      store.wait([] { return false; });
    }
    if (!request->refusal.empty()) throw Error(request->refusal);
    if (is_done()) return;
    if (store.failure != nullptr) std::rethrow_exception(store.failure);
    detail::fail_unanswered(*request);
  }

 private:
  template <Transport T>
  friend class KeyValueStore;
  explicit PendingRequest(std::shared_ptr<detail::Request> request) : request_(std::move(request)) {}
  std::shared_ptr<detail::Request> request_;
};

}  // namespace tenet
