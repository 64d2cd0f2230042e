#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/simulated_link.hpp>
#include <thread>

namespace tenet {

class SimulatedTransport;

/// Ranks that exchange numbers in earnest, while time is only reckoned: to know what an algorithm takes on a network
/// that is not there, or what becomes of it when ranks die.
///
///     SimulatedNetwork network(8, {.link = {.latency = 2e-6, .bytes_per_second = 12.5e9}});
///     const double seconds = network.run([&](SimulatedTransport& transport) {
///       std::vector<float> gradients(1 << 20);
///       transport.compute(5e-3);
///       all_reduce(transport, gradients.data(), 1 << 20, {"gradients", 0, 1});
///     });
///
/// The model. Each rank has a clock, which `compute` and waits move, and nothing else: what the program itself does
/// takes no time. A rank has a port that sends and one that receives, or, for each link that is a wire, two of its own;
/// a message of n bytes keeps each of them busy for n / bandwidth, the second one a latency after the first. A message
/// leaves when the sender's clock and port allow, in the order in which they are sent. The receiver's port takes it
/// when it has come and the port is free. For those who wait, the clock becomes the time at which it is there as a
/// whole: for the receiver, and for a sender in `finish`. A rank's messages to itself take no time.
///
/// Times do not depend on how threads are scheduled, as no rank sees anything but the messages it asks for. What this
/// leaves out: messages that come to one port at the same time are served in the order in which the rank asks for them;
/// nothing is shared but ports (no switches, no congestion within the network); there is room for any number of
/// messages under way. And `arrived` answers whether a message has been sent, in real time: who asks it, as a
/// `KeyValueStore` does, gets the right numbers, and times that depend on the order in which it happened to look.
///
/// Waits for what never comes end at once, with an `Error` that says why: the message was lost or comes past the limit;
/// the other rank has ended, failed or died; all ranks wait. (Kahn, The semantics of a simple language for parallel
/// programming, 1974, for the first argument; Hockney, Parallel Computing 20, 1994, for the times.)
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(int size, SimulatedNetworkOptions options = {})
      : size_(size), options_(std::move(options)) {
    if (size < 1) fail("SimulatedNetwork", "ranks", "at least one", long{size});
    std::vector<int> machine_of_rank;
    for (int rank = 0; rank < size; ++rank)
      machine_of_rank.push_back(options_.machine_of ? options_.machine_of(rank) : rank);
    machines_ = std::make_unique<const MachineTopology>(machine_of_rank, LinkCost{});
    SimulatedLink slowest = fastest, slowest_inside = fastest;
    for (int from = 0; from < size; ++from)
      for (int to = 0; to < size; ++to) {
        if (from == to) continue;
        const SimulatedLink link = link_between(from, to);
        if (!(link.latency >= 0 && link.bytes_per_second > 0))
          fail("SimulatedNetwork", "the link from rank " + std::to_string(from) + " to rank " + std::to_string(to),
               "a latency that is not negative, and a positive bandwidth",
               std::to_string(link.latency) + " s and " + std::to_string(link.bytes_per_second) + " bytes/s");
        (machines_->are_together(from, to) ? slowest_inside : slowest).be_no_quicker_than(link);
      }
    machines_ = std::make_unique<const MachineTopology>(machine_of_rank, slowest_inside.cost());
    cost_ = (size == 1 ? options_.link : machines_->count() == 1 ? slowest_inside : slowest).cost();
    if (knows_machines()) cost_.machine = machines_->cost();
    ranks_.resize(index(size));
  }
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;

  int size() const { return size_; }

  /// Calls body(transport) for each rank, on a thread of its own, from time 0 on. Returns the time at which the last
  /// one has ended; throws what a rank has thrown, if possible not one that only waited for another that has failed.
  template <class Body>
  double run(Body body) {
    std::exception_ptr cause;
    for (const std::exception_ptr& thrown : execute(body))
      if (thrown != nullptr && (cause == nullptr || (is_peer_failure(cause) && !is_peer_failure(thrown))))
        cause = thrown;
    if (cause != nullptr) std::rethrow_exception(cause);
    double last = 0;
    for (const Rank& rank : ranks_) last = std::max(last, rank.clock);
    return last;
  }

  /// The same where ranks are to fail: each one's message, or "".
  template <class Body>
  [[nodiscard]] std::vector<std::string> failures(Body body) {
    std::vector<std::string> messages;
    for (const std::exception_ptr& thrown : execute(body)) {
      messages.emplace_back();
      try {
        if (thrown != nullptr) std::rethrow_exception(thrown);
      } catch (const std::exception& error) {
        messages.back() = error.what();
      }
    }
    return messages;
  }

  /// The time at which a rank has ended.
  double ended(int rank) const { return ranks_[index(rank)].clock; }

 private:
  friend class SimulatedTransport;

  struct Message {
    std::vector<float> data;
    MessageLabel label;
    double comes = 0, busy = 0;  // its beginning, at the receiver's port, and for how long
    std::string lost{};          // why it never comes
  };
  /// From one rank to another.
  struct Way {
    std::deque<Message> messages;
    long sent = 0, received = 0;
    double last_received = 0;
    MessageLabel last_label{};
    std::string lost{};  // why what was sent is not received
  };
  enum class State { runs, has_ended, has_failed, has_died };
  enum class Wait { none, receive, finish };
  struct Rank {
    State state = State::runs;
    double clock = 0;
    detail::SimulatedPorts ports{};
    std::map<int, Way> ways{};  // to others
    Wait waits = Wait::none;
    int peer = 0;
    bool in_vain = false;  // all ranks wait
    std::condition_variable wake{};
  };

  static constexpr SimulatedLink fastest{0, std::numeric_limits<double>::infinity(), true};
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  static bool is_peer_failure(const std::exception_ptr& thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const PeerFailed&) {
      return true;
    } catch (...) {
      return false;
    }
  }

  bool knows_machines() const { return options_.machine_of && machines_->count() > 1; }
  SimulatedLink link_between(int from, int to) const {
    if (options_.link_between) return options_.link_between(from, to);
    return machines_->are_together(from, to) ? options_.inside : options_.link;
  }
  double death(int rank) const {
    const auto found = options_.deaths.find(rank);
    return found == options_.deaths.end() ? SimulatedNetworkOptions::never : found->second;
  }
  static std::string seconds_text(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g s", seconds);
    return text;
  }
  std::string death_text(int rank) const {
    return "that rank " + std::to_string(rank) + " has died at " + seconds_text(death(rank));
  }

  template <class Body>
  std::vector<std::exception_ptr> execute(Body& body);

  // What follows is called with the mutex.

  /// Waits until `wake` is called for this rank; whether it may still get what it waits for.
  [[nodiscard]] bool wait(int rank, Wait kind, int peer, std::unique_lock<std::mutex>& lock) {
    Rank& own = ranks_[index(rank)];
    own.waits = kind;
    own.peer = peer;
    own.in_vain = false;
    end_vain_waits();
    own.wake.wait(lock, [&] { return own.waits == Wait::none; });
    return !own.in_vain;
  }
  void wake(int rank) {
    ranks_[index(rank)].waits = Wait::none;
    ranks_[index(rank)].wake.notify_one();
  }
  bool waits(int rank, Wait kind, int peer) const {
    return ranks_[index(rank)].waits == kind && ranks_[index(rank)].peer == peer;
  }
  void end(int rank, State state) {
    ranks_[index(rank)].state = state;
    for (int other = 0; other < size_; ++other)
      if (ranks_[index(other)].waits != Wait::none && ranks_[index(other)].peer == rank) wake(other);
    end_vain_waits();
  }
  /// Who waits is woken by what it waits for. So where no rank runs, nothing can come any more.
  void end_vain_waits() {
    for (const Rank& rank : ranks_)
      if (rank.state == State::runs && rank.waits == Wait::none) return;
    for (int rank = 0; rank < size_; ++rank) {
      if (ranks_[index(rank)].waits == Wait::none) continue;
      ranks_[index(rank)].in_vain = true;
      wake(rank);
    }
  }

  int size_;
  SimulatedNetworkOptions options_;
  std::unique_ptr<const MachineTopology> machines_;  // where nothing is known, one for each rank
  LinkCost cost_;
  std::mutex mutex_;
  std::deque<Rank> ranks_;
};

/// A `Transport` between the ranks of a `SimulatedNetwork`, whose `run` makes them.
class SimulatedTransport {
 public:
  int rank() const { return rank_; }
  int size() const { return network_->size_; }
  /// That of the slowest link, inside of machines and between them, as in the end all wait for it.
  LinkCost link() const { return network_->cost_; }
  const MachineTopology* machines() const { return network_->knows_machines() ? network_->machines_.get() : nullptr; }
  /// The virtual one; for those who wait by a real clock as well.
  std::chrono::nanoseconds limit() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(network_->options_.limit));
  }

  /// This rank's clock.
  double now() const {
    const std::lock_guard lock(network_->mutex_);
    return own().clock;
  }
  /// Moves this rank's clock: so long it computes. What is under way goes on meanwhile.
  void compute(double seconds) {
    const std::lock_guard lock(network_->mutex_);
    if (!(seconds >= 0)) fail("compute", "time", "not negative", std::to_string(seconds));
    move_to(own().clock + seconds);
  }

  void send(int to, const float* data, long floats, MessageLabel label) {
    Network::Message message{std::vector<float>(data, data + floats), label};
    const SimulatedLink link = to == rank_ ? SimulatedLink{} : network_->link_between(rank_, to);
    const std::lock_guard lock(network_->mutex_);
    move_to(own().clock);
    Network::Way& way = way_to(to);
    message.comes = own().clock;
    if (to != rank_) {
      message.busy = link.busy(floats);
      const double leaves = own().ports.send(to, link.is_wire, own().clock, message.busy);
      const auto& delay = network_->options_.delay;
      message.comes = leaves + link.latency + (delay ? delay({rank_, to, way.sent, floats, label}) : 0);
      if (message.comes == SimulatedNetworkOptions::never) message.lost = "that it was lost";
      if (leaves + message.busy > network_->death(rank_)) message.lost = network_->death_text(rank_);
    }
    ++way.sent;
    way.last_label = label;
    if (way.lost.empty()) way.lost = message.lost;
    way.messages.push_back(std::move(message));
    if (network_->waits(to, Network::Wait::receive, rank_)) network_->wake(to);
  }

  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    const std::vector<float> data = take(from, floats, label);
    use(data.data(), 0L, floats);
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    const std::vector<float> data = take(from, floats, label);
    std::copy(data.begin(), data.end(), to);
  }

  /// Whether a message has been sent, in real time: see `SimulatedNetwork`.
  bool arrived(int from) {
    static constexpr MessageLabel label{"waiting for messages", -1, 0};
    const std::lock_guard lock(network_->mutex_);
    move_to(own().clock);
    const Network::Way& way = way_from(from);
    const Network::State state = network_->ranks_[Network::index(from)].state;
    if (!way.messages.empty() ? !way.messages.front().lost.empty()
                              : state != Network::State::runs && state != Network::State::has_ended)
      fail_receive(from, label);
    return !way.messages.empty();
  }

  void finish() {
    std::unique_lock lock(network_->mutex_);
    move_to(own().clock);
    for (auto& [to, way] : own().ways) {
      if (!way.lost.empty()) fail_wait(finishing, to, way.last_label, way.lost);
      if (way.received != way.sent && runs(to) && !network_->wait(rank_, Network::Wait::finish, to, lock))
        fail_wait(finishing, to, way.last_label, nobody_runs);
      if (way.received != way.sent) fail_ended(finishing, to, way.last_label);
      wait_until(way.last_received, finishing, to, way.last_label);
    }
  }

 private:
  friend class SimulatedNetwork;
  using Network = SimulatedNetwork;

  static constexpr const char* receiving = "waits for a message from";
  static constexpr const char* finishing = "has sent a message, which waits for";
  static constexpr const char* nobody_runs = "that all ranks wait or have ended";

  SimulatedTransport(SimulatedNetwork& network, int rank) : network_(&network), rank_(rank) {}

  // What follows is called with the mutex, but for `take`.

  Network::Rank& own() const { return network_->ranks_[Network::index(rank_)]; }
  Network::Way& way_to(int to) const { return own().ways[to]; }
  Network::Way& way_from(int from) const { return network_->ranks_[Network::index(from)].ways[rank_]; }
  bool runs(int peer) const { return network_->ranks_[Network::index(peer)].state == Network::State::runs; }

  std::vector<float> take(int from, long floats, const MessageLabel& label) {
    std::unique_lock lock(network_->mutex_);
    move_to(own().clock);
    Network::Way& way = way_from(from);
    if (way.messages.empty() && runs(from) && !network_->wait(rank_, Network::Wait::receive, from, lock))
      fail_wait(receiving, from, label, nobody_runs);
    if (way.messages.empty() || !way.messages.front().lost.empty()) fail_receive(from, label);
    Network::Message& message = way.messages.front();
    const long found = static_cast<long>(message.data.size());
    if (found != floats || !(message.label == label))
      detail::fail_message(rank_, from, label, floats, message.label, found);
    double there = message.comes;
    if (from != rank_)
      there = own().ports.receive(from, network_->link_between(from, rank_).is_wire, message.comes, message.busy);
    wait_until(there, receiving, from, label);
    std::vector<float> data = std::move(message.data);
    way.messages.pop_front();
    way.last_received = std::max(way.last_received, there);
    if (++way.received == way.sent && network_->waits(from, Network::Wait::finish, rank_)) network_->wake(from);
    return data;
  }

  /// Moves the clock, unless this rank dies before.
  void move_to(double time) {
    const double death = network_->death(rank_);
    own().clock = std::min(time, death);
    if (time < death) return;
    network_->end(rank_, Network::State::has_died);
    throw Error("rank " + std::to_string(rank_) + ": has died at " + Network::seconds_text(death));
  }
  void wait_until(double time, const char* doing, int peer, const MessageLabel& label) {
    if (time > own().clock + network_->options_.limit)
      fail_wait(doing, peer, label, "that it takes until " + Network::seconds_text(time));
    if (time > own().clock) move_to(time);
  }

  [[noreturn, gnu::cold]] void fail_receive(int from, const MessageLabel& label) {
    const Network::Way& way = way_from(from);
    if (way.messages.empty()) fail_ended(receiving, from, label);
    fail_wait(receiving, from, label, way.messages.front().lost);
  }
  [[noreturn, gnu::cold]] void fail_wait(const char* doing, int peer, const MessageLabel& label,
                                         const std::string& found) {
    const double limit = network_->options_.limit;
    move_to(own().clock + limit);
    detail::fail_waiting(rank_, doing, peer, label, limit, -1, found);
  }
  /// The other rank does not run any more.
  [[noreturn, gnu::cold]] void fail_ended(const char* doing, int peer, const MessageLabel& label) {
    const Network::State state = network_->ranks_[Network::index(peer)].state;
    if (state == Network::State::has_died) fail_wait(doing, peer, label, network_->death_text(peer));
    const std::string name = "that rank " + std::to_string(peer);
    if (state == Network::State::has_ended) fail_wait(doing, peer, label, name + " has ended");
    move_to(own().clock + network_->options_.limit);
    try {
      detail::fail_waiting(rank_, doing, peer, label, network_->options_.limit, -1, name + " has failed");
    } catch (const Error& error) {
      throw PeerFailed(error.what());
    }
  }

  SimulatedNetwork* network_;
  int rank_;
};

static_assert(KnowsMachines<SimulatedTransport>);

template <class Body>
std::vector<std::exception_ptr> SimulatedNetwork::execute(Body& body) {
  ranks_.clear();
  ranks_.resize(index(size_));
  std::vector<std::exception_ptr> thrown(index(size_));
  const auto end_with = [&](int rank, State state) {
    const std::lock_guard lock(mutex_);
    if (ranks_[index(rank)].state == State::runs) end(rank, state);
  };
  std::vector<std::thread> threads;
  const auto join = [&] {
    for (std::thread& thread : threads) thread.join();
  };
  try {
    for (int rank = 0; rank < size_; ++rank)
      threads.emplace_back([&, rank] {
        try {
          SimulatedTransport transport(*this, rank);
          body(transport);
          end_with(rank, State::has_ended);
        } catch (...) {
          thrown[index(rank)] = std::current_exception();
          end_with(rank, State::has_failed);
        }
      });
  } catch (...) {  // no more threads
    for (int rank = static_cast<int>(threads.size()); rank < size_; ++rank) end_with(rank, State::has_failed);
    join();
    throw;
  }
  join();
  return thrown;
}

}  // namespace tenet
