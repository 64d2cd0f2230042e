#pragma once

#include <tenet/comm/sums.hpp>
#include <tenet/comm/transport.hpp>

/// Parts of a list of numbers, and rings around which they go: see comm/collectives.hpp.
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
/// `count` parts from `part` on.
constexpr FloatRange parts_of(long floats, int part, int count, int parts) {
  const FloatRange first = part_of(floats, part, parts), last = part_of(floats, part + count - 1, parts);
  return {first.first, last.first + last.count - first.first};
}

namespace detail {

/// Tells a transport that gains by it what is received next, into `to` or not: before numbers are sent that cross it.
template <Transport T>
void expect(T& transport, int from, long floats, const MessageLabel& label, float* to = nullptr) {
  if constexpr (ExpectsMessages<T>) transport.expect(from, floats, label, to);
}

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
void reduce_scatter_by_ring(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
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
void all_gather_by_ring(T& transport, float* data, long floats, MessageLabel label) {
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
  reduce_scatter_by_ring(transport, data, floats, label, weight);
  all_gather_by_ring(transport, data, floats, label);
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

}  // namespace tenet
