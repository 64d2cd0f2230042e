#include "tenet/exec/turns.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

namespace {

MemoryAccess read_of(int step, long at) { return {step, Arena::fixed, false, at, at + 1}; }
MemoryAccess write_of(int step, long at) { return {step, Arena::fixed, true, at, at + 1}; }

std::vector<std::pair<int, int>> waits_before(const DeviceTurns& turns, int step) {
  std::vector<std::pair<int, int>> result;
  for (const Turn& turn : turns.turns)
    for (int w = turn.first_wait; turn.step == step && w < turn.first_wait + turn.waits; ++w)
      result.emplace_back(turns.waits[static_cast<std::size_t>(w)].device,
                          turns.waits[static_cast<std::size_t>(w)].step);
  return result;
}
using Pairs = std::vector<std::pair<int, int>>;

}  // namespace

TEST_CASE("a step waits for those of other devices that use its memory, and for none twice", "[exec][turns]") {
  // Device 0 writes a and b, device 1 reads both, device 2 reads what it makes of them.
  const std::vector<MemoryAccess> accesses{write_of(0, 0), write_of(1, 1),  read_of(2, 0), read_of(2, 1),
                                           write_of(2, 2), read_of(3, 2),   read_of(3, 0), write_of(3, 3),
                                           write_of(4, 0), write_of(5, 100)};
  const std::vector<int> device{0, 0, 1, 2, 0, 1};
  const auto turns = turns_of(accesses, device, 3);
  CHECK(waits_before(turns[0], 0).empty());
  CHECK(waits_before(turns[0], 1).empty());
  CHECK(waits_before(turns[1], 2) == Pairs{{0, 1}});
  CHECK(waits_before(turns[2], 3) == Pairs{{1, 2}});  // with it for step 0
  CHECK(waits_before(turns[0], 4) == Pairs{{2, 3}});  // the last reader, and with it the one before
  CHECK(waits_before(turns[1], 5).empty());
}

TEST_CASE("all devices meet around a step that they share", "[exec][turns]") {
  const std::vector<MemoryAccess> accesses{write_of(0, 0), write_of(1, 1), read_of(2, 0),
                                           read_of(2, 1),  write_of(2, 2), read_of(3, 2)};
  const auto turns = turns_of(accesses, std::vector<int>{0, 1, on_all_devices, 1}, 2);
  CHECK(waits_before(turns[0], 2) == Pairs{{1, 1}});
  CHECK(waits_before(turns[1], 2) == Pairs{{0, 0}});
  CHECK(waits_before(turns[1], 3) == Pairs{{0, 2}});
  CHECK(turns[0].turns.size() == 2);
  CHECK(turns[1].turns.size() == 3);
}

TEST_CASE("a turn begins when its device is free and what it waits for has ended", "[exec][turns]") {
  // Device 0: steps 0, 1 and 4; device 1: step 2, which waits for 0, and its part of 4; step 3, which is its own.
  const std::vector<DeviceTurns> turns{{{{0, 0, 0}, {1, 0, 0}, {4, 0, 1}}, {{1, 2}}},
                                       {{{2, 0, 1}, {3, 1, 0}, {4, 1, 1}}, {{0, 0}, {0, 1}}}};
  const double seconds[2][5]{{1, 7, 0, 0, 2}, {0, 0, 3, 4, 5}};
  const auto found = timed_turns(turns, 0.5, [&](int device, int step) { return seconds[device][step]; });
  std::vector<std::array<double, 4>> as_numbers;
  for (const TimedTurn& turn : found)
    as_numbers.push_back({static_cast<double>(turn.device), static_cast<double>(turn.step), turn.begin, turn.end});
  CHECK(as_numbers == std::vector<std::array<double, 4>>{{0, 0, 0, 1},
                                                         {0, 1, 1, 8},
                                                         {1, 2, 1.5, 4.5},  // step 0 has ended at 1
                                                         {1, 3, 4.5, 8.5},
                                                         {0, 4, 8, 10},        // step 2 has ended long before
                                                         {1, 4, 8.5, 13.5}});  // step 1 has ended at 8
  CHECK(timed_turns(std::vector<DeviceTurns>(2), 1, [](int, int) { return 1.0; }).empty());
}
