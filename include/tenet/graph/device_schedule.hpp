#pragma once

#include <tenet/graph/schedule.hpp>
#include <tenet/graph/storage.hpp>

/// The steps of a program on several devices: which step runs where, as the graph's dependencies allow.
namespace tenet {

/// What the schedule takes steps to cost, in floating point operations that a core does in the same time. Only the
/// proportions count; a batch is taken to have `batch` samples.
struct StepCosts {
  static constexpr long batch = 32;
  static constexpr long moved_float = 8;        ///< read or written, near
  static constexpr long moved_from_other = 16;  ///< besides, read by a device that has not written it
  static constexpr long step = 20'000;          ///< a call: some tenths of a microsecond
  static constexpr long wait = 100'000;         ///< until a device sees that another one has ended a step
};

/// A schedule of several devices. The steps are numbered in the order in which they are to begin; each device runs its
/// own in that order. What all of them have in common with a `Schedule`: run one after the other they compute the same.
///
/// `last_use` of a value that is computed says more: in the first step of its device behind which nothing on any device
/// reads it any more. So the places of values that a device computes may be given, in the order of its steps, to other
/// ones that it computes, and no device ever waits for another one's memory.
template <int Nodes, int Devices>
struct DeviceSchedule : Schedule<Nodes> {
  static constexpr int devices = Devices;
  constexpr int device_of(int s) const { return device[s]; }

  int device[Nodes]{};           ///< of each step
  int before[Nodes][Devices]{};  ///< of each step: the steps of each device below that number end before it begins
  long flops[Devices]{};         ///< of each device, with `StepCosts::batch` samples
  long sum = 0, longest = 0;     ///< cost of all steps, and of a chain of steps that need each other
  long end = 0;                  ///< when the last step ends
};

/// Floating point operations of the step with that head, for a batch.
template <class G>
constexpr long step_flops(const G& g, const Fusion<G::count>& fusion, int head, long batch) {
  const auto of_region = [&](int root) {
    long sum = 0;
    for (int m = root < 0 ? -1 : fusion.first_member[root]; m >= 0; m = fusion.next_member[m])
      sum += g.nodes[fusion.member[m]].operation->flops.at(batch);
    return sum;
  };
  const auto& operation = *g.nodes[head].operation;
  if (operation.kind == Kind::element) return of_region(head);
  return operation.flops.at(batch) + of_region(operation.kind == Kind::reduction ? head : -1) +
         of_region(fusion.epilogue[head]);
}

/// What the schedule takes the step with that head to cost, for a batch: see `StepCosts`. A value is read once.
template <class G>
constexpr long step_cost(const G& g, const Fusion<G::count>& fusion, int head, long batch) {
  const auto moved = [&](int value) {
    const TensorInfo& type = *g.nodes[value].type;
    return StepCosts::moved_float * type.size(batch);
  };
  long cost = StepCosts::step + step_flops(g, fusion, head, batch) + moved(head);
  int seen[max_operands + 2 * max_region_inputs]{}, count = 0;
  for_each_read(g, fusion, head, [&](int value, bool) {
    for (int k = 0; k < count; ++k)
      if (seen[k] == value) return;
    seen[count++] = value;
    cost += moved(value);
  });
  return cost;
}

namespace detail {

/// List scheduling: of the steps whose inputs are there, the one that can begin first comes next, where it can begin
/// first; of several the one with the longest chain of steps behind it, and the device that has written most of what it
/// reads. Where that gains nothing, one device runs all.
template <class G, int Devices>
struct DevicePass {
  static constexpr int n = G::count;
  using Order = DeviceSchedule<n, Devices>;
  const G& g;
  const Fusion<n>& fusion;
  const Schedule<n> given;
  Order order{};

  // What needs what, by the numbers of the given schedule. Those that are prepared come first, on the first device, and
  // so do the optimizer's steps behind all gradients: whoever runs them may share them out.
  static constexpr int max_reads = max_operands + 2 * max_region_inputs;
  int first_edge[n]{}, next_edge[max_reads * n]{}, edge_to[max_reads * n]{};
  int edges = 0;
  int missing[n]{};  // of each step: how many others, that have not been placed, it needs
  long cost[n]{}, behind[n]{}, results[n]{};
  long ready[n][Devices]{}, fetching[n][Devices]{};  // when it can begin there, and what it takes longer there
  int first_update = 0;

  constexpr DevicePass(const G& graph, const Fusion<n>& fused)
      : g(graph), fusion(fused), given(schedule(graph, fused)) {}

  constexpr bool computed(int value) const { return g.nodes[value].is_computed(); }
  constexpr long flops_of(int s) const { return step_flops(g, fusion, given.head[s], StepCosts::batch); }

  constexpr void add_edge(int from, int to) {
    next_edge[edges] = first_edge[from];
    edge_to[edges] = to;
    first_edge[from] = edges++;
    ++missing[to];
  }

  constexpr void find_edges() {
    int writer[n]{};  // of each leaf: the step that leaves a new value in its place, + 1
    for (int i = 0; i < n; ++i)
      if (const int to = new_value_of(i); to >= 0 && computed(fusion.value[to]))
        writer[i] = given.step[fusion.value[to]] + 1;
    int read[n]{}, needed[n]{};  // of each value, and of each step: the last step, + 1, that does
    for (int& first : first_edge) first = -1;
    int gradients = 0;  // the leaf that the update reads
    while (gradients < n && g.nodes[gradients].source != Source::gradients) ++gradients;
    while (first_update < given.count && given.head[first_update] < gradients) ++first_update;
    for (int s = 0; s < first_update; ++s) {
      cost[s] = step_cost(g, fusion, given.head[s], StepCosts::batch);
      for_each_read(g, fusion, given.head[s], [&](int value, bool) {
        if (read[value] == s + 1) return;
        read[value] = s + 1;
        if (!computed(value)) {
          if (writer[value] > s + 1 && writer[value] <= first_update) add_edge(s, writer[value] - 1);
        } else if (const int from = given.step[value]; from >= given.prepared && from != s && needed[from] <= s) {
          needed[from] = s + 1;
          add_edge(from, s);
        }
      });
      results[s] = g.nodes[given.head[s]].type->size(StepCosts::batch);
    }
  }

  /// The node whose value goes where the leaf's old one lies, or -1.
  constexpr int new_value_of(int leaf) const {
    const auto& node = g.nodes[leaf];
    for (int i = 0; i < G::output_count && !node.is_computed(); ++i) {
      const Output& output = g.outputs[i];
      const bool same = (node.source == Source::buffer && output.destination == Destination::buffer) ||
                        (node.source == Source::parameter && output.destination == Destination::parameter) ||
                        (node.source == Source::slot_state && output.destination == Destination::slot_state);
      if (same && output.index == node.index) return output.node;
    }
    return -1;
  }

  /// Step s of the given schedule is the next one, on device d.
  constexpr void place(int s, int d) {
    const int number = order.count++;
    order.head[number] = given.head[s];
    order.device[number] = d;
  }

  struct Candidate {
    long begin, minus_behind, fetching;
    int step;
  };
  static constexpr bool is_before(const Candidate& a, const Candidate& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.minus_behind != b.minus_behind) return a.minus_behind < b.minus_behind;
    return a.fetching != b.fetching ? a.fetching < b.fetching : a.step < b.step;
  }

  /// The steps that are behind each other in the given schedule, on the first device.
  constexpr void keep_on_first(int from, int to) {
    for (int s = from; s < to; ++s) place(s, 0);
  }

  constexpr void choose() {
    int waiting[n]{}, count = 0;
    long free[Devices]{};
    for (int s = first_update - 1; s >= given.prepared; --s) {
      for (int e = first_edge[s]; e >= 0; e = next_edge[e])
        if (behind[edge_to[e]] > behind[s]) behind[s] = behind[edge_to[e]];
      behind[s] += cost[s];
      order.sum += cost[s];
      if (behind[s] > order.longest) order.longest = behind[s];
      if (missing[s] == 0) waiting[count++] = s;
    }
    keep_on_first(0, given.prepared);
    while (count > 0) {
      int best = -1, device = 0;
      long begin = 0;
      for (int k = 0; k < count; ++k)
        for (int d = 0; d < Devices; ++d) {
          const int s = waiting[k];
          const long start = ready[s][d] > free[d] ? ready[s][d] : free[d];
          if (best < 0 || is_before({start, -behind[s], fetching[s][d], s},
                                    {begin, -behind[waiting[best]], fetching[waiting[best]][device], waiting[best]}))
            best = k, device = d, begin = start;
        }
      const int s = waiting[best];
      waiting[best] = waiting[--count];
      place(s, device);
      free[device] = begin + cost[s] + fetching[s][device];
      order.flops[device] += flops_of(s);
      if (free[device] > order.end) order.end = free[device];
      for (int e = first_edge[s]; e >= 0; e = next_edge[e]) {
        const int to = edge_to[e];
        for (int d = 0; d < Devices; ++d) {
          const long there = free[device] + (d == device ? 0 : StepCosts::wait);
          if (there > ready[to][d]) ready[to][d] = there;
          if (d != device) fetching[to][d] += StepCosts::moved_from_other * results[s];
        }
        if (--missing[to] == 0) waiting[count++] = to;
      }
    }
    if (order.end >= order.sum) {  // to wait for each other takes longer than devices gain
      order.count = given.prepared;
      for (int d = 1; d < Devices; ++d) {
        order.flops[0] += order.flops[d];
        order.flops[d] = 0;
      }
      order.end = order.sum;
      keep_on_first(given.prepared, first_update);
    }
    keep_on_first(first_update, given.count);
    order.prepared = given.prepared;
  }

  constexpr void number_values() {
    int number[n]{};  // of each head: its new step
    for (int s = 0; s < order.count; ++s) number[order.head[s]] = s;
    for (int i = 0; i < n; ++i)
      if (computed(i) && fusion.stored[i]) order.step[i] = number[given.head[given.step[i]]];
    note_uses(g, fusion, order);
  }

  /// What each step has to wait for, and with it all that these have waited for.
  constexpr void find_order() {
    int last[Devices]{};  // of each device: its last step
    for (int& step : last) step = -1;
    for (int s = order.prepared; s < order.count; ++s) {
      const int d = order.device[s];
      int* const mine = order.before[s];
      const auto join = [&](int step) {
        for (int e = 0; e < Devices; ++e)
          if (order.before[step][e] > mine[e]) mine[e] = order.before[step][e];
        if (step >= mine[order.device[step]]) mine[order.device[step]] = step + 1;
      };
      for (int e = 0; e < Devices; ++e) mine[e] = order.prepared;
      if (last[d] >= 0) join(last[d]);
      for_each_read(g, fusion, order.head[s], [&](int value, bool) {
        if (computed(value) && order.step[value] >= mine[order.device[order.step[value]]] && order.step[value] != s)
          join(order.step[value]);
      });
      last[d] = s;
    }
  }

  /// Until when the places of values are needed; see `DeviceSchedule`.
  constexpr void find_releases() {
    constexpr int forever = Schedule<n>::forever;
    int covered[Devices][n]{};  // by device and step of another one: the device's first step that comes behind it
    int known[Devices][Devices]{};
    for (auto& steps : covered)
      for (int& step : steps) step = forever;
    for (int s = order.prepared; s < order.count; ++s)
      for (int e = 0, d = order.device[s]; e < Devices; ++e)
        for (int& u = known[d][e]; e != d && u < order.before[s][e]; ++u)
          if (order.device[u] == e) covered[d][u] = s;
    const auto released = [&](int value) { return computed(value) && order.last_use[value] >= order.prepared; };
    int release[n]{};
    for (int s = order.prepared; s < order.count; ++s)
      for_each_read(g, fusion, order.head[s], [&](int value, bool) {
        if (!released(value)) return;
        const int d = order.device[order.step[value]], until = order.device[s] == d ? s : covered[d][s];
        if (until > release[value]) release[value] = until;
      });
    for (int i = 0; i < n; ++i)
      if (released(i) && order.last_use[i] < forever) {
        order.last_use[i] = release[i];
        order.in_place[i] = false;
      }
    bool otherwise[n]{};  // read in the step of its release, and not element by element only
    for (int s = order.prepared; s < order.count; ++s)
      for_each_read(g, fusion, order.head[s], [&](int value, bool element_by_element) {
        if (!computed(value) || order.last_use[value] != s) return;
        otherwise[value] = otherwise[value] || !element_by_element;
        order.in_place[value] = !otherwise[value];
      });
  }

  constexpr Order run() {
    find_edges();
    choose();
    number_values();
    find_order();
    find_releases();
    return order;
  }
};

}  // namespace detail

/// The fusion of a graph that runs on so many devices: nothing waits for what it does not need. But where a kernel's
/// value is rounded when it is stored, a region stays behind the kernel, whose value it reads before that.
template <int Devices, class G>
constexpr auto fuse_for(const G& graph) {
  return fuse(graph, Devices > 1 && !keeps_narrow_values<typename G::Context::Device>);
}

/// The schedule of a graph on so many devices.
template <int Devices, class G>
constexpr auto schedule_on(const G& graph, const Fusion<G::count>& fusion) {
  if constexpr (Devices == 1)
    return schedule(graph, fusion);
  else
    return detail::DevicePass<G, Devices>(graph, fusion).run();
}

}  // namespace tenet
