#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <span>
#include <tenet/core/function.hpp>
#include <tenet/parallel/key_value_request.hpp>

/// The part of a key-value store that knows of no transport: the values that a server keeps.
namespace tenet {

/// What an updater is given of a push, or of those of a round: all of its numbers, or as many as lie on one server.
struct Pushed {
  int key;
  long first;               ///< the place of the first number in the whole value
  std::span<float> values;  ///< weight · numbers, added up; may be overwritten
  float weight;             ///< the sum of weights
  std::span<const float> settings;
};

/// How a store works; the same on all ranks.
struct KeyValueOptions {
  Consistency consistency{};
  std::vector<int> servers{};  ///< ranks that keep values; none named: all of them
  /// What pushes of one round become together: sum = reduction(sum, pushed). Commutative and associative; else their
  /// sum.
  Function<void(std::span<float> sum, std::span<const float> pushed)> reduction{};
  /// What a value becomes by a push, or by those of a round together: else exactly that. It runs on the servers, for a
  /// part of a large value at a time, on the store's thread.
  Function<void(const Pushed&, std::span<float> value)> updater{};
  std::chrono::nanoseconds limit{0};  ///< of each wait; zero: the transport's
};

namespace detail {

/// The message before the numbers, if there are any.
struct StoreHeader {
  enum class Kind : int { assign, push, pull, acknowledged, pulled, refused, waits, leave };
  Kind kind = Kind::leave;
  int slot = 0;
  int key = 0;
  int in_rounds = 0;
  long staleness = 0;
  long first = 0;
  long floats = 0;
  long clock = 0;
  long behind = -1;  ///< of a pull: see `PullOptions`
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
  using Reduction = Function<void(std::span<float>, std::span<const float>)>;
  using Updater = Function<void(const Pushed&, std::span<float>)>;

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

  long assign(int from, const StoreHeader& header, std::vector<float> values) {
    Entry& entry = entry_of(header.key);
    if (entry.length == 0) entry.length = header.floats;
    if (entry.length != header.floats) return refuse(entry, std::move(values));
    std::swap(entry.value, values);
    if (entry.exists) free_.push_back(std::move(values));
    entry.exists = true;
    entry.assigned[static_cast<std::size_t>(from)] = pushes_of(entry, from);
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

  /// What keeps a pull waiting: the one behind which it is, the rank with the fewest pushes, or `Request::value`.
  int keeps_waiting(const StoreHeader& header) {
    const Entry& entry = entry_of(header.key);
    if (!entry.exists) return Request::value;
    if (!is_behind(entry, header)) return static_cast<int>(header.behind);
    // In rounds those whose push has come have done their part.
    int last = 0;
    for (int rank = 1; rank < static_cast<int>(ranks_); ++rank)
      if (pushes_of(entry, rank) < pushes_of(entry, last)) last = rank;
    return last;
  }

  /// The value if it may be seen by this pull, or has another length; else null.
  std::span<const float> pull(int from, const StoreHeader& header) {
    Entry& entry = entry_of(header.key);
    if (!entry.exists) return {};
    if (entry.length != header.floats) return entry.value;
    if (!is_behind(entry, header) || slowest(entry) < header.clock - header.staleness) return {};
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
    std::vector<long> assigned;               // behind so many pushes of a rank it gave the value; -1: it never has
    std::vector<std::deque<Waiting>> pushes;  // of ranks: those that are not
    std::deque<int> arrivals;                 // whose they are
  };

  Entry& entry_of(int key) {
    Entry& entry = entries_[key];
    if (entry.clocks.empty()) {
      entry.clocks.resize(ranks_);
      entry.assigned.resize(ranks_, -1);
      entry.pushes.resize(ranks_);
    }
    return entry;
  }
  long refuse(const Entry& entry, std::vector<float> values) {
    free_.push_back(std::move(values));
    return entry.length;
  }
  /// All of a rank's that have come.
  static long pushes_of(const Entry& entry, int rank) {
    const auto at = static_cast<std::size_t>(rank);
    return entry.clocks[at] + static_cast<long>(entry.pushes[at].size());
  }
  static bool is_behind(const Entry& entry, const StoreHeader& pull) {
    if (pull.behind < 0) return true;
    return entry.assigned[static_cast<std::size_t>(pull.behind)] >= pull.clock ||
           pushes_of(entry, static_cast<int>(pull.behind)) > pull.clock;
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
