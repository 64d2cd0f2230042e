#pragma once

#include <cstring>
#include <tenet/comm/all_reduce_ways.hpp>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/subgroup.hpp>

/// Collectives that go inside of each machine, and then between machines: see comm/collectives.hpp.
namespace tenet {

namespace detail {

/// What the ranks of a machine do before and behind the sums between machines. Each of the first ranks, as many as the
/// machine with fewest ranks has, owns a part: all send it theirs, and it sends all of them the sum. So machines with
/// different numbers of ranks have the same parts, and each part goes between ranks of one place.
template <Transport T, class Between>
void all_reduce_by_owners(T& inside, int owners, float* data, long floats, const MessageLabel& label, float weight,
                          Between between) {
  const int n = inside.size(), place = inside.rank();
  const auto part = [=](int owner) { return part_of(floats, owner, owners); };
  const FloatRange own = place < owners ? part(place) : FloatRange{};
  scale_floats(data, weight, floats);
  // In turns, so that nobody is sent to by two at a time.
  for (int turn = 1; turn < n; ++turn)
    if (const int to = (place + turn) % n; to < owners) inside.send(to, data + part(to).first, part(to).count, label);
  if (place < owners) {
    for (int turn = 1; turn < n; ++turn)
      inside.receive((place + n - turn) % n, own.count, label, [&](const float* numbers, long first, long count) {
        scale_and_add(data + own.first + first, 1, numbers, count);
      });
    between(own);
    for (int turn = 1; turn < n; ++turn) inside.send((place + turn) % n, data + own.first, own.count, label);
  }
  for (int turn = 1; turn < n; ++turn)
    if (const int from = (place + n - turn) % n; from < owners)
      inside.receive_into(from, data + part(from).first, part(from).count, label);
  inside.finish();
}

}  // namespace detail

/// data = sum over r of weight_r · data_r on all ranks, of which each machine's first add up parts, then those that own
/// the same part on all machines, by outer(group, data, floats, label, weight); then each machine's bring the parts
/// together. Inside of a machine: in memory that its ranks have in common, where they have; else by halving for equal
/// numbers of ranks that are a power of two; else each sends to each. `by_rings`: by a ring, if machines have equal
/// numbers of ranks.
template <KnowsMachines T, class Outer>
void all_reduce_by_parts_of_machines(T& transport, const MachineTopology& machines, float* data, long floats,
                                     MessageLabel label, float weight, bool by_rings, Outer outer) {
  using Group = Subgroup<T>;
  Group inside = Group::of_machine(transport, machines);
  const int n = inside.size(), place = inside.rank(), owners = machines.fewest();
  const auto between = [&](float* numbers, FloatRange part) {
    Group group = Group::between_machines(transport, machines);
    outer(group, numbers + part.first, part.count, label, 1.0f);
  };
  if constexpr (MayShareMemory<Group>) {
    const auto add_up = [&](const SharedNumbers* shared) {
      if (place >= owners) return;
      const FloatRange own = part_of(floats, place, owners);
      float* const sum = shared[0].data;
      detail::for_blocks(own, n, [=](long first, long count) {
        if (const int last = detail::add_up_but_last(shared, n, first, count); last < n)
          detail::add_floats(sum + first, sum + first, shared[last].data + first, count);
      });
      between(sum, own);
      for (int other = 1; other < n; ++other)
        std::memcpy(shared[other].data + own.first, sum + own.first,
                    sizeof(float) * static_cast<std::size_t>(own.count));
    };
    if (!by_rings && machines.inside().shares && inside.share(data, floats, label, weight, add_up)) return;
  }
  const bool are_alike = machines.most() == owners;
  if (are_alike && by_rings) {
    reduce_scatter_by_ring(inside, data, floats, label, weight);
    between(data, part_of(floats, place, n));
    all_gather_by_ring(inside, data, floats, label);
    inside.finish();
  } else if (are_alike && (n & (n - 1)) == 0) {
    all_reduce_by_halving(inside, data, floats, label, weight, [&](FloatRange own) { between(data, own); });
  } else {
    detail::all_reduce_by_owners(inside, owners, data, floats, label, weight,
                                 [&](FloatRange own) { between(data, own); });
  }
}

/// The same, with what takes least time inside and between. Few numbers go whole, where machines have equal numbers of
/// ranks: each rank adds up those of its machine, then those of all ranks with its place.
template <KnowsMachines T>
void all_reduce_by_machines(T& transport, const MachineTopology& machines, float* data, long floats, MessageLabel label,
                            float weight, bool in_parts) {
  const auto reduce = [](auto& group, float* numbers, long count, MessageLabel about, float own_weight) {
    const AllReduceTimes times(group.size(), count, group.link());
    detail::all_reduce_among_equals(times, group, numbers, count, about, own_weight);
  };
  if (in_parts || machines.most() != machines.fewest())
    return all_reduce_by_parts_of_machines(transport, machines, data, floats, label, weight, false, reduce);
  auto inside = Subgroup<T>::of_machine(transport, machines);
  auto between = Subgroup<T>::between_machines(transport, machines);
  reduce(inside, data, floats, label, weight);
  reduce(between, data, floats, label, 1.0f);
}

/// What `root` has for a rank of each machine, then for all: broadcast_in(group, root of the group) is called for both.
template <KnowsMachines T, class Broadcast>
void broadcast_by_machines(T& transport, const MachineTopology& machines, int root, Broadcast broadcast_in) {
  std::vector<int> first = machines.ranks_at(0);  // of each machine
  first[static_cast<std::size_t>(machines.machine_of(root))] = root;
  const int machine = machines.machine_of(transport.rank()), own = first[static_cast<std::size_t>(machine)];
  if (transport.rank() == own) {
    Subgroup<T> between(transport, first, machine, detail::between_machines(transport.link()));
    broadcast_in(between, machines.machine_of(root));
  }
  auto inside = Subgroup<T>::of_machine(transport, machines);
  broadcast_in(inside, machines.place_of(own));
}

/// Ranks of a machine meet, then the first ones of all, then those of a machine again: barrier_in(group) does it.
template <KnowsMachines T, class Barrier>
void barrier_by_machines(T& transport, const MachineTopology& machines, Barrier barrier_in) {
  auto inside = Subgroup<T>::of_machine(transport, machines);
  barrier_in(inside);
  if (inside.rank() == 0) {
    auto between = Subgroup<T>::between_machines(transport, machines);
    barrier_in(between);
  }
  barrier_in(inside);
}

}  // namespace tenet
