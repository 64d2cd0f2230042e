#include "tenet/graph/slots.hpp"

#include <catch2/catch.hpp>

#include "../support/networks.hpp"

using namespace tenet;

namespace {
static_assert(rounded_up(0) == 0 && rounded_up(1) == 16 && rounded_up(16) == 16 && rounded_up(17) == 32);

struct Empty {
  constexpr auto forward(auto x) const { return x; }
};
static_assert(slot_count<Empty> == 0 && slot_table<Empty>.parameter_floats == 0);

struct Tables {
  Embedding<5, 3, Sparse> first;
  Linear<2, 2> linear;
  Embedding<9, 2, Sparse> second;
};
static_assert(slot_table<networks::Residual>.dense_floats == slot_table<networks::Residual>.parameter_floats);
}  // namespace

TEST_CASE("sparse tables lie behind all other parameters") {
  constexpr const auto& table = slot_table<Tables>;
  CHECK(table.table_count == 2);
  CHECK(table.dense_floats == 32);
  CHECK(table.parameter_floats == 32 + 16 + 32);
  CHECK(table.parameter_count == 15 + 6 + 18);
  const long offsets[]{32, 0, 16, 48};
  for (int i = 0; i < 4; ++i) {
    CHECK(table.slots[i].offset == offsets[i]);
    CHECK(table.slots[i].sparse == (i == 0 || i == 3));
  }
}

TEST_CASE("slots lie one after the other in their arena, each on a line of its own") {
  constexpr const auto& table = slot_table<networks::Residual>;
  long parameters = 0, buffers = 0, numbers = 0;
  for (const SlotInfo& slot : table.slots) {
    if (slot.kind == SlotKind::counter || slot.kind == SlotKind::marker) continue;
    long& top = slot.kind == SlotKind::parameter ? parameters : buffers;
    CHECK(slot.offset == top);
    CHECK(slot.offset % arena_granule == 0);
    top += rounded_up(slot.type->size());
    if (slot.kind == SlotKind::parameter) numbers += slot.type->size();
  }
  CHECK(table.parameter_floats == parameters);
  CHECK(table.buffer_floats == buffers);
  CHECK(table.parameter_count == numbers);
  CHECK(numbers == 4 * 2 * 9 + 4 + 4 * 4 * 9 + 4 + 2 * 8 + 15);
}
