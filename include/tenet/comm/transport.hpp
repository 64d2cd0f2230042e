#pragma once

#include <atomic>
#include <concepts>
#include <cstdio>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/core/link_cost.hpp>

/// How ranks, which may be threads or processes, exchange numbers. Collectives are written once over this.
namespace tenet {

/// What a message is about: messages about the waiting for it name it, and both sides must mean the same.
struct MessageLabel {
  const char* what = "message";  ///< not compared
  long number = 0;               ///< of the bucket, say; negative: of something that there is once a step
  long step = 0;

  friend bool operator==(const MessageLabel& a, const MessageLabel& b) {
    return a.number == b.number && a.step == b.step;
  }
};

inline std::string text(const MessageLabel& label) {
  std::string result = label.what;
  if (label.number >= 0) result.append(" ").append(std::to_string(label.number));
  if (label.step >= 0) result.append(" of step ").append(std::to_string(label.step));
  return result;
}

/// One rank's end of the connections among all.
///
///     int rank(), size();  LinkCost link();  nanoseconds limit()
///     void send(int to, const float* data, long floats, MessageLabel)
///         Begins to send. The data stay as they are until `finish`, or until an answer to them has come.
///     void receive(int from, long floats, MessageLabel, use)
///         Waits for a message; calls use(part, first, count) for consecutive parts of it that cover [0, floats).
///     void receive_into(int from, float* to, long floats, MessageLabel)
///         The same where the message is only to be kept.
///     void expect(int from, long floats, MessageLabel, float* to)      (if it has such)
///         What is received next, by `receive` (`to`: null) or `receive_into`: before `send`, where messages cross.
///     bool arrived(int from)
///         Whether a message from that rank has begun to come: whoever serves several ranks asks it of each.
///     Doorbell* doorbell()      (if it has such)
///         Rung, when it is open, for each message that comes, so that whoever serves need not look. Always the same
///         one, or null: nobody rings, or something is still to be sent, with which `arrived` goes on.
///     void finish()
///         Waits until all that was sent has been received.
///
/// A rank may send to itself, too. At least 16 messages to a rank may be under way before `send` waits for it, or any
/// number. Messages between two ranks arrive in the order in which they were sent. No wait is endless: past the
/// transport's limit an `Error` names this rank, the other one and the label. Calls of one rank come from one thread at
/// a time.
template <class T>
concept Transport = requires(T& transport, const float* data, float* to, void (*use)(const float*, long, long)) {
  { transport.rank() } -> std::same_as<int>;
  { transport.size() } -> std::same_as<int>;
  { transport.link() } -> std::same_as<LinkCost>;
  requires decltype(transport.limit())::period::den == 1'000'000'000;  // nanoseconds; <chrono> costs 0.1 s
  transport.send(0, data, 0L, MessageLabel{});
  transport.receive(0, 0L, MessageLabel{}, use);
  transport.receive_into(0, to, 0L, MessageLabel{});
  { transport.arrived(0) } -> std::same_as<bool>;
  transport.finish();
};

class Doorbell;
template <class T>
concept HasDoorbell = requires(T& transport) {
  { transport.doorbell() } -> std::same_as<Doorbell*>;
};

/// Whether a transport gains by knowing what will come before it comes.
template <class T>
concept ExpectsMessages = requires(T& transport, float* to) { transport.expect(0, 0L, MessageLabel{}, to); };

/// What a rank gives to all: its numbers, and what they count in a sum.
struct SharedNumbers {
  float* data = nullptr;
  float weight = 1;
};

/// A `Transport` whose ranks can have memory in common, as it may turn out when the program runs.
///
///     float* memory(long floats)
///         Zeros in such memory, which live as long as the transport; null where there is none.
///     bool share(float* data, long floats, MessageLabel, float weight, use)
///         All ranks call it. When all have come, calls use(shared) on each, where shared[r] are the numbers of rank r,
///         for all to read and write; returns when nobody uses this rank's any longer. False, and nothing is called, on
///         all ranks where one of them has given numbers outside of the memory that they have in common.
template <class T>
concept MayShareMemory = Transport<T> && requires(T& transport, float* data, void (*use)(const SharedNumbers*)) {
  { transport.memory(0L) } -> std::same_as<float*>;
  { transport.share(data, 0L, MessageLabel{}, 1.0f, use) } -> std::same_as<bool>;
};

/// One whose ranks have, wherever `link().shares` says so, memory that each of them can read and write.
///
///     long place_of(const float* data);  float* at(long place)
///         Where data lie in that memory, in a way that all ranks understand, and an address of that.
template <class T>
concept SharesMemory = MayShareMemory<T> && requires(T& transport, const float* data, long place) {
  { transport.place_of(data) } -> std::same_as<long>;
  { transport.at(place) } -> std::same_as<float*>;
};

/// What those get who wait in vain because another rank has failed: its error is the one to report.
struct PeerFailed : Error {
  using Error::Error;
};

namespace detail {
/// Whom of several: "replica 1".
inline std::string with_number(const char* what, int number) {
  std::string result = what;
  return result.append(" ").append(std::to_string(number));
}
/// Of those that wait for each other, which are `kind`s: `who` waits in vain as another one has failed.
[[noreturn, gnu::cold]] inline void fail_abandoned(std::string who, const char* kind, const MessageLabel& label) {
  throw PeerFailed(who.append(", ").append(text(label)).append(": another ").append(kind).append(" has failed"));
}
[[noreturn, gnu::cold]] inline void fail_abandoned(int rank, const MessageLabel& label) {
  fail_abandoned(with_number("rank", rank), "rank", label);
}
/// Whether a wait of this process has ended without what it waited for.
inline std::atomic<bool> has_waited_in_vain{false};
/// `who` has waited for so long; `doing` says for whom, `found` why it is in vain.
[[noreturn, gnu::cold]] inline void fail_waiting(std::string who, const std::string& doing, const MessageLabel& label,
                                                 double seconds, const std::string& found = "nothing") {
  has_waited_in_vain = true;
  char limit[32];
  std::snprintf(limit, sizeof limit, "%.3g s", seconds);
  fail(who.append(", ").append(text(label)), doing, "within " + std::string(limit), found);
}
/// `last` is the rank for which, in the end, all wait, where that is known.
[[noreturn, gnu::cold]] inline void fail_waiting(int rank, const char* doing, int peer, const MessageLabel& label,
                                                 double seconds, int last = -1, const std::string& found = "nothing") {
  std::string what(doing);
  what.append(" ").append(with_number("rank", peer));
  if (last >= 0 && last != peer) what.append(", and that in the end for ").append(with_number("rank", last));
  fail_waiting(with_number("rank", rank), what, label, seconds, found);
}
/// Of a message that says what it is about; and of its length only, if that is as expected, that the length is not.
inline constexpr long unknown_length = -1;
[[noreturn, gnu::cold]] inline void fail_message(int rank, int peer, const MessageLabel& expected, long expected_floats,
                                                 const MessageLabel& found, long found_floats) {
  const auto described = [&](const MessageLabel& label, long floats) {
    if (floats == unknown_length) return text(label).append(label == expected ? " with another number of them" : "");
    return text(label).append(" with ").append(std::to_string(floats)).append(" numbers");
  };
  std::string where = "rank ";
  where.append(std::to_string(rank));
  std::string what = "rank ";
  what.append(std::to_string(peer)).append(" sent another message");
  fail(where, what, described(expected, expected_floats), described(found, found_floats));
}
}  // namespace detail

/// A rank's transport as a base class: it is there before other ones that use it, and when they end.
template <Transport T>
class OwnTransport {
 public:
  T& transport() { return transport_; }

 protected:
  explicit OwnTransport(T transport) : transport_(std::move(transport)) {}

 private:
  T transport_;
};

}  // namespace tenet
