#pragma once

#include <tenet/core/tensor_type.hpp>

namespace tenet {

/// What a slot of a network is: its parameters, buffers, counters of training steps, and layers without
/// any of them are numbered in the order of members.
enum class SlotKind : unsigned char { parameter, buffer, counter, marker };

/// Floats that an allocation is rounded up to: one 64-byte line, so that no two tensors share one.
inline constexpr long arena_granule = 16;
constexpr long rounded_up(long floats) { return (floats + arena_granule - 1) / arena_granule * arena_granule; }

struct SlotInfo {
  SlotKind kind = SlotKind::marker;
  const TensorInfo* type = nullptr;
  long offset = 0;                                                ///< in the arena of the parameters, or of the buffers
  void (*initialize)(float*, long size, void* random) = nullptr;  ///< fills it before training
  bool sparse = false;  ///< a table of which a training step reads and updates only the rows that its tokens choose
};

/// All slots of a network. Parameters lie one after the other in their arena, gradients and each optimizer state
/// likewise in theirs, so that an update is one loop and a gradient bucket one range. Sparse tables lie behind all
/// others, for that loop to end before them.
template <int Count>
struct SlotTable {
  static constexpr int count = Count;
  SlotInfo slots[Count > 0 ? Count : 1]{};
  long parameter_floats = 0;  ///< with the padding between tensors
  long buffer_floats = 0;
  long parameter_count = 0;  ///< numbers that are trained
  long dense_floats = 0;     ///< those of `parameter_floats` that belong to no sparse table
  int table_count = 0;       ///< sparse tables

  constexpr void lay_out() {
    lay_out(false);
    dense_floats = parameter_floats;
    if (table_count > 0) lay_out(true);
  }

 private:
  constexpr void lay_out(bool sparse) {
    for (int i = 0; i < Count; ++i) {
      SlotInfo& slot = slots[i];
      if (slot.kind == SlotKind::marker || slot.kind == SlotKind::counter) continue;
      if (slot.sparse != sparse) {
        table_count += slot.sparse;
        continue;
      }
      long& top = slot.kind == SlotKind::parameter ? parameter_floats : buffer_floats;
      slot.offset = top;
      top += rounded_up(slot.type->size());
      if (slot.kind == SlotKind::parameter) parameter_count += slot.type->size();
    }
  }
};

}  // namespace tenet
