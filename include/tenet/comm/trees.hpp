#pragma once

#include <cstring>
#include <tenet/comm/rings.hpp>
#include <tenet/comm/sums.hpp>
#include <tenet/comm/transport.hpp>
#include <vector>

/// Ways of collectives whose sums, or copies, make a tree: see comm/collectives.hpp.
namespace tenet {

/// By recursive halving and doubling, for a power of two ranks: in round k ranks that differ in bit k share what they
/// have, so that each adds up one half of it; then they bring the parts together in the same way, backwards. In
/// between each rank calls between(part), where it has the sum of that part.
template <Transport T, class Between>
void all_reduce_by_halving(T& transport, float* data, long floats, MessageLabel label, float weight, Between between) {
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
  between(own);
  while (count-- > 0) {
    const auto [kept, given] = rounds[count];
    detail::expect(transport, rank ^ (1 << count), given.count, label, data + given.first);
    transport.send(rank ^ (1 << count), data + kept.first, kept.count, label);
    transport.receive_into(rank ^ (1 << count), data + given.first, given.count, label);
  }
  transport.finish();
}

template <Transport T>
void all_reduce_by_halving(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  all_reduce_by_halving(transport, data, floats, label, weight, [](FloatRange) {});
}

/// The halves of another one, in which each rank ends and begins with the part of its number: ranks that are farthest
/// apart share what they have first, so that each keeps the parts of those with whom it goes on.
template <Transport T>
void reduce_scatter_by_halving(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  const int n = transport.size(), rank = transport.rank();
  detail::scale_floats(data, weight, floats);
  for (int bit = n / 2; bit > 0; bit /= 2) {
    const int peer = rank ^ bit;
    const FloatRange kept = parts_of(floats, rank / bit * bit, bit, n),
                     given = parts_of(floats, peer / bit * bit, bit, n);
    detail::expect(transport, peer, kept.count, label);
    transport.send(peer, data + given.first, given.count, label);
    transport.receive(peer, kept.count, label, [&](const float* part, long first, long count) {
      detail::scale_and_add(data + kept.first + first, 1, part, count);
    });
  }
}
template <Transport T>
void all_gather_by_doubling(T& transport, float* data, long floats, MessageLabel label) {
  const int n = transport.size(), rank = transport.rank();
  for (int bit = 1; bit < n; bit *= 2) {
    const int peer = rank ^ bit;
    const FloatRange own = parts_of(floats, rank / bit * bit, bit, n),
                     taken = parts_of(floats, peer / bit * bit, bit, n);
    detail::expect(transport, peer, taken.count, label, data + taken.first);
    transport.send(peer, data + own.first, own.count, label);
    transport.receive_into(peer, data + taken.first, taken.count, label);
  }
}

/// What the root has for all: a binomial tree, in which a rank sends to those that are a power of two further.
template <Transport T>
void broadcast_by_tree(T& transport, int root, float* data, long floats, MessageLabel label) {
  const int n = transport.size(), place = (transport.rank() + n - root) % n;
  int bit = 1;
  while (bit < n && (place & bit) == 0) bit *= 2;  // the lowest bit says from whom it comes
  if (place != 0) transport.receive_into((place - bit + root) % n, data, floats, label);
  for (bit /= 2; bit > 0; bit /= 2)
    if (place + bit < n) transport.send((place + bit + root) % n, data, floats, label);
  transport.finish();
}
/// The same tree from rank 0, in which a rank gets its own part, and those that it sends on.
template <Transport T>
void scatter_by_tree(T& transport, float* data, long floats, MessageLabel label) {
  const int n = transport.size(), rank = transport.rank();
  const auto parts = [=](int first, int bit) { return parts_of(floats, first, first + bit < n ? bit : n - first, n); };
  int bit = 1;
  while (bit < n && (rank & bit) == 0) bit *= 2;
  if (rank != 0) {
    const FloatRange own = parts(rank, bit);
    transport.receive_into(rank - bit, data + own.first, own.count, label);
  }
  for (bit /= 2; bit > 0; bit /= 2)
    if (rank + bit < n) {
      const FloatRange given = parts(rank + bit, bit);
      transport.send(rank + bit, data + given.first, given.count, label);
    }
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
    if (now != data && size > 0) std::memcpy(data, now, sizeof(float) * size);
  }
  if (rank + power < n) {
    transport.send(rank + power, data, floats, label);
    transport.finish();
  }
}

namespace detail {

/// Calls use(first, count) for blocks of a part, such that the first cache has room for those of n ranks.
template <class Use>
void for_blocks(FloatRange part, int n, Use use) {
  const long block = (4096 / n + 15) / 16 * 16;
  for (long first = part.first, last = part.first + part.count; first < last; first += block)
    use(first, last - first < block ? last - first : block);
}
/// Weighs numbers that n ranks share, and adds them up as a tree, but for the last sum: that of what rank 0 and rank
/// `result` have then.
inline int add_up_but_last(const SharedNumbers* shared, int n, long first, long count) {
  const auto numbers = [=](int rank) { return shared[rank].data + first; };
  for (int rank = 0; rank < n; ++rank) scale_floats(numbers(rank), shared[rank].weight, count);
  int distance = 1;
  for (; 2 * distance < n; distance *= 2)
    for (int rank = 0; rank + distance < n; rank += 2 * distance)
      add_floats(numbers(rank), numbers(rank), numbers(rank + distance), count);
  return distance;
}

}  // namespace detail

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
    detail::for_blocks(part_of(floats, transport.rank(), n), n, [=](long first, long count) {
      const auto numbers = [=](int rank) { return shared[rank].data + first; };
      const int distance = detail::add_up_but_last(shared, n, first, count);
      if (distance < n) detail::add_to_both(numbers(0), numbers(distance), count);
      for (int rank = 1; rank < n; ++rank)
        if (rank != distance) std::memcpy(numbers(rank), numbers(0), sizeof(float) * static_cast<std::size_t>(count));
    });
  });
}

}  // namespace tenet
