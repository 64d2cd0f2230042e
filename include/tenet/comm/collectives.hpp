#pragma once

#include <cstring>
#include <tenet/comm/sums.hpp>
#include <tenet/comm/transport.hpp>
#include <vector>

/// What all ranks do together, over any `Transport`. Every rank calls the same functions with the same counts and
/// labels in the same order. With n ranks, m floats, a link that takes α + β · floats, and γ for each sum:
///
///     function                  time                                who has what at the end
///     reduce_scatter            (n - 1) α + (n - 1)/n m (β + γ)     rank r the sum of part r
///     all_gather                (n - 1) α + (n - 1)/n m β           all of them all parts
///     all_reduce by a ring      the sum of both                     all of them the sum
///     all_reduce by two rings   2 (n - 1) α + (n - 1)/n m (β + γ)   all of them the sum; n > 2, by wires
///     all_reduce by halving     2 log2(n) α + (n - 1)/n m (2β + γ)  all of them the sum; n a power of two
///     all_reduce by doubling    log2(n) (α + m (β + γ))             all of them the sum; one round more for other n
///     all_reduce by sharing     2 α + (n - 1)/n m (2β + γ)          all of them the sum; in common memory
///     broadcast                 log2(n) (α + m β)                   all of them what the root had
///     barrier                   log2(n) α
///
/// Ring, halving and sharing send least, and their time for large m does not grow with n; doubling waits least. A ring
/// uses what links one rank to the next in one direction. Two of them, with half of the numbers each, use both, if that
/// is a wire of their own rather than a port that sends for all. A transport that receives by segments adds up one
/// while the next ones come, so that β + γ becomes the larger of both. All ranks get the same bits. Rings add up each
/// part in another order; the others add ranks 0 and 1, 2 and 3, …, and then these sums in pairs: a tree, the same for
/// all numbers, and for a power of two ranks the same in all ways. (Patarasuk and Yuan, J. Parallel Distrib. Comput.
/// 69, 2009; Thakur et al., Int. J. High Perform. Comput. 19, 2005.)
namespace tenet {

/// Some of a list of numbers.
struct FloatRange {
  long first = 0, count = 0;
};
/// Whether so many parts have a line of a cache each, 16 numbers.
constexpr bool has_lines_for(int parts, long floats) { return floats >= 16L * parts; }
/// Part `part` of `floats` numbers in `parts` parts, whose bounds are multiples of 16 where there are enough.
constexpr FloatRange part_of(long floats, int part, int parts) {
  const long unit = has_lines_for(parts, floats) ? 16 : 1, units = (floats + unit - 1) / unit;
  const long first = units * part / parts * unit, last = units * (part + 1) / parts * unit;
  return {first, (last < floats ? last : floats) - first};
}

namespace detail {

/// Tells a transport that gains by it what is received next, into `to` or not: before numbers are sent that cross it.
template <Transport T>
void expect(T& transport, int from, long floats, const MessageLabel& label, float* to = nullptr) {
  if constexpr (ExpectsMessages<T>) transport.expect(from, floats, label, to);
}

}  // namespace detail

namespace detail {

/// What one rank does for some numbers that go around a ring: towards higher ranks, or, where it goes down, lower ones.
/// In the k-th round of a `reduce_scatter` or an `all_gather` it sends part rank - k of them to the next rank, and
/// receives the part before that from the previous one, by whose numbers in the ring parts are counted.
template <Transport T>
class RingOfParts {
 public:
  RingOfParts(T& transport, float* data, long floats, const MessageLabel& label, bool goes_down = false)
      : transport_(transport), data_(data), floats_(floats), label_(label) {
    const int n = size_ = transport.size(), rank = transport.rank(), higher = (rank + 1) % n,
              lower = (rank + n - 1) % n;
    rank_ = goes_down ? n - 1 - rank : rank;
    next_ = goes_down ? lower : higher;
    previous_ = goes_down ? higher : lower;
  }

  void expect_sum(int round) { expect(transport_, previous_, part(round + 1).count, label_); }
  void expect_copy(int round) {
    const FloatRange taken = part(round + 1);
    expect(transport_, previous_, taken.count, label_, data_ + taken.first);
  }
  void send(int round) {
    const FloatRange sent = part(round);
    transport_.send(next_, data_ + sent.first, sent.count, label_);
  }
  /// The part that has come and weight · the rank's own numbers.
  void add(int round, float weight) {
    const FloatRange taken = part(round + 1);
    transport_.receive(previous_, taken.count, label_, [&](const float* numbers, long first, long count) {
      scale_and_add(data_ + taken.first + first, weight, numbers, count);
    });
  }
  void keep(int round) {
    const FloatRange taken = part(round + 1);
    transport_.receive_into(previous_, data_ + taken.first, taken.count, label_);
  }
  void weigh(int round, float weight) {
    const FloatRange own = part(round);
    scale_floats(data_ + own.first, weight, own.count);
  }

 private:
  FloatRange part(int before) const { return part_of(floats_, (rank_ + 2 * size_ - before) % size_, size_); }

  T& transport_;
  float* data_;
  long floats_;
  MessageLabel label_;
  int size_, rank_, next_, previous_;
};

}  // namespace detail

/// Each rank ends with its part of sum over r of weight_r · data_r; the other parts of its data hold partial sums. Rank
/// r's part is `part_of(floats, r, n)`. What others still read stays as it is until `finish`.
template <Transport T>
void reduce_scatter(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  detail::RingOfParts ring(transport, data, floats, label);
  // Part p starts at rank p + 1 and goes around the ring once, until its owner adds the last term.
  ring.weigh(1, weight);
  for (int round = 1; round < transport.size(); ++round) {
    ring.expect_sum(round);
    ring.send(round);
    ring.add(round, weight);
  }
}

/// Each rank has its part at the beginning, and all of them at the end.
template <Transport T>
void all_gather(T& transport, float* data, long floats, MessageLabel label) {
  detail::RingOfParts ring(transport, data, floats, label);
  for (int round = 0; round + 1 < transport.size(); ++round) {
    ring.expect_copy(round);
    ring.send(round);
    ring.keep(round);
  }
}

/// By a ring: see above.
template <Transport T>
void all_reduce_by_ring(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  reduce_scatter(transport, data, floats, label, weight);
  all_gather(transport, data, floats, label);
  transport.finish();
}

/// By two rings, in opposite directions: see above.
template <Transport T>
void all_reduce_by_two_rings(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  const FloatRange first = part_of(floats, 0, 2), second = part_of(floats, 1, 2);
  detail::RingOfParts up(transport, data, first.count, label),
      down(transport, data + second.first, second.count, label, true);
  const int n = transport.size();
  up.weigh(1, weight);
  down.weigh(1, weight);
  for (int round = 1; round < n; ++round) {
    up.expect_sum(round);
    up.send(round);
    down.send(round);
    up.add(round, weight);
    down.add(round, weight);
  }
  for (int round = 0; round + 1 < n; ++round) {
    up.expect_copy(round);
    up.send(round);
    down.send(round);
    up.keep(round);
    down.keep(round);
  }
  transport.finish();
}

/// By recursive halving and doubling, for a power of two ranks: in round k ranks that differ in bit k share what they
/// have, so that each adds up one half of it; then they bring the parts together in the same way, backwards.
template <Transport T>
void all_reduce_by_halving(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  const int n = transport.size(), rank = transport.rank();
  if (n == 1) detail::scale_floats(data, weight, floats);
  struct Round {
    FloatRange kept, given;
  };
  Round rounds[32];
  int count = 0;
  FloatRange own{0, floats};
  for (int bit = 1; bit < n; bit *= 2, ++count) {
    const long middle = own.count >= 32 ? own.count / 32 * 16 : own.count / 2;
    const FloatRange lower{own.first, middle}, upper{own.first + middle, own.count - middle};
    const bool keeps_lower = (rank & bit) == 0;
    rounds[count] = keeps_lower ? Round{lower, upper} : Round{upper, lower};
    const FloatRange given = rounds[count].given;
    own = rounds[count].kept;
    const float own_weight = bit == 1 ? weight : 1;  // those of later rounds are sums of weighted numbers
    detail::expect(transport, rank ^ bit, own.count, label);
    detail::scale_floats(data + given.first, own_weight, given.count);
    transport.send(rank ^ bit, data + given.first, given.count, label);
    transport.receive(rank ^ bit, own.count, label, [&](const float* part, long first, long size) {
      detail::add_to_scaled(data + own.first + first, own_weight, part, size);
    });
  }
  while (count-- > 0) {
    const auto [kept, given] = rounds[count];
    detail::expect(transport, rank ^ (1 << count), given.count, label, data + given.first);
    transport.send(rank ^ (1 << count), data + kept.first, kept.count, label);
    transport.receive_into(rank ^ (1 << count), data + given.first, given.count, label);
  }
  transport.finish();
}

/// By recursive doubling: in round k ranks that differ in bit k exchange all they have. Those beyond the largest power
/// of two give their numbers to another rank first, and get the sum from it at the end.
template <Transport T>
void all_reduce_by_doubling(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  const int n = transport.size(), rank = transport.rank();
  int power = 1;
  while (2 * power <= n) power *= 2;
  const auto size = static_cast<std::size_t>(floats);
  detail::scale_floats(data, weight, floats);
  if (rank >= power) {
    transport.send(rank - power, data, floats, label);
    return transport.receive_into(rank - power, data, floats, label);
  }
  const auto add = [&](const float* part, long first, long count) {
    detail::scale_and_add(data + first, 1, part, count);
  };
  if (rank + power < n) transport.receive(rank + power, floats, label, add);
  if (power > 1) {
    // The other one reads what this one sends while this one adds: the sums alternate between two places.
    thread_local std::vector<float> kept;
    if (kept.size() < size) kept.resize(size);
    float *now = data, *then = kept.data();
    for (int bit = 1; bit < power; bit *= 2) {
      const int peer = rank ^ bit;
      detail::expect(transport, peer, floats, label);
      transport.send(peer, now, floats, label);
      transport.receive(peer, floats, label, [&](const float* part, long first, long count) {
        detail::add_floats(then + first, now + first, part, count);
      });
      transport.finish();  // before `now` is written
      std::swap(now, then);
    }
    if (now != data) std::memcpy(data, now, sizeof(float) * size);
  }
  if (rank + power < n) {
    transport.send(rank + power, data, floats, label);
    transport.finish();
  }
}

/// In memory that the ranks have in common: when all have come each rank adds up its part of the numbers, and leaves
/// the sum where each of them has its own. Numbers lie elsewhere on some rank: it returns false, and has changed
/// nothing.
///
/// Who reads another core's numbers has to fetch them, but not who finds them where he left them: so each rank keeps to
/// its part, and what crosses is what others have written since.
template <MayShareMemory T>
bool all_reduce_by_sharing(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  return transport.share(data, floats, label, weight, [&](const SharedNumbers* shared) {
    const int n = transport.size();
    const long block = (4096 / n + 15) / 16 * 16;  // the first cache has room for those of all ranks
    const FloatRange own = part_of(floats, transport.rank(), n);
    for (long first = own.first, last = own.first + own.count; first < last; first += block) {
      const long count = last - first < block ? last - first : block;
      const auto numbers = [=](int rank) { return shared[rank].data + first; };
      for (int rank = 0; rank < n; ++rank) detail::scale_floats(numbers(rank), shared[rank].weight, count);
      int distance = 1;
      for (; 2 * distance < n; distance *= 2)
        for (int rank = 0; rank + distance < n; rank += 2 * distance)
          detail::add_floats(numbers(rank), numbers(rank), numbers(rank + distance), count);
      if (distance < n) detail::add_to_both(numbers(0), numbers(distance), count);
      for (int rank = 1; rank < n; ++rank)
        if (rank != distance) std::memcpy(numbers(rank), numbers(0), sizeof(float) * static_cast<std::size_t>(count));
    }
  });
}

enum class AllReduceWay { ring, two_rings, halving, doubling };

/// What the ways of `all_reduce` are expected to take between n ranks.
struct AllReduceTimes {
  double by_ring = 0;      ///< seconds; by two rings where these gain something
  double by_parts = 0;     ///< seconds; by halving for a power of two ranks, else by a ring
  double by_doubling = 0;  ///< seconds
  bool halves = false;     ///< a power of two ranks
  bool two_rings = false;  ///< there is something to be gained by them
  double by_sharing = 0;   ///< seconds
  bool shares = false;     ///< that is possible, and the quickest of all

  constexpr AllReduceTimes(int n, long floats, const LinkCost& link) {
    int rounds = 0;
    while (1 << rounds < n) ++rounds;
    halves = 1 << rounds == n;
    const double m = static_cast<double>(floats), share = (n - 1.0) / n;
    const double moved = share * m * (2 * link.seconds_per_float + link.seconds_per_sum);
    two_rings = link.is_wire && n > 2;
    by_ring = moved + 2 * (n - 1) * link.seconds;
    if (two_rings) by_ring -= share * m * link.seconds_per_float;
    by_parts = halves ? moved + 2 * rounds * link.seconds : by_ring;
    by_sharing = moved + 2 * link.seconds;
    by_doubling = (halves ? rounds : rounds + 1) * (link.seconds + m * (link.seconds_per_float + link.seconds_per_sum));
    shares = link.shares && by_sharing < by_doubling;
  }
  constexpr double least() const { return shares ? by_sharing : by_doubling < by_parts ? by_doubling : by_parts; }
  /// By messages.
  constexpr AllReduceWay quickest() const {
    if (by_doubling <= by_parts) return AllReduceWay::doubling;
    return halves ? AllReduceWay::halving : two_rings ? AllReduceWay::two_rings : AllReduceWay::ring;
  }
};

/// data = sum over r of weight_r · data_r on all ranks, in the way that takes least time by the link's cost. For a
/// power of two ranks the order of sums is the tree, whatever the way.
template <Transport T>
void all_reduce(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  const AllReduceTimes times(transport.size(), floats, transport.link());
  if constexpr (MayShareMemory<T>)
    if (times.shares && all_reduce_by_sharing(transport, data, floats, label, weight)) return;
  switch (times.quickest()) {
    case AllReduceWay::doubling:
      return all_reduce_by_doubling(transport, data, floats, label, weight);
    case AllReduceWay::halving:
      return all_reduce_by_halving(transport, data, floats, label, weight);
    case AllReduceWay::two_rings:
      return all_reduce_by_two_rings(transport, data, floats, label, weight);
    case AllReduceWay::ring:
      return all_reduce_by_ring(transport, data, floats, label, weight);
  }
}

/// All ranks end with what `root` has: a binomial tree.
template <Transport T>
void broadcast(T& transport, int root, float* data, long floats, MessageLabel label) {
  const int n = transport.size(), place = (transport.rank() + n - root) % n;
  int bit = 1;
  while (bit < n && (place & bit) == 0) bit *= 2;  // the lowest bit says from whom it comes
  if (place != 0) transport.receive_into((place - bit + root) % n, data, floats, label);
  for (bit /= 2; bit > 0; bit /= 2)
    if (place + bit < n) transport.send((place + bit + root) % n, data, floats, label);
  transport.finish();
}

/// The same for a value of any size, whose bytes are sent.
template <Transport T, class Value>
  requires std::is_trivially_copyable_v<Value>
void broadcast_value(T& transport, int root, Value& value, MessageLabel label) {
  float message[(sizeof value + sizeof(float) - 1) / sizeof(float)];
  std::memcpy(message, &value, sizeof value);
  broadcast(transport, root, message, static_cast<long>(sizeof message / sizeof(float)), label);
  std::memcpy(&value, message, sizeof value);
}

/// Nobody leaves before all have come: in round k each rank tells the one 2^k further.
template <Transport T>
void barrier(T& transport, MessageLabel label) {
  const int n = transport.size(), rank = transport.rank();
  for (int distance = 1; distance < n; distance *= 2) {
    transport.send((rank + distance) % n, nullptr, 0, label);
    transport.receive((rank + n - distance) % n, 0, label, [](const float*, long, long) {});
  }
  transport.finish();
}

}  // namespace tenet
