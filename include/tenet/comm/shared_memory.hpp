#pragma once

#include <cstdlib>
#include <memory>
#include <tenet/comm/shared_arena.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/core/doorbell.hpp>
#include <tenet/core/function.hpp>
#include <tenet/core/time_limit.hpp>
#include <tenet/core/wait_until.hpp>
#include <vector>

/// Ranks that are processes of one machine and exchange numbers through memory that they share.
namespace tenet {

/// A `Transport` through a `SharedArena`. For each ordered pair of ranks a ring of slots lies in it, written by one of
/// them and read by the other. What is sent is copied into slots, segment by segment, and used there by the receiver;
/// numbers that lie in the arena themselves (`memory`) are not copied: the receiver reads them where they are.
///
/// What finds no room waits in the sender, which goes on with it whenever it waits for something itself.
class SharedMemoryTransport {
 public:
  using Limit = SharedArena::Limit;

  /// `name` is one that no other transport of the machine has, like "/tenet-run7-1". All ranks construct one together.
  SharedMemoryTransport(const std::string& name, int rank, int size, Limit limit = std::chrono::minutes(5))
      : SharedMemoryTransport(name, rank, size, limit, limit) {}
  /// The same with another limit of the wait for all to construct theirs; and, where these are some ranks of many, the
  /// number that each of them has there, by which errors call it.
  SharedMemoryTransport(const std::string& name, int rank, int size, Limit limit, Limit joining,
                        std::vector<int> numbers = {})
      : arena_(std::make_unique<SharedArena>(name, rank, size, bytes_for(size), joining)),
        limit_(limit),
        spins_(spins_between(size, arena_->processors())),
        ways_(static_cast<std::size_t>(size)),
        shared_(static_cast<std::size_t>(size)),
        numbers_(std::move(numbers)) {
    for (int other = 0; other < size; ++other) {
      way(other).out = &ring(rank, other);
      way(other).in = &ring(other, rank);
      way(other).bells = &bells(other);
    }
  }
  /// Whether there is room for so many ranks, as far as one process can tell.
  static bool has_room(const std::string& name, int size) { return SharedArena::has_room(name, size, bytes_for(size)); }

  int rank() const { return arena_->rank(); }
  int size() const { return arena_->size(); }
  LinkCost link() const { return {1.1e-7, 2e-10, 4e-10, true}; }
  Limit limit() const { return limit_; }

  /// Numbers that are sent from here without a copy: zeros at first; they live as long as the transport.
  float* memory(long floats) { return arena_->more(floats); }
  /// Where that lies, for all ranks; see `common_memory`.
  long place_of(const float* data) const { return arena_->offset_of(data); }
  float* at(long place) { return reinterpret_cast<float*>(arena_->at(place)); }

  void send(int to, const float* data, long floats, MessageLabel label) {
    send(to, {data, floats, label, floats > most_copied && arena_->holds(data)});
  }

  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    long first = 0;
    do {
      const Slot& slot = await(from, floats, label);
      const bool is_lent = slot.place != 0;
      const float* const part = is_lent ? at(slot.place) : slot.data;
      const long count = is_lent || floats - first < segment ? floats - first : segment;
      use(part, first, count);
      take(from);
      first += count;
    } while (first < floats);
  }

  /// True where the numbers of all ranks lie in the arena.
  template <class Use>
  bool share(float* data, long floats, MessageLabel label, float weight, Use&& use) {
    const bool is_common = arena_->holds(data);
    for (int to = 0; to < size(); ++to) send(to, {is_common ? data : nullptr, floats, label, true, weight});
    bool are_common = true;
    for (int from = 0; from < size(); ++from) {
      const Slot& slot = await(from, floats, label);
      are_common = are_common && slot.place != 0;
      shared_[static_cast<std::size_t>(from)] = {at(slot.place), slot.weight};
    }
    if (are_common) use(static_cast<const SharedNumbers*>(shared_.data()));
    for (int from = 0; from < size(); ++from) take(from);
    finish("shares its numbers with");
    return are_common;
  }

  void receive_into(int from, float* to, long floats, MessageLabel label) {
    receive(from, floats, label, [to](const float* part, long first, long count) {
      if (count > 0) std::memcpy(to + first, part, sizeof(float) * static_cast<std::size_t>(count));
    });
  }

  Doorbell* doorbell() { return ways_waiting_ == 0 ? &bells(rank()).come : nullptr; }
  bool arrived(int from) {
    const MessageLabel label{"waiting for messages", -1, 0};
    go_on();
    if (has_come(way(from))) return true;
    if (is_hopeless(from) && !has_come(way(from)) && !arena_->has_left(from))
      give_up(from, "waits for a message from", label);
    return false;
  }

  /// What has been copied may be changed, so that only the rest is waited for.
  void finish() { finish("has sent a message, which waits for"); }

  /// Goes on with what has found no room; see `MachineTransport`.
  void progress() { go_on(); }
  /// Calls call() again and again while it waits.
  void call_while_waiting(Function<void()> call) { call_while_waiting_ = std::move(call); }

 private:
  /// `doing`: what it waits for whom, for a message.
  void finish(const char* doing) {
    for (int to = 0; to < size(); ++to) {
      Way& there = way(to);
      if (there.waiting.empty() && !there.lends) continue;
      wait(bells(rank()).received, to, doing, there.last, [&] {
        return there.waiting.empty() &&
               (!there.lends || there.out->taken.load(std::memory_order_acquire) == there.sent);
      });
      there.lends = false;
    }
  }

  static constexpr unsigned slots = 8;
  static constexpr long segment = 4096;  // floats
  // Floats of the arena that are copied all the same, as they fit into the slots: quicker than to wait, in `finish`,
  // until they have been read. Measured: all_reduce of 64 KB takes 2.2 us so, and 3.1 where nothing is copied.
  static constexpr long most_copied = slots * segment - 1;
  static constexpr long most_prepared = 1024;

  struct alignas(64) Control {
    std::atomic<int> failed;  // 0: nobody has; 1 + a rank: it is gone; or `unknown`
  };
  static constexpr int unknown = -1;
  /// For whom a rank waits: 1 + its number; 0: nobody.
  struct alignas(64) Waits {
    std::atomic<int> peer;
  };
  /// What says that a message has come and what it is about lie in one line of the cache.
  struct alignas(64) Slot {
    std::atomic<unsigned> filled;  // filled in this ring, up to and with this one; else it is still to come
    float weight;                  // of `share`
    long total, number, step;      // floats of the whole message, and its label
    long place;                    // in the arena; 0: in this slot
    char what[24];                 // as much of it as there is room for; the last is zero
    alignas(64) float data[segment];
  };
  /// Written by one rank, but for `taken`, which the reader writes. Zeros at the beginning. Counters begin anew after
  /// 2^32.
  struct alignas(64) Ring {
    std::atomic<unsigned> taken;
    Slot slots[SharedMemoryTransport::slots];
  };
  static_assert(std::atomic<unsigned>::is_always_lock_free, "processes share atomics only where they need no lock");

  /// What has been sent and has not found room yet.
  struct Waiting {
    const float* data;
    long floats;
    MessageLabel label;
    bool is_lent;      // one slot says where it lies, if in the arena; else slots have copies
    float weight = 0;  // of `share`
    long done = 0;
  };
  /// The connection with one other rank.
  struct Way {
    Ring *out = nullptr, *in = nullptr;
    MessageDoorbells* bells = nullptr;  // the other one's
    unsigned sent = 0, taken = 0;       // slots of `out` that this rank has filled, of `in` that it has used
    unsigned room_until = slots;        // slots that may be filled, as far as known
    bool lends = false;                 // the other one may still read this rank's memory
    MessageLabel last{};
    std::vector<Waiting> waiting;
    std::size_t next = 0;  // of `waiting`
    unsigned looks = 0;
  };

  static constexpr long bytes_for(int size) {
    return static_cast<long>(sizeof(Control) +
                             static_cast<std::size_t>(size) * (sizeof(Waits) + sizeof(MessageDoorbells)) +
                             static_cast<std::size_t>(size * size) * sizeof(Ring));
  }
  Control& control() { return *reinterpret_cast<Control*>(arena_->data()); }
  std::atomic<int>& waits_of(int rank) { return reinterpret_cast<Waits*>(arena_->data() + sizeof(Control))[rank].peer; }
  MessageDoorbells* bells() {
    return reinterpret_cast<MessageDoorbells*>(arena_->data() + sizeof(Control) +
                                               static_cast<std::size_t>(size()) * sizeof(Waits));
  }
  MessageDoorbells& bells(int rank) { return bells()[rank]; }
  Ring& ring(int from, int to) { return reinterpret_cast<Ring*>(bells() + size())[from * size() + to]; }
  Way& way(int other) { return ways_[static_cast<std::size_t>(other)]; }

  static bool has_come(const Way& there) {
    return there.in->slots[there.taken % slots].filled.load(std::memory_order_acquire) == there.taken + 1;
  }

  void send(int to, const Waiting& message) {
    Way& there = way(to);
    there.last = message.label;
    there.waiting.push_back(message);
    if (there.waiting.size() == 1) ++ways_waiting_;
    push(there);
  }

  /// The next slot from that rank, when it has been filled.
  const Slot& await(int from, long floats, const MessageLabel& label) {
    Way& there = way(from);
    wait(bells(rank()).come, from, "waits for a message from", label, [&] { return has_come(there); });
    const Slot& slot = there.in->slots[there.taken % slots];
    if (slot.total != floats || slot.number != label.number || slot.step != label.step) {
      say_failed(unknown);
      detail::fail_message(number_of(rank()), number_of(from), label, floats, {slot.what, slot.number, slot.step},
                           slot.total);
    }
    return slot;
  }
  /// It has been used.
  void take(int from) {
    Way& there = way(from);
    there.in->taken.store(++there.taken, std::memory_order_release);
    there.bells->received.ring();
  }

  /// Fills slots with what waits, as far as there is room.
  void push(Way& there) {
    for (; there.next < there.waiting.size(); ++there.next) {
      Waiting& message = there.waiting[there.next];
      do {
        if (there.sent == there.room_until) {
          there.room_until = there.out->taken.load(std::memory_order_acquire) + slots;
          if (there.sent == there.room_until) return there.bells->come.ring();
        }
        Slot& slot = there.out->slots[there.sent % slots];
        slot.total = message.floats;
        slot.number = message.label.number;
        slot.step = message.label.step;
        slot.weight = message.weight;
        slot.place = message.is_lent && message.data != nullptr ? arena_->offset_of(message.data) : 0;
        std::strncpy(slot.what, message.label.what, sizeof slot.what - 1);
        const long rest = message.floats - message.done, count = message.is_lent || rest < segment ? rest : segment;
        if (!message.is_lent && count > 0)
          std::memcpy(slot.data, message.data + message.done, sizeof(float) * static_cast<std::size_t>(count));
        slot.filled.store(++there.sent, std::memory_order_release);
        if (count <= most_prepared) prepare(there.out->slots[there.sent % slots], count);
        message.done += count;
      } while (message.done < message.floats);
      there.lends = there.lends || message.is_lent;
    }
    there.waiting.clear();
    there.next = 0;
    --ways_waiting_;
    there.bells->come.ring();
  }
  /// Asks for the lines of the cache that a message like the last one will be written to: the other rank has read them.
  static void prepare(const Slot& slot, long count) {
    __builtin_prefetch(&slot, 1);
    for (long i = 0; i < count; i += 16) __builtin_prefetch(slot.data + i, 1);
  }
  void go_on() {
    if (ways_waiting_ == 0) return;
    for (Way& there : ways_)
      if (!there.waiting.empty()) push(there);
  }

  /// Whether a rank has failed, or, as is asked now and then, this one is gone.
  bool is_hopeless(int peer) {
    if (control().failed.load(std::memory_order_relaxed) != 0) return true;
    return ++way(peer).looks % 256 == 0 && arena_->is_gone(peer);
  }

  /// Ends all waiting, now and from now on; what was said first.
  int say_failed(int reason) {
    int known = 0;
    control().failed.compare_exchange_strong(known, reason, std::memory_order_relaxed);
    return known;
  }

  [[noreturn, gnu::cold]] void give_up(int peer, const char* doing, const MessageLabel& label) {
    const int last = last_waited_for(peer), known = say_failed(arena_->is_gone(peer) ? 1 + peer : unknown),
              reason = known != 0 ? known : control().failed.load(std::memory_order_relaxed);
    const double seconds = std::chrono::duration<double>(limit_).count();
    const int own = number_of(rank()), other = number_of(peer);
    if (reason == unknown && known != 0) detail::fail_abandoned(own, label);
    if (reason == unknown) detail::fail_waiting(own, doing, other, label, seconds, number_of(last));
    const std::string gone = std::to_string(number_of(reason - 1));
    detail::fail_waiting(own, doing, other, label, seconds, -1,
                         arena_->has_left(reason - 1) ? "that rank " + gone + " has left"
                                                      : "that the process of rank " + gone + " has ended");
  }

  int number_of(int rank) const { return numbers_.empty() ? rank : numbers_[static_cast<std::size_t>(rank)]; }

  /// The rank for which `other` waits in the end: one that itself waits for nobody.
  int last_waited_for(int other) {
    for (int i = 0; i < size(); ++i) {
      const int next = waits_of(other).load(std::memory_order_relaxed);
      if (next == 0) break;
      other = next - 1;
    }
    return other;
  }

  template <class Ready>
  void wait(Doorbell& bell, int peer, const char* doing, const MessageLabel& label, Ready ready) {
    if (ready()) return;
    waits_of(rank()).store(1 + peer, std::memory_order_relaxed);
    const auto is_over = [&] {
      go_on();
      if (call_while_waiting_) call_while_waiting_();
      return ready() || is_hopeless(peer);
    };
    if (call_while_waiting_ || (ways_waiting_ > 0 && &bell == &bells(rank()).come))  // for more than this bell tells
      wait_until(is_over, limit_, spins_beside(spins_));
    else
      wait_until(bell, is_over, limit_, spins_beside(spins_));
    if (!ready()) give_up(peer, doing, label);
    waits_of(rank()).store(0, std::memory_order_relaxed);
  }

  std::unique_ptr<SharedArena> arena_;
  Limit limit_;
  int spins_;
  std::vector<Way> ways_;
  int ways_waiting_ = 0;
  std::vector<SharedNumbers> shared_;  // of all ranks
  std::vector<int> numbers_;           // of all ranks, for errors; none: their own
  Function<void()> call_while_waiting_;
};

static_assert(SharesMemory<SharedMemoryTransport>);

/// The world of `Distributed<SharedMemory>`: the processes that tools/processes.sh has started, or whatever else says
/// in the environment who they are: TENET_RANK, TENET_SIZE, and TENET_JOB, a name that no other job on the machine has.
/// `time_limit` says when a wait ends.
struct SharedMemory {
  static int rank() { return variable("TENET_RANK"); }
  static int size() { return variable("TENET_SIZE"); }

  /// The n-th call on one rank meets the n-th calls on the others.
  static SharedMemoryTransport connect() {
    static std::atomic<int> connections{0};
    const std::string name = std::string("/tenet-") + text_of("TENET_JOB") + "-" + std::to_string(connections++);
    return SharedMemoryTransport(name, rank(), size(), time_limit());
  }

 private:
  static const char* text_of(const char* name) {
    const char* const found = std::getenv(name);
    if (found == nullptr || *found == '\0') fail(name, "not set", "what tools/processes.sh sets", "nothing");
    return found;
  }
  static int variable(const char* name) {
    const char* const found = text_of(name);
    char* end = nullptr;
    const long value = std::strtol(found, &end, 10);
    if (*end != '\0' || value < 0 || value > 1 << 20) fail(name, "not a number of processes", "0, 1, 2, …", found);
    return static_cast<int>(value);
  }
};

}  // namespace tenet
