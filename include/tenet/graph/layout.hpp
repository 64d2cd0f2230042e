#pragma once

#include <tenet/graph/schedule.hpp>
#include <tenet/graph/storage.hpp>

/// Which values lie in memory with their channels last: (batch, height, width, channels), as the convolutions of some
/// devices want them. Types say nothing of it: (batch, channels, height, width) is what every operation means.
namespace tenet {

/// Whether a device's kernels may want images with their channels last.
template <class Kernels>
inline constexpr bool turns_images = requires { requires Kernels::turns_images; };

namespace detail {

/// The pass. A kernel's result lies as the kernel writes it. A region, or a sum of one, goes through its elements with
/// channels last where it reads something that lies so, and everything it reads can be found in that order; what it
/// stores then lies so, too. Everybody who needs another order copies or reads across (`Access::turned`).
template <class G, class Order>
struct LayoutPass {
  static constexpr int n = G::count;
  const G& g;
  const Fusion<n>& fusion;
  const Order& order;
  Storage<n> storage;
  bool stays[n]{};  ///< values that keep the order of their type

  constexpr bool is(int i, Kind kind) const { return g.nodes[i].operation && g.nodes[i].operation->kind == kind; }
  constexpr const TensorInfo& type(int i) const { return *g.nodes[i].type; }

  constexpr Storage<n> run() {
    for (const Output& output : g.outputs)
      if (is_kept(output.destination)) stays[fusion.value[output.node]] = true;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < g.nodes[i].operand_count; ++j) {
        const int operand = g.nodes[i].operands[j], value = fusion.value[operand];
        // What is broadcast as a whole is read in the order of the reader's type; a view has channels of its own.
        if (is(i, Kind::element) && !access_of(type(i), type(operand)).full) stays[value] = true;
        if (is(i, Kind::kernel) && g.nodes[i].operation->numbers.turned != Turned::nothing &&
            type(operand) != type(value))
          stays[value] = true;
      }
    for (int s = 0; s < order.count; ++s) {
      const int head = order.head[s];
      if (is(head, Kind::element)) {
        choose(head, type(head), -1);
      } else {
        if (is(head, Kind::reduction)) choose(head, type(g.nodes[head].operands[0]), g.nodes[head].operands[0]);
        if (is(head, Kind::kernel) && g.nodes[head].operation->numbers.turns(type(head)))
          storage.channels_last[head] = type(head).batched && !stays[head];
        if (fusion.epilogue[head] >= 0) choose(fusion.epilogue[head], type(fusion.epilogue[head]), -1);
      }
    }
    return storage;
  }

  /// Decides for the region of `root` over the elements of `space`; `summed`: what a sum behind it adds, or -1.
  constexpr void choose(int root, const TensorInfo& space, int summed) {
    bool fits = space.batched && planes_of(space).have_order(), wanted = false;
    const auto reads = [&](const TensorInfo& reader, int operand) {
      const int value = fusion.value[operand];
      if (access_of(reader, type(operand)).full) {
        wanted = wanted || storage.channels_last[value];
        fits = fits && (!storage.channels_last[value] || type(value) == space);
      } else {
        fits = fits && has_one_order(type(operand)) &&
               access_of(channels_last(reader), channels_last(type(operand))).regular;
      }
    };
    for (int m = fusion.first_member[root]; m >= 0 && fits; m = fusion.next_member[m]) {
      const int member = fusion.member[m];
      fits = type(member) == space && !(summed < 0 && fusion.stored[member] && stays[member]);
      for (int j = 0; j < g.nodes[member].operand_count && fits; ++j) {
        const int operand = g.nodes[member].operands[j];
        if (!is_member(root, fusion.value[operand])) reads(type(member), operand);
      }
    }
    if (summed >= 0 && fits) {
      if (!is_member(root, fusion.value[summed])) reads(space, summed);
      fits = fits && has_one_order(type(root)) && access_of(channels_last(space), channels_last(type(root))).regular;
    }
    if (!fits || !wanted) return;
    storage.turned[root] = true;
    for (int m = fusion.first_member[root]; m >= 0 && summed < 0; m = fusion.next_member[m])
      if (fusion.stored[fusion.member[m]]) storage.channels_last[fusion.member[m]] = true;
  }

  constexpr bool is_member(int root, int value) const {
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m])
      if (fusion.member[m] == value) return true;
    return false;
  }
};

}  // namespace detail

/// The storage of values with the order of those that have channels.
template <class G, class Order>
constexpr auto choose_layout(const G& graph, const Fusion<G::count>& fusion, const Order& order,
                             const Storage<G::count>& storage) {
  if constexpr (turns_images<typename G::Context::Device>)
    return detail::LayoutPass<G, Order>{graph, fusion, order, storage}.run();
  else
    return storage;
}

}  // namespace tenet
