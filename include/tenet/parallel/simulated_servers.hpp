#pragma once

#include <queue>
#include <tenet/parallel/key_value_shards.hpp>
#include <tenet/parallel/simulated_training.hpp>
#include <utility>

namespace tenet {

/// Where the parameters of a simulated training are, and what servers do with what comes.
struct SimulatedServers {
  Consistency consistency{};
  std::vector<int> servers{};  ///< ranks; none named: all of them
  double sum_of_float = 0;     ///< seconds for each number that is pushed
  double update_of_float = 0;  ///< seconds for each number of an update
  double copy_of_float = 0;    ///< seconds for each number that is copied in the memory of a rank
  double handling = 0;         ///< seconds of whoever receives a message, besides what its numbers take
  double ringing = 0;          ///< seconds of whoever sends one to a rank whose thread sleeps
};

namespace detail {

/// Ranks with parameter servers: each message of `ParameterServerExecution` and of its `KeyValueStore`, in the order in
/// which they come. A rank's store is one thread, which sends, receives and serves; the messages are those of the
/// store: what keys lie where, two pushes and two pulls of a rank at a time to each server, a pull of a key behind its
/// push. A step ends before the new parameters have come: the next pass waits for each bucket where it reads it.
class ServerSteps {
 public:
  ServerSteps(const SimulatedTraining& training, SimulatedServers servers, int steps)
      : training_(training), servers_(std::move(servers)), times_(training.times()), result_(training.ranks, steps) {
    if (servers_.servers.empty())
      for (int rank = 0; rank < training.ranks; ++rank) servers_.servers.push_back(rank);
    for (const int server : servers_.servers)
      if (server < 0 || server >= training.ranks)
        fail("ParameterServer", "no such server", "a rank from 0 to " + std::to_string(training.ranks - 1),
             std::to_string(server));
    for (const SimulatedBucket& bucket : training.buckets) place_key(bucket.floats);
    if (servers_.consistency.in_rounds && training.result_floats > 0) place_key(training.result_floats);
    if (servers_.consistency.in_rounds && training.buffer_floats > 0) place_key(training.buffer_floats);
    plan_pass();
    ranks_.resize(static_cast<std::size_t>(training.ranks));
    for (Rank& rank : ranks_) {
      rank.unsent_pushes.resize(keys_.size());
      rank.pushed.resize(keys_.size());
      rank.pulled.resize(keys_.size());
      rank.ways.resize(used_servers_.size());
    }
  }

  SimulatedSteps run() {
    for (int rank = 0; rank < training_.ranks; ++rank) begin_step(rank);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    return std::move(result_);
  }

 private:
  enum class What : unsigned char { ready, passed, push, acknowledged, pull, pulled };
  struct Event {
    double time;
    long number;  // of several at one time the first one comes first
    int from, to;
    int part;  // or the key, of what is ready
    long clock;
    What what;
    bool operator<(const Event& other) const { return time != other.time ? time > other.time : number > other.number; }
  };
  struct Pull {
    int rank;
    long clock;
  };
  /// What of a key lies on one server.
  struct Part {
    int key, server, way;  // way: the server's place among those that are used
    long floats;
    std::vector<long> clocks{};  // of ranks, once there is a push
    long slowest = 0;
    int at_slowest = 0, came = 0;
    std::vector<Pull> waiting{};
  };
  struct Key {
    int first_part = 0, parts = 0;
  };
  /// From a rank to a server.
  struct Way {
    int pushes = 0, pulls = 0;  // without an answer
    std::vector<int> waiting_pushes{}, waiting_pulls{};
  };
  /// Where a pass does more than compute: a bucket is ready, or parameters are needed.
  struct Stop {
    double at;  // seconds of the pass
    int key;
    bool is_ready;
  };
  struct Rank {
    long step = 0, pulled_step = 0;
    std::size_t stop = 0;  // the next one of its pass
    double began = 0;      // its pass, or later by what that has waited for
    double factor = 1, communicates_since = 0;
    bool computes = false;                // else it waits, and does its store's work
    bool is_rung = false;                 // its store's thread, for a message that is on its way
    double busy = 0, asked = 0;           // seconds of its store's thread since its pass has asked for them; when
    int open = 0;                         // what the step's end waits for
    int open_means = 0;                   // requests of means that are not met
    int unmet = 0;                        // all requests that are not
    std::vector<int> unsent_pushes{};     // of each key: parts
    std::vector<int> pushed{}, pulled{};  // of each key: parts without an answer
    std::vector<Way> ways{};
  };

  static constexpr long header = StoreHeader::floats_of;

  void place_key(long floats) {
    const int key = static_cast<int>(keys_.size());
    const std::vector<ServerPart> parts = parts_on(servers_.servers, key, floats);
    keys_.push_back({static_cast<int>(parts_.size()), static_cast<int>(parts.size())});
    for (const ServerPart& part : parts) {
      const auto known = std::find(used_servers_.begin(), used_servers_.end(), part.server);
      const int way = static_cast<int>(known - used_servers_.begin());
      if (known == used_servers_.end()) used_servers_.push_back(part.server);
      parts_.push_back({key, part.server, way, part.range.count});
    }
  }

  /// What a pass stops at, in its order, and the order in which parameters are asked for. Of pieces of a batch only the
  /// last one has stops: the first one begins when all parameters are there.
  void plan_pass() {
    for (int b = 0; b < buckets(); ++b) {
      const SimulatedBucket& bucket = training_.buckets[static_cast<std::size_t>(b)];
      stops_.push_back({std::min(bucket.needed, training_.pass), b, false});
    }
    const auto earlier = [](const Stop& a, const Stop& b) { return a.at < b.at; };
    std::stable_sort(stops_.begin(), stops_.end(), earlier);
    for (Stop& stop : stops_) {
      by_need_.push_back(stop.key);
      if (training_.before > 0) stop.at = 0;
    }
    for (int b = 0; b < buckets(); ++b) {
      const SimulatedBucket& bucket = training_.buckets[static_cast<std::size_t>(b)];
      stops_.push_back({training_.before + bucket.ready + bucket.prepare, b, true});
    }
    std::stable_sort(stops_.begin(), stops_.end(), earlier);
  }

  int buckets() const { return static_cast<int>(training_.buckets.size()); }
  int means() const { return static_cast<int>(keys_.size()) - buckets(); }  // results, running statistics
  /// Whether a rank waits for slow ones without meeting them in every step.
  bool is_bounded() const {
    return !servers_.consistency.in_rounds && servers_.consistency.staleness < Consistency::unbounded;
  }
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Part& part_at(int part) { return parts_[static_cast<std::size_t>(part)]; }

  void add(double time, What what, int from, int to, int part, long clock = 0) {
    events_.push({time, number_++, from, to, part, clock, what});
  }
  /// A message from a rank to another, with so many floats.
  void send(What what, int from, int to, int part, long floats, long clock = 0) {
    if (from != to) rank_at(from).busy += times_.link_between(from, to).busy(floats);
    if (from != to && sleeps(to, times_.clock(from)) && !std::exchange(rank_at(to).is_rung, true))
      serve(from, servers_.ringing);
    add(from == to ? times_.clock(from) : times_.send(from, to, times_.busy(floats)), what, from, to, part, clock);
  }
  static long floats_of(What what, const Part& part) {
    return what == What::push || what == What::pulled ? header + part.floats : header;
  }

  /// The thread of a rank's store computes.
  void serve(int r, double seconds) {
    times_.compute(r, seconds);
    rank_at(r).busy += seconds;
  }
  /// What a rank's pass has lost to the thread of its store since it was asked last, and loses until that has nothing
  /// more to do, or the pass has made up for it: meanwhile it computes a share of 1 - core_share.
  double lost(Rank& rank, double now) const {
    const double share = training_.core_share, elapsed = now - std::exchange(rank.asked, now);
    const double most = share < 1 ? elapsed / (1 - share) : elapsed > 1e-12 ? rank.busy : 0;
    const double beside = std::min(rank.busy, std::max(most, 0.0));
    rank.busy -= beside;
    return share * beside;
  }

  void begin_step(int r) {
    Rank& rank = rank_at(r);
    rank.busy = 0;
    rank.asked = times_.clock(r);
    rank.began = times_.clock(r);
    rank.factor = training_.slowest(r, rank.step);
    rank.stop = 0;
    // Means, pushes; where a rank may not go too far ahead, the parameters that it needs first.
    rank.open = 1 + buckets() + is_bounded();
    rank.open_means = 2 * means();
    compute(r);
  }
  /// A rank's pass goes on to the next bucket that is ready, or to its end, unless it has to wait for parameters.
  void compute(int r) {
    Rank& rank = rank_at(r);
    rank.computes = true;
    for (; rank.stop < stops_.size(); ++rank.stop) {
      const Stop& stop = stops_[rank.stop];
      if (stop.is_ready) return add(rank.began + stop.at * rank.factor, What::ready, r, r, stop.key);
      if (rank.pulled[static_cast<std::size_t>(stop.key)] > 0) {
        rank.computes = false;
        return;
      }
    }
    const double computed = (training_.before + training_.pass + training_.behind) * rank.factor;
    result_.computing += computed;
    add(rank.began + computed, What::passed, r, r, 0);
  }
  /// A bucket's parameters have come: perhaps the pass has waited for them.
  void arrive(int r, int key) {
    Rank& rank = rank_at(r);
    if (rank.stop == stops_.size() || stops_[rank.stop].is_ready || stops_[rank.stop].key != key) return;
    rank.began += lost(rank, times_.clock(r));
    rank.began += std::max(0.0, times_.clock(r) - (rank.began + stops_[rank.stop].at * rank.factor));
    compute(r);
  }

  void handle(const Event& event) {
    double waking = sleeps(event.to, event.time) ? training_.waking : 0;
    if (event.what == What::ready || event.what == What::passed) {
      if (const double later = lost(rank_at(event.to), event.time); event.time + later > event.time) {
        rank_at(event.to).began += later;
        return add(event.time + later, event.what, event.from, event.to, event.part);
      }
      // What is ready when the pass ends the rank sends itself, as it waits then.
      if (event.what == What::passed || event.part + 1 == buckets()) waking = 0;
      times_.wait(event.to, event.time);
      serve(event.to, waking);
      return event.what == What::ready ? leave(event.to, event.part) : end_pass(event.to);
    }
    rank_at(event.to).is_rung = false;
    Part& part = part_at(event.part);
    times_.forget_past(event.to, event.time);
    if (event.from != event.to) {
      const long floats = floats_of(event.what, part);
      rank_at(event.to).busy += times_.link_between(event.from, event.to).busy(floats);
      times_.receive(event.from, event.to, event.time, times_.busy(floats));
    }
    times_.wait(event.to, event.time);
    serve(event.to, waking + servers_.handling);
    if (event.from == event.to && (event.what == What::push || event.what == What::pulled)) copy(event.to, part.floats);
    switch (event.what) {
      case What::push:
        return take(event);
      case What::pull:
        if (!answer_pull(event.part, {event.from, event.clock})) part.waiting.push_back({event.from, event.clock});
        return;
      case What::acknowledged:
      case What::pulled:
        return take_answer(event);
      default:
        return;
    }
  }

  /// Whether the thread of a rank's store has nothing to do, and the rank does not do its work.
  bool sleeps(int r, double time) { return rank_at(r).computes && times_.clock(r) < time; }
  void copy(int r, long floats) { serve(r, servers_.copy_of_float * static_cast<double>(floats) * rank_at(r).factor); }

  // A rank's part.

  /// A bucket is ready.
  void leave(int r, int key) {
    push(r, key);
    ++rank_at(r).stop;
    compute(r);
  }
  /// Means go before several buckets of parameters, whose answers would keep the servers' ports from them.
  void end_pass(int r) {
    rank_at(r).computes = false;
    rank_at(r).pulled_step = rank_at(r).step + 1;
    if (buckets() == 1) pull(r, 0);
    for (int key = buckets(); key < buckets() + means(); ++key) {
      push(r, key);
      pull(r, key);
    }
    if (means() == 0) end_means(r);
  }
  void end_means(int r) {
    if (buckets() > 1)
      for (const int key : by_need_) pull(r, key);
    close(r);
  }

  static void begin_request(Rank& rank, double now) {
    if (rank.unmet++ == 0) rank.communicates_since = now;
  }
  void push(int r, int key) {
    Rank& rank = rank_at(r);
    const Key& parts = keys_[static_cast<std::size_t>(key)];
    rank.unsent_pushes[static_cast<std::size_t>(key)] = parts.parts;
    rank.pushed[static_cast<std::size_t>(key)] = parts.parts;
    begin_request(rank, times_.clock(r));
    for (int p = parts.first_part; p < parts.first_part + parts.parts; ++p) {
      Way& way = rank.ways[static_cast<std::size_t>(part_at(p).way)];
      way.waiting_pushes.push_back(p);
      send_waiting(r, way);
    }
  }
  void pull(int r, int key) {
    Rank& rank = rank_at(r);
    const Key& parts = keys_[static_cast<std::size_t>(key)];
    rank.pulled[static_cast<std::size_t>(key)] = parts.parts;
    begin_request(rank, times_.clock(r));
    for (int p = parts.first_part; p < parts.first_part + parts.parts; ++p) {
      Way& way = rank.ways[static_cast<std::size_t>(part_at(p).way)];
      way.waiting_pulls.push_back(p);
      send_waiting(r, way);
    }
  }
  void send_waiting(int r, Way& way) {
    Rank& rank = rank_at(r);
    while (way.pushes < requests_at_a_time && !way.waiting_pushes.empty()) {
      const int p = way.waiting_pushes.front();
      way.waiting_pushes.erase(way.waiting_pushes.begin());
      ++way.pushes;
      const Part& part = part_at(p);
      send(What::push, r, part.server, p, floats_of(What::push, part));
      if (--rank.unsent_pushes[static_cast<std::size_t>(part.key)] > 0) continue;
      const Key& parts = keys_[static_cast<std::size_t>(part.key)];  // now it may be pulled
      for (int other = parts.first_part; other < parts.first_part + parts.parts; ++other)
        send_pulls(r, rank.ways[static_cast<std::size_t>(part_at(other).way)]);
    }
    send_pulls(r, way);
  }
  void send_pulls(int r, Way& way) {
    const Rank& rank = rank_at(r);
    for (auto at = way.waiting_pulls.begin(); way.pulls < requests_at_a_time && at != way.waiting_pulls.end();) {
      const Part& part = part_at(*at);
      if (rank.unsent_pushes[static_cast<std::size_t>(part.key)] > 0) {
        ++at;
        continue;
      }
      ++way.pulls;
      send(What::pull, r, part.server, *at, header, rank.pulled_step);
      at = way.waiting_pulls.erase(at);
    }
  }

  void take_answer(const Event& event) {
    const int r = event.to;
    const Part& part = part_at(event.part);
    Rank& rank = rank_at(r);
    Way& way = rank.ways[static_cast<std::size_t>(part.way)];
    const bool was_push = event.what == What::acknowledged;
    --(was_push ? way.pushes : way.pulls);
    send_waiting(r, way);
    if (--(was_push ? rank.pushed : rank.pulled)[static_cast<std::size_t>(part.key)] > 0) return;
    if (--rank.unmet == 0) result_.communicating += times_.clock(r) - rank.communicates_since;
    if (part.key >= buckets()) {
      if (--rank.open_means == 0) end_means(r);
      return;
    }
    if (was_push) return close(r);
    arrive(r, part.key);
    if (is_bounded() && part.key == by_need_[0]) close(r);
  }

  /// One thing less that the step's end waits for.
  void close(int r) {
    Rank& rank = rank_at(r);
    if (--rank.open > 0) return;
    result_.end(r, static_cast<int>(rank.step)) = times_.clock(r);
    if (++rank.step < result_.steps) begin_step(r);
  }

  // A server's part.

  void take(const Event& event) {
    Part& part = part_at(event.part);
    const bool is_mean = part.key >= buckets();
    if (part.clocks.empty()) {
      part.clocks.resize(static_cast<std::size_t>(training_.ranks));
      part.at_slowest = training_.ranks;
    }
    const double factor = rank_at(event.to).factor;
    const double of_update = is_mean ? 0 : servers_.update_of_float * static_cast<double>(part.floats) * factor;
    serve(event.to, is_mean ? 0 : servers_.sum_of_float * static_cast<double>(part.floats) * factor);
    bool is_seen = false;
    if (!servers_.consistency.in_rounds) {
      serve(event.to, of_update);
      long& clock = part.clocks[static_cast<std::size_t>(event.from)];
      if (clock++ == part.slowest && --part.at_slowest == 0) {
        part.slowest = *std::min_element(part.clocks.begin(), part.clocks.end());
        part.at_slowest = static_cast<int>(std::count(part.clocks.begin(), part.clocks.end(), part.slowest));
        is_seen = true;
      }
    } else if (++part.came == training_.ranks) {  // nobody pushes again before this
      serve(event.to, of_update);
      part.came = 0;
      ++part.slowest;
      is_seen = true;
    }
    send(What::acknowledged, event.to, event.from, event.part, header);
    if (is_seen) std::erase_if(part.waiting, [&](const Pull& pull) { return answer_pull(event.part, pull); });
  }

  bool answer_pull(int p, const Pull& pull) {
    const Part& part = part_at(p);
    if (part.slowest < pull.clock - servers_.consistency.staleness) return false;
    copy(part.server, part.floats);  // what is sent stays as it is, whatever is pushed meanwhile
    send(What::pulled, part.server, pull.rank, p, floats_of(What::pulled, part));
    return true;
  }

  const SimulatedTraining& training_;
  SimulatedServers servers_;
  RankTimes times_;
  SimulatedSteps result_;
  std::vector<Key> keys_;
  std::vector<Part> parts_;
  std::vector<int> used_servers_;
  std::vector<Rank> ranks_;
  std::vector<Stop> stops_;
  std::vector<int> by_need_;  // buckets
  std::priority_queue<Event> events_;
  long number_ = 0;
};

}  // namespace detail

/// Runs so many steps of each rank.
inline SimulatedSteps simulate(const SimulatedTraining& training, const SimulatedServers& servers, int steps) {
  return detail::ServerSteps(training, servers, steps).run();
}

}  // namespace tenet
