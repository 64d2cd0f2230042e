#pragma once

#include <tenet/core/same_address.hpp>
#include <tenet/graph/graph.hpp>
#include <tenet/ops/region.hpp>

namespace tenet {

/// Which element-wise operations are computed together, and where.
///
/// A region is a set of element-wise nodes over one index space that is evaluated element by element. It stands alone
/// (a loop of its own), in front of a sum (which adds its values without storing them), or behind a kernel or a sum
/// (run on each piece of the result while that is in cache).
template <int Nodes>
struct Fusion {
  int value[Nodes]{};      ///< the node whose storage holds this one's elements: itself, but for views
  bool stored[Nodes]{};    ///< has storage; an element-wise node without is evaluated inside its consumers' regions
  int region[Nodes]{};     ///< of a stored element-wise node: the region, named by its last node
  int anchor[Nodes]{};     ///< of a region: the kernel or sum that it stands behind, or -1
  int epilogue[Nodes]{};   ///< of a kernel or sum: the region behind it, or -1
  bool absorbed[Nodes]{};  ///< of a kernel or sum: it writes into the place of its epilogue's result, its own has no
                           ///< other use
  int position[Nodes]{};   ///< of a stored node: the node at whose turn it is computed
  bool prepared[Nodes]{};  ///< an operation that only parameters and buffers stand behind, in a program that changes
                           ///< neither: computed when they have changed, not in every run
  // The element-wise nodes of each region, and of the region in front of each sum, as lists in falling order.
  int first_member[Nodes]{}, next_member[6 * Nodes]{}, member[6 * Nodes]{};
  int members = 0;
};

namespace detail {

/// The uses of every value as lists: consumer c of value u, views looked through.
template <int Nodes>
struct Uses {
  int first[Nodes + 1]{};
  int consumer[max_operands * Nodes + 1]{};
  bool is_output[Nodes]{};
};

template <class G>
struct FusionPass {
  static constexpr int n = G::count;
  static constexpr int max_roots = 4;
  const G& g;
  Fusion<n> fusion{};
  Uses<n> uses{};
  long size[n]{};
  int root_of[n][max_roots]{};
  int root_count[n]{};
  int operations[n]{}, inputs[n]{};

  constexpr explicit FusionPass(const G& graph) : g(graph) {}

  constexpr bool is(int i, Kind kind) const { return g.nodes[i].is(kind); }

  /// Do the elements of a and b correspond one to one?
  constexpr bool same_space(int a, int b) const {
    return size[a] == size[b] && g.nodes[a].type->batched == g.nodes[b].type->batched;
  }

  constexpr void find_uses() {
    int count[n]{};
    for (int i = 0; i < n; ++i) {
      const auto& node = g.nodes[i];
      size[i] = i > 0 && same_address(node.type, g.nodes[i - 1].type) ? size[i - 1] : node.type->size();
      fusion.value[i] = is(i, Kind::view) ? fusion.value[node.operands[0]] : i;
      fusion.anchor[i] = fusion.epilogue[i] = fusion.first_member[i] = -1;
      fusion.position[i] = fusion.region[i] = i;
      if (!is(i, Kind::view))
        for (int j = 0; j < node.operand_count; ++j) ++count[fusion.value[node.operands[j]]];
    }
    for (int i = 0; i < n; ++i) uses.first[i + 1] = uses.first[i] + count[i];
    int next[n]{};
    for (int i = 0; i < n; ++i) next[i] = uses.first[i];
    for (int i = 0; i < n; ++i)
      if (!is(i, Kind::view))
        for (int j = 0; j < g.nodes[i].operand_count; ++j)
          uses.consumer[next[fusion.value[g.nodes[i].operands[j]]]++] = i;
    for (int i = 0; i < G::output_count; ++i) uses.is_output[fusion.value[g.outputs[i].node]] = true;
  }

  constexpr void find_prepared() {
    if (!changes_nothing(g)) return;
    bool constant[n]{};
    for (int i = 0; i < n; ++i) {
      const auto& node = g.nodes[i];
      constant[i] = !node.type->batched && (node.is_computed() || node.source == Source::parameter ||
                                            node.source == Source::buffer || node.source == Source::constant);
      for (int j = 0; j < node.operand_count; ++j) constant[i] = constant[i] && constant[node.operands[j]];
      fusion.prepared[i] = constant[i] && node.is_computed();
    }
  }

  /// Evaluating the node once more in every consumer needs no more memory traffic than storing it: one operand of its
  /// own size at most, and cheap arithmetic.
  constexpr bool recomputable(int i) const {
    if (!g.nodes[i].operation->cheap) return false;
    int full = 0;
    for (int j = 0; j < g.nodes[i].operand_count; ++j) full += same_space(i, g.nodes[i].operands[j]);
    return full <= 1;
  }

  constexpr bool add_root(int node, int root) {
    for (int k = 0; k < root_count[node]; ++k)
      if (root_of[node][k] == root) return true;
    if (root_count[node] == max_roots) return false;
    root_of[node][root_count[node]++] = root;
    return true;
  }

  /// Can the element-wise node `i` be evaluated inside all of its consumers? Then its regions are noted.
  constexpr bool inline_into_consumers(int i) {
    if (uses.is_output[i]) return false;
    int consumers = 0, previous = -1;
    for (int k = uses.first[i]; k < uses.first[i + 1]; ++k) {
      const int c = uses.consumer[k];
      if (c == previous) continue;  // x·x uses x twice
      previous = c;
      ++consumers;
      if (fusion.prepared[i] != fusion.prepared[c]) return false;
      if (is(c, Kind::reduction)) {
        if (!add_root(i, c)) return false;
      } else if (is(c, Kind::element) && same_space(i, c)) {
        for (int r = 0; r < root_count[c]; ++r)
          if (!add_root(i, root_of[c][r])) return false;
      } else {
        return false;
      }
    }
    if (consumers == 0 || (root_count[i] > 1 && !recomputable(i))) return false;
    for (int r = 0; r < root_count[i]; ++r) {
      const int root = root_of[i][r];
      if (operations[root] + 1 > max_fused_operations ||
          inputs[root] + g.nodes[i].operand_count - 1 > max_region_inputs)
        return false;
    }
    return true;
  }

  constexpr void add_member(int root, int i) {
    fusion.member[fusion.members] = i;
    fusion.next_member[fusion.members] = -1;
    // Members come in falling order: append at the end of the list.
    if (fusion.first_member[root] < 0)
      fusion.first_member[root] = fusion.members;
    else
      fusion.next_member[last_member[root]] = fusion.members;
    last_member[root] = fusion.members++;
  }
  int last_member[n]{};

  /// From the last node to the first: which element-wise nodes are stored, which are evaluated where they are used.
  constexpr void form_regions() {
    for (int i = n - 1; i >= 0; --i) {
      fusion.stored[i] = !is(i, Kind::view);
      if (is(i, Kind::reduction)) {
        root_count[i] = 1;
        root_of[i][0] = i;
        inputs[i] = 1;
      } else if (is(i, Kind::element)) {
        if (inline_into_consumers(i)) {
          fusion.stored[i] = false;
          for (int r = 0; r < root_count[i]; ++r) {
            const int root = root_of[i][r];
            ++operations[root];
            inputs[root] += g.nodes[i].operand_count - 1;
            add_member(root, i);
          }
        } else {
          root_count[i] = 1;
          root_of[i][0] = i;
          operations[i] = 1;
          inputs[i] = g.nodes[i].operand_count;
          add_member(i, i);
        }
      }
    }
  }

  /// Calls function(value) for every stored value that a region reads from outside.
  template <class Function>
  constexpr void for_each_input(int root, Function function) const {
    for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) {
      const auto& node = g.nodes[fusion.member[m]];
      for (int j = 0; j < node.operand_count; ++j) {
        const int value = fusion.value[node.operands[j]];
        if (fusion.stored[value] && !(is(value, Kind::element) && fusion.region[value] == root)) function(value);
      }
    }
  }

  /// When a value is there for region `root`: leaves always, prepared values before everything that is not.
  constexpr int available(int value, int root) const {
    const bool before = !g.nodes[value].is_computed() || (fusion.prepared[value] && !fusion.prepared[root]);
    return before ? -1 : fusion.position[value];
  }

  constexpr void attach(int root) {
    int best = -1;
    for_each_input(root, [&](int value) {
      const auto* const operation = g.nodes[value].operation;
      if (!g.nodes[value].is_computed() || operation->kind == Kind::element || !operation->carries_epilogue) return;
      if (fusion.prepared[root] != fusion.prepared[value]) return;
      if (same_space(root, value) && fusion.epilogue[value] < 0 && value > best) best = value;
    });
    if (best < 0) return;
    bool possible = true;
    for_each_input(root, [&](int value) { possible = possible && (value == best || available(value, root) < best); });
    if (!possible) return;
    fusion.position[root] = best;
    put_behind(best, root);
  }

  constexpr void put_behind(int kernel, int root) {
    bool only = !uses.is_output[kernel];
    for (int k = uses.first[kernel]; k < uses.first[kernel + 1]; ++k) {
      bool inside = false;
      for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m])
        inside = inside || fusion.member[m] == uses.consumer[k];
      const int c = uses.consumer[k];
      only = only && inside && (fusion.stored[c] || root_count[c] == 1);
    }
    fusion.anchor[root] = kernel;
    fusion.epilogue[kernel] = root;
    fusion.absorbed[kernel] = only;
  }

  /// Joins region `root` with the region behind a kernel whose value, or that region's, it reads, where nothing else
  /// has to be waited for: an update's new state and new parameters behind their gradient.
  constexpr void join_epilogue(int root) {
    int kernel = -1;
    const auto kernel_of = [&](int value) {
      if (is(value, Kind::element)) return fusion.anchor[fusion.region[value]];
      return fusion.epilogue[value] >= 0 ? value : -1;
    };
    for_each_input(root, [&](int value) {
      if (kernel_of(value) > kernel) kernel = kernel_of(value);
    });
    if (kernel < 0) return;
    const int before = fusion.epilogue[kernel];
    bool possible = same_space(root, before) && fusion.prepared[root] == fusion.prepared[before] &&
                    operations[root] + operations[before] <= max_fused_operations &&
                    inputs[root] + inputs[before] - 1 <= max_region_inputs &&
                    outputs[root] + outputs[before] <= max_fused_outputs;
    for_each_input(root, [&](int value) {
      const bool there = value == kernel || (is(value, Kind::element) && fusion.region[value] == before);
      possible = possible && (there || available(value, root) < kernel);
    });
    if (!possible) return;
    fusion.position[root] = kernel;
    fusion.anchor[before] = -1;
    take_members(root, before);
    put_behind(kernel, root);
  }

  /// Joins a stored region with the later region `root` that reads it, where nothing needs it before: one loop with
  /// several results, as an optimizer's new state and new parameters.
  constexpr void merge_into(int root) {
    int earlier[max_region_inputs]{};
    int count = 0;
    for_each_input(root, [&](int value) {
      if (is(value, Kind::element) && value == fusion.region[value] && fusion.anchor[value] < 0 &&
          fusion.prepared[root] == fusion.prepared[value] && same_space(root, value) && count < max_region_inputs)
        earlier[count++] = value;
    });
    for (int k = 0; k < count; ++k) {
      const int value = earlier[k];
      if (fusion.region[value] != value || fusion.anchor[value] >= 0) continue;
      // The earlier region's result is read inside the joint one, so it is no input there.
      if (operations[root] + operations[value] > max_fused_operations ||
          inputs[root] + inputs[value] - 1 > max_region_inputs || outputs[root] + outputs[value] > max_fused_outputs)
        continue;
      bool later = true;  // all other readers come after `root`
      for (int m = fusion.first_member[value]; m >= 0; m = fusion.next_member[m]) {
        const int i = fusion.member[m];
        if (!fusion.stored[i]) continue;
        for (int u = uses.first[i]; u < uses.first[i + 1]; ++u) {
          const int c = uses.consumer[u];
          if (root_count[c] == 0) {
            later = later && c > root;
          } else {
            for (int r = 0; r < root_count[c]; ++r) {
              const int reader = fusion.region[root_of[c][r]];
              later = later && (reader == root || reader == value || (reader > root && fusion.position[reader] > root));
            }
          }
        }
      }
      if (later) take_members(root, value);
    }
  }
  int outputs[n]{};

  /// Region `value` becomes part of region `root`, and is computed where that is.
  constexpr void take_members(int root, int value) {
    operations[root] += operations[value];
    inputs[root] += inputs[value] - 1;
    outputs[root] += outputs[value];
    for (int m = fusion.first_member[value]; m >= 0; m = fusion.next_member[m]) {
      const int i = fusion.member[m];
      if (fusion.stored[i] && is(i, Kind::element)) {
        fusion.region[i] = root;
        fusion.position[i] = fusion.position[root];
      }
    }
    append_members(root, value);
  }

  /// Members of both regions in one list, falling, each once.
  constexpr void append_members(int root, int value) {
    int merged[2 * max_fused_operations]{};
    int count = 0;
    int a = fusion.first_member[root], b = fusion.first_member[value];
    while (a >= 0 || b >= 0) {
      const int left = a >= 0 ? fusion.member[a] : -1, right = b >= 0 ? fusion.member[b] : -1;
      merged[count++] = left > right ? left : right;
      if (left >= right) a = fusion.next_member[a];
      if (right >= left) b = fusion.next_member[b];
    }
    fusion.first_member[root] = fusion.first_member[value] = -1;
    for (int k = 0; k < count; ++k) add_member(root, merged[k]);
  }

  /// Whether node i is computed from `value`. Whatever the backward pass reads of the forward pass stands behind the
  /// loss, and with it behind all of the backward pass.
  constexpr bool depends_on(int i, int value) const {
    if (value < g.forward_count && i >= g.forward_count) return true;
    bool found[n]{};
    found[i] = true;
    for (int k = i; k > value; --k)
      for (int j = 0; found[k] && j < g.nodes[k].operand_count; ++j) found[g.nodes[k].operands[j]] = true;
    return found[value];
  }

  /// Regions behind kernels or sums that read what these do not depend on stand alone: two such values can be computed
  /// at the same time, and the kernel of one is not to wait for the other. What no input stands behind, as scales of
  /// batch norms, is there before. The regions stay what they are, and with them every rounding.
  constexpr void detach_joins() {
    bool from_inputs[n]{};
    for (int i = 0; i < n; ++i) {
      from_inputs[i] = g.nodes[i].source == Source::input;
      for (int j = 0; j < g.nodes[i].operand_count; ++j)
        from_inputs[i] = from_inputs[i] || from_inputs[g.nodes[i].operands[j]];
    }
    for (int kernel = 0; kernel < n; ++kernel) {
      const int root = fusion.epilogue[kernel];
      if (root < 0) continue;
      bool joins = false, possible = true;
      for_each_input(root, [&](int value) {
        joins = joins ||
                (value != kernel && g.nodes[value].is_computed() && from_inputs[value] && !depends_on(kernel, value));
      });
      if (!joins) continue;
      for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m]) {
        const int i = fusion.member[m];
        for (int u = uses.first[i]; fusion.stored[i] && u < uses.first[i + 1]; ++u) {
          const int c = uses.consumer[u];
          if (root_count[c] == 0) possible = possible && c > root;
          for (int r = 0; r < root_count[c]; ++r) {
            const int reader = fusion.region[root_of[c][r]];
            possible = possible && (reader == root || fusion.position[reader] > root);
          }
        }
      }
      if (!possible) continue;
      for (int m = fusion.first_member[root]; m >= 0; m = fusion.next_member[m])
        if (fusion.stored[fusion.member[m]]) fusion.position[fusion.member[m]] = root;
      fusion.anchor[root] = fusion.epilogue[kernel] = -1;
      fusion.absorbed[kernel] = false;
    }
  }

  constexpr Fusion<n> run(bool joins_alone) {
    find_uses();
    find_prepared();
    form_regions();
    for (int i = 0; i < n; ++i) {
      if (!fusion.stored[i] || !is(i, Kind::element)) continue;
      outputs[i] = 1;
      attach(i);
      if (fusion.anchor[i] < 0) join_epilogue(i);
      if (fusion.anchor[i] < 0) merge_into(i);
    }
    if (joins_alone) detach_joins();
    return fusion;
  }
};

}  // namespace detail

/// Element-wise, prologue and epilogue fusion. `joins_alone`: nothing that can be computed at the same time as a kernel
/// is read behind it.
template <class G>
constexpr auto fuse(const G& graph, bool joins_alone = false) {
  return detail::FusionPass<G>(graph).run(joins_alone);
}

}  // namespace tenet
