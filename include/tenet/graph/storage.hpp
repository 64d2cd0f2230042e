#pragma once

#include <tenet/core/layout.hpp>
#include <tenet/graph/fusion.hpp>

namespace tenet {

/// In which element type and order each value lies in memory.
template <int Nodes>
struct Storage {
  DType dtype[Nodes]{};
  Layout layout[Nodes]{};
  Layout order[Nodes]{};  ///< of a region or sum: in which it goes through its elements

  constexpr bool is_narrow(int i) const { return dtype[i] == DType::bfloat16; }
  constexpr bool same_form(int i, int j) const { return is_narrow(i) == is_narrow(j) && layout[i] == layout[j]; }
};

/// Floats that so many numbers take.
constexpr long floats_of(long numbers, DType dtype) { return dtype == DType::bfloat16 ? (numbers + 1) / 2 : numbers; }

/// Whether values that have a batch are kept as other numbers than `float`: the kernels say so, see `WithActivations`.
template <class Kernels>
inline constexpr bool keeps_narrow_values = requires { Kernels::activations; };

/// Chooses the storage of every value. In mixed precision the values of samples, activations and their gradients, take
/// half the memory; everything is computed as `float`, and rounded where it is stored. Parameters, statistics, sums
/// over the batch and the program's results stay `float`, as do losses and what an operation says is kept whole. What
/// only the region behind a kernel reads is as the kernel writes it.
template <class G>
constexpr auto choose_storage(const G& graph, const Fusion<G::count>& fusion) {
  Storage<G::count> storage;
  for (int i = 0; i < G::count; ++i) storage.dtype[i] = graph.nodes[i].type->dtype;
  using Kernels = typename G::Context::Device;
  if constexpr (keeps_narrow_values<Kernels>) {
    for (int i = 0; i < G::count; ++i) {
      const auto& node = graph.nodes[i];
      if (!node.is_computed() || !fusion.stored[i]) continue;
      if (fusion.absorbed[i]) {
        if (node.operation->kind == Kind::kernel) storage.dtype[i] = node.operation->numbers.result;
        continue;
      }
      if (node.operation->kind == Kind::reduction || node.operation->full_precision) continue;
      if (node.type->batched && node.type->size() > 1 && node.type->dtype == DType::float32)
        storage.dtype[i] = Kernels::activations;
    }
    for (int i = 0; i < G::output_count; ++i)
      if (is_kept(graph.outputs[i].destination)) {
        const int value = fusion.value[graph.outputs[i].node];
        storage.dtype[value] = graph.nodes[value].type->dtype;
      }
  }
  return storage;
}

}  // namespace tenet
