#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tenet/comm/collectives.hpp>
#include <vector>

/// The parts of a key-value store that know of no transport: requests, and the values that a server keeps.
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

/// What an updater is given of a push, or of those of a round: all of its numbers, or as many as lie on one server.
struct Pushed {
  int key;
  long first;               ///< the place of the first number in the whole value
  std::span<float> values;  ///< weight · numbers, added up; may be overwritten
  float weight;             ///< the sum of weights
  std::span<const float> settings;
};

namespace detail {

enum class RequestKind { assign, push, pull };
inline const char* name_of(RequestKind kind) {
  constexpr const char* names[]{"assign", "push", "pull"};
  return names[static_cast<int>(kind)];
}

/// What the threads of a store and those who wait for it share.
struct StoreState {
  int rank = 0;
  std::chrono::nanoseconds limit{};
  std::atomic<int> pending{0};  // requests
  std::atomic<bool> give_up{false};
  std::exception_ptr failure;       // written before `failed`; none where the thread was told to give up
  std::atomic<bool> failed{false};  // the thread has ended
};

struct ServerPart {
  int server;
  std::size_t number;  // among the request's
  FloatRange range;
};

struct Request {
  RequestKind kind = RequestKind::pull;
  int key = 0;
  const float* data = nullptr;
  float* to = nullptr;
  long floats = 0;
  int priority = 0;
  float weight = 1;
  int setting_count = 0;
  std::array<float, 8> settings{};
  Consistency consistency{};
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

/// The message before the numbers, if there are any.
struct StoreHeader {
  enum class Kind : int { assign, push, pull, acknowledged, pulled, refused, waits, leave };
  static constexpr std::size_t most_settings = 8;
  Kind kind = Kind::leave;
  int slot = 0;
  int key = 0;
  int in_rounds = 0;
  long staleness = 0;
  long first = 0;
  long floats = 0;
  long clock = 0;
  float weight = 1;
  int setting_count = 0;
  std::array<float, most_settings> settings{};

  static const int floats_of;
};
inline constexpr int StoreHeader::floats_of = sizeof(StoreHeader) / sizeof(float);
static_assert(std::is_trivially_copyable_v<StoreHeader> && sizeof(StoreHeader) % sizeof(float) == 0);

/// The values, or parts of values, that one server keeps. For one thread; only `largest_lead` is for all.
class KeyValueShards {
 public:
  using Reduction = std::function<void(std::span<float>, std::span<const float>)>;
  using Updater = std::function<void(const Pushed&, std::span<float>)>;

  KeyValueShards(int ranks, Reduction reduction, Updater updater)
      : ranks_(static_cast<std::size_t>(ranks)), reduction_(std::move(reduction)), updater_(std::move(updater)) {}

  std::atomic<long> largest_lead{0};

  /// Memory for what comes, from what has been there before.
  std::vector<float> room(long floats) {
    std::vector<float> result;
    if (!free_.empty()) {
      result = std::move(free_.back());
      free_.pop_back();
    }
    result.resize(static_cast<std::size_t>(floats));
    return result;
  }

  // They return 0, or the length of the key's value where what comes has another.

  long assign(const StoreHeader& header, std::vector<float> values) {
    Entry& entry = entry_of(header.key);
    if (entry.length == 0) entry.length = header.floats;
    if (entry.length != header.floats) return refuse(entry, std::move(values));
    std::swap(entry.value, values);
    if (entry.exists) free_.push_back(std::move(values));
    entry.exists = true;
    apply(header.key, entry);
    return 0;
  }

  long push(int from, const StoreHeader& header, std::vector<float> values) {
    Entry& entry = entry_of(header.key);
    if (entry.length == 0) entry.length = header.floats;
    if (entry.length != header.floats) return refuse(entry, std::move(values));
    entry.in_rounds = header.in_rounds != 0;
    scale_floats(values.data(), header.weight, header.floats);
    entry.pushes[static_cast<std::size_t>(from)].push_back({std::move(values), header});
    entry.arrivals.push_back(from);
    apply(header.key, entry);
    return 0;
  }

  /// What keeps a pull waiting: the rank with the fewest pushes, or `Request::value`.
  int keeps_waiting(const StoreHeader& header) {
    const Entry& entry = entry_of(header.key);
    if (!entry.exists) return Request::value;
    // In rounds those whose push has come have done their part.
    const auto pushes_of = [&](std::size_t rank) {
      return entry.clocks[rank] + static_cast<long>(entry.pushes[rank].size());
    };
    std::size_t last = 0;
    for (std::size_t rank = 1; rank < ranks_; ++rank)
      if (pushes_of(rank) < pushes_of(last)) last = rank;
    return static_cast<int>(last);
  }

  /// The value if it may be seen by this pull, or has another length; else null.
  std::span<const float> pull(int from, const StoreHeader& header) {
    Entry& entry = entry_of(header.key);
    if (!entry.exists) return {};
    if (entry.length != header.floats) return entry.value;
    if (slowest(entry) < header.clock - header.staleness) return {};
    const long lead = entry.clocks[static_cast<std::size_t>(from)] - slowest(entry);
    if (lead > largest_lead.load(std::memory_order_relaxed)) largest_lead.store(lead, std::memory_order_relaxed);
    return entry.value;
  }

 private:
  struct Waiting {
    std::vector<float> values;
    StoreHeader header;
  };
  struct Entry {
    bool exists = false, in_rounds = true;
    long length = 0;
    std::vector<float> value;
    std::vector<long> clocks;                 // of ranks: their pushes that are part of the value
    std::vector<std::deque<Waiting>> pushes;  // of ranks: those that are not
    std::deque<int> arrivals;                 // whose they are
  };

  Entry& entry_of(int key) {
    Entry& entry = entries_[key];
    if (entry.clocks.empty()) {
      entry.clocks.resize(ranks_);
      entry.pushes.resize(ranks_);
    }
    return entry;
  }
  long refuse(const Entry& entry, std::vector<float> values) {
    free_.push_back(std::move(values));
    return entry.length;
  }
  static long slowest(const Entry& entry) { return *std::min_element(entry.clocks.begin(), entry.clocks.end()); }

  /// Makes what has been pushed part of the value, as far as that is possible.
  void apply(int key, Entry& entry) {
    if (!entry.exists) return;
    const auto take = [&](std::size_t rank) {
      Waiting first = std::move(entry.pushes[rank].front());
      entry.pushes[rank].pop_front();
      ++entry.clocks[rank];
      return first;
    };
    const auto update = [&](Waiting pushed) {
      if (key < 0) {  // the store's own
        std::swap(entry.value, pushed.values);
        return free_.push_back(std::move(pushed.values));
      }
      const std::size_t settings = static_cast<std::size_t>(pushed.header.setting_count);
      updater_(
          {key, pushed.header.first, pushed.values, pushed.header.weight, {pushed.header.settings.data(), settings}},
          entry.value);
      free_.push_back(std::move(pushed.values));
    };
    if (!entry.in_rounds) {
      for (; !entry.arrivals.empty(); entry.arrivals.pop_front())
        update(take(static_cast<std::size_t>(entry.arrivals.front())));
      return;
    }
    const auto has_come = [](const auto& of_rank) { return !of_rank.empty(); };
    while (std::all_of(entry.pushes.begin(), entry.pushes.end(), has_come)) {
      Waiting sum = take(0);
      for (std::size_t rank = 1; rank < ranks_; ++rank) {
        Waiting next = take(rank);
        if (key >= 0) reduction_(sum.values, next.values);
        sum.header.weight += next.header.weight;
        free_.push_back(std::move(next.values));
      }
      update(std::move(sum));
    }
    entry.arrivals.clear();
  }

  std::size_t ranks_;
  Reduction reduction_;
  Updater updater_;
  std::map<int, Entry> entries_;
  std::vector<std::vector<float>> free_;
};

}  // namespace detail
}  // namespace tenet
