#pragma once

#include <cstring>
#include <tenet/comm/all_reduce_ways.hpp>
#include <tenet/comm/machine_collectives.hpp>
#include <tenet/comm/rings.hpp>
#include <tenet/comm/subgroup.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/comm/trees.hpp>
#include <vector>

/// What all ranks do together, over any `Transport`. Every rank calls the same functions with the same counts and
/// labels in the same order. With n ranks, m floats, a link that takes α + β · floats, and γ for each sum:
///
///     function                  time                                who has what at the end
///     reduce_scatter            (n - 1) α + (n - 1)/n m (β + γ)     rank r the sum of part r; log2(n) α by halving
///     all_gather                (n - 1) α + (n - 1)/n m β           all of them all parts; log2(n) α by doubling
///     all_reduce by a ring      the sum of both                     all of them the sum
///     all_reduce by two rings   2 (n - 1) α + (n - 1)/n m (β + γ)   all of them the sum; n > 2, by wires
///     all_reduce by halving     2 log2(n) α + (n - 1)/n m (2β + γ)  all of them the sum; n a power of two
///     all_reduce by doubling    log2(n) (α + m (β + γ))             all of them the sum; one round more for other n
///     all_reduce by sharing     2 α + (n - 1)/n m (2β + γ)          all of them the sum; in common memory
///     all_reduce by machines    2 log2(k) α' + (k - 1)/k m (2β' + γ), and an all_reduce of m/k numbers of n/k ranks:
///                                                                   all of them the sum; k ranks on each machine
///     broadcast by a tree       log2(n) (α + m β)                   all of them what the root had
///     broadcast by parts        log2(n) α + (n - 1)/n m β, and an all_gather: all of them what the root had
///     barrier                   log2(n) α
///     both by machines          between n/k machines, and inside of each: a barrier twice there
///
/// Ring, halving and sharing send least, and their time for large m does not grow with n; doubling waits least. A ring
/// uses what links one rank to the next in one direction. Two of them, with half of the numbers each, use both, if that
/// is a wire of their own rather than a port that sends for all. A transport that receives by segments adds up one
/// while the next ones come, so that β + γ becomes the larger of both. All ranks get the same bits. Rings add up each
/// part in another order; the others add ranks 0 and 1, 2 and 3, …, and then these sums in pairs: a tree, the same for
/// all numbers, and for a power of two ranks the same in all ways. (`reduce_scatter` by halving adds those that are
/// farthest apart first: rank 0 and n/2.)
///
/// Where a transport knows which ranks share a machine, inside of which a message costs α' + β' · floats, only 1/k of
/// the numbers of a rank go between machines: with n/k machines a rank sends 2 (k - 1)/k m inside, and 2 (1 - k/n) m/k
/// between them. α' counts twice, not 2 log2(k) times, where the ranks of a machine share memory, or are no power of
/// two. A power of two ranks is added up so only where each machine has a subtree of them. (Patarasuk and Yuan, J.
/// Parallel Distrib. Comput. 69, 2009; Thakur et al., Int. J. High Perform. Comput. 19, 2005.)
namespace tenet {

/// data = sum over r of weight_r · data_r on all ranks, in the way that takes least time by the link's cost. For a
/// power of two ranks the order of sums is the tree, whatever the way.
template <Transport T>
void all_reduce(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  const AllReduceTimes times(transport.size(), floats, transport.link());
  if constexpr (KnowsMachines<T>)
    if (times.on_machines)
      return all_reduce_by_machines(transport, *transport.machines(), data, floats, label, weight, times.in_parts);
  detail::all_reduce_among_equals(times, transport, data, floats, label, weight);
}

/// Each rank ends with its part of sum over r of weight_r · data_r; the other parts of its data hold partial sums. Rank
/// r's part is `part_of(floats, r, n)`. What others still read stays as it is until `finish`.
template <Transport T>
void reduce_scatter(T& transport, float* data, long floats, MessageLabel label, float weight = 1) {
  if (halves_parts(transport.size(), transport.link()))
    return reduce_scatter_by_halving(transport, data, floats, label, weight);
  reduce_scatter_by_ring(transport, data, floats, label, weight);
}

/// Each rank has its part at the beginning, and all of them at the end.
template <Transport T>
void all_gather(T& transport, float* data, long floats, MessageLabel label) {
  if (halves_parts(transport.size(), transport.link())) return all_gather_by_doubling(transport, data, floats, label);
  all_gather_by_ring(transport, data, floats, label);
}

namespace detail {

template <Transport T>
void broadcast_among_equals(T& transport, int root, float* data, long floats, MessageLabel label) {
  const int n = transport.size();
  if (!broadcasts_parts(n, floats, transport.link())) return broadcast_by_tree(transport, root, data, floats, label);
  std::vector<int> from_root;
  for (int place = 0; place < n; ++place) from_root.push_back((root + place) % n);
  Subgroup<T> group(transport, from_root, (transport.rank() + n - root) % n, transport.link());
  scatter_by_tree(group, data, floats, label);
  all_gather(group, data, floats, label);
  transport.finish();
}

/// In round k each rank tells the one 2^k further.
template <Transport T>
void barrier_among_equals(T& transport, MessageLabel label) {
  const int n = transport.size(), rank = transport.rank();
  for (int distance = 1; distance < n; distance *= 2) {
    transport.send((rank + distance) % n, nullptr, 0, label);
    transport.receive((rank + n - distance) % n, 0, label, [](const float*, long, long) {});
  }
  transport.finish();
}

}  // namespace detail

/// All ranks end with what `root` has: by a binomial tree, or, where that takes longer, each gets a part in this way,
/// and the parts are brought together; from machine to machine first where these are known.
template <Transport T>
void broadcast(T& transport, int root, float* data, long floats, MessageLabel label) {
  if constexpr (KnowsMachines<T>)
    if (broadcasts_by_machines(transport.size(), floats, transport.link()))
      return broadcast_by_machines(transport, *transport.machines(), root, [&](auto& group, int root_of_group) {
        detail::broadcast_among_equals(group, root_of_group, data, floats, label);
      });
  detail::broadcast_among_equals(transport, root, data, floats, label);
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

/// Nobody leaves before all have come.
template <Transport T>
void barrier(T& transport, MessageLabel label) {
  if constexpr (KnowsMachines<T>)
    if (meets_by_machines(transport.size(), transport.link()))
      return barrier_by_machines(transport, *transport.machines(),
                                 [&](auto& group) { detail::barrier_among_equals(group, label); });
  detail::barrier_among_equals(transport, label);
}

}  // namespace tenet
