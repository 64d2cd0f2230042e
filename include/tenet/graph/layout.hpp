#pragma once

#include <tenet/graph/schedule.hpp>
#include <tenet/graph/storage.hpp>

/// In which layout each value lies, as the kernels of some devices want them.
namespace tenet {

/// Whether a device's kernels may want values in another layout than that of their types.
template <class Kernels>
inline constexpr bool turns_images = requires { requires Kernels::turns_images; };

/// Whether a device's loops read a sample's row that is repeated, see `Access::repeats`.
template <class Kernels>
inline constexpr bool reads_repeated_rows = requires { requires Kernels::reads_repeated_rows; };

namespace detail {

/// The pass. A kernel's result lies as the kernel writes it. A region, or a sum of one, goes through its elements with
/// channels last where it reads something that lies so, and everything it reads can be found in that order, else
/// likewise with samples last; what it stores then lies so, too. Everybody who needs another order copies or reads
/// across (`Access::turned`).
template <class G, class Order>
struct LayoutPass {
  static constexpr int n = G::count;
  const G& g;
  const Fusion<n>& fusion;
  const Order& order;
  Storage<n> storage;
  bool stays[n]{};   ///< values that keep the order of their type
  bool occurs[3]{};  ///< of a layout

  constexpr bool is(int i, Kind kind) const { return g.nodes[i].is(kind); }
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
        if (is(head, Kind::kernel) && type(head).batched && !stays[head])
          set(head, g.nodes[head].operation->numbers.layout(type(head)));
        if (fusion.epilogue[head] >= 0) choose(fusion.epilogue[head], type(fusion.epilogue[head]), -1);
      }
    }
    return storage;
  }

  /// Decides for the region of `root` over the elements of `space`; `summed`: what a sum behind it adds, or -1.
  constexpr void choose(int root, const TensorInfo& space, int summed) {
    if (fits(root, space, summed, Layout::channels_last))
      set_order(root, summed, Layout::channels_last);
    else if (fits(root, space, summed, Layout::samples_last))
      set_order(root, summed, Layout::samples_last);
  }
  constexpr void set_order(int root, int summed, Layout layout) {
    storage.order[root] = layout;
    for (int m = fusion.first_member[root]; m >= 0 && summed < 0; m = fusion.next_member[m])
      if (fusion.stored[fusion.member[m]]) set(fusion.member[m], layout);
  }
  constexpr void set(int value, Layout layout) {
    storage.layout[value] = layout;
    occurs[static_cast<int>(layout)] = true;
  }

  /// Whether the region reads something that lies so, and can find everything in that order.
  constexpr bool fits(int root, const TensorInfo& space, int summed, Layout layout) const {
    const bool by_channels = layout == Layout::channels_last;
    bool found = occurs[static_cast<int>(layout)] && space.batched &&
                 (by_channels ? planes_of(space).have_order() : space.rank < max_rank);
    bool wanted = false;
    const auto reads = [&](const TensorInfo& reader, int operand) {
      const Layout lies = storage.layout[fusion.value[operand]];
      const TensorInfo& read = type(operand);
      const auto is_readable = [](const Access& how) {
        return how.regular || (reads_repeated_rows<typename G::Context::Device> && how.repeats > 1);
      };
      if (access_of(reader, read).full) {
        wanted = wanted || lies == layout;
        found = found && (!by_channels || lies == Layout::standard || type(fusion.value[operand]) == space) &&
                read.dtype != DType::int32;
      } else {
        found = found && (by_channels ? has_one_order(read) : !read.batched && read.rank < max_rank) &&
                is_readable(access_of(in_layout(reader, layout), in_layout(read, layout)));
      }
    };
    for (int m = fusion.first_member[root]; m >= 0 && found; m = fusion.next_member[m]) {
      const int member = fusion.member[m];
      found = type(member) == space && !(summed < 0 && fusion.stored[member] && stays[member]);
      for (int j = 0; j < g.nodes[member].operand_count && found; ++j) {
        const int operand = g.nodes[member].operands[j];
        if (!is_member(root, fusion.value[operand])) reads(type(member), operand);
      }
    }
    if (summed >= 0 && found) {
      if (!is_member(root, fusion.value[summed])) reads(space, summed);
      found = found && (by_channels ? has_one_order(type(root)) : !type(root).batched) &&
              access_of(in_layout(space, layout), in_layout(type(root), layout)).regular;
    }
    return found && wanted;
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
