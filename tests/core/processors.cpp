#include "tenet/core/processors.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("a thread keeps to its part of the processors, and so do those that it starts", "[processors]") {
  const int all = available_processors();
  REQUIRE(all >= 1);
  for (int parts : {1, 2, 3}) {
    for (int part = 0; part < parts; ++part) {
      int share = -1, own = -1, inherited = -1;
      std::thread([&] {
        share = keep_to_part(part, parts);
        own = available_processors();
        std::thread([&] { inherited = available_processors(); }).join();
      }).join();
      CAPTURE(parts, part, share, own, all);
      if (share == 0) CHECK(own == all);  // more parts than processors
      if (share > 0) CHECK((own <= share && own >= 1));
      CHECK(inherited == own);
    }
  }
  CHECK(available_processors() == all);
}

TEST_CASE("processors of a set are counted", "[processors]") {
  CHECK(available_processors(ProcessorSet{}) == 1);  // something runs
  const ProcessorSet own = own_processors();
  const int all = available_processors();
  CHECK(available_processors(own) == all);
  ProcessorSet two, one, both;
  two.bits[0] = 0b101;
  one.bits[0] = 0b100;
  both.add(one);
  CHECK(available_processors(both) == 1);
  both.add(two);
  CHECK(both.bits[0] == 0b101);
  CHECK(both.count() == 2);
  both = own;
  both.add(own);
  CHECK(available_processors(both) == all);
}

TEST_CASE("parts of a set are as large as each other, in its order, and there are none of too few", "[processors]") {
  ProcessorSet all;
  for (const int processor : {1, 3, 64, 70, 1023}) all.add(processor);
  CHECK((all.has(64) && all.has(1023) && !all.has(2)));
  const ProcessorSet first = part_of_processors(all, 0, 2), second = part_of_processors(all, 1, 2);
  CHECK((first.count() == 2 && first.has(1) && first.has(3)));
  CHECK((second.count() == 2 && second.has(64) && second.has(70)));
  CHECK(part_of_processors(all, 0, 6).count() == 0);
}

TEST_CASE("some of a set are those behind the first ones, and none where there are too few", "[processors]") {
  ProcessorSet all, middle;
  for (const int processor : {1, 3, 64, 70, 1023}) all.add(processor);
  for (const int processor : {3, 64, 70}) middle.add(processor);
  CHECK(some_processors(all, 1, 3) == middle);
  CHECK(some_processors(all, 0, 5) == all);
  CHECK(some_processors(all, 4, 1).has(1023));
  CHECK(some_processors(all, 3, 3) == ProcessorSet{});
  CHECK(some_processors(all, 6, 0) == ProcessorSet{});
}

#if defined(__linux__)
TEST_CASE("a thread moves to others of its processors, and keeps them all", "[processors]") {
  std::thread([] {
    const ProcessorSet all = own_processors();
    for (int processor = 0, there = 0; processor < 1024; ++processor) {
      if (!all.has(processor)) continue;
      ProcessorSet one;
      one.add(processor);
      for (int i = 0; i < 20; ++i) {
        move_to(one);
        there += one.has(sched_getcpu());
      }
      CAPTURE(processor, there);
      CHECK(there > 10);  // the scheduler may have moved it since
      there = 0;
      const ProcessorSet behind = own_processors();
      CHECK(std::memcmp(&behind, &all, sizeof all) == 0);
    }
    // Not to those that it may not use.
    const ProcessorSet first = part_of_processors(all, 0, all.count());
    if (all.count() < 2 || !keep_to(first)) return;
    move_to(part_of_processors(all, 1, all.count()));
    const ProcessorSet behind = own_processors();
    CHECK(std::memcmp(&behind, &first, sizeof all) == 0);
  }).join();
}

TEST_CASE("parts do not overlap", "[processors]") {
  cpu_set_t seen;
  CPU_ZERO(&seen);
  constexpr int parts = 2;
  for (int part = 0; part < parts; ++part) {
    cpu_set_t own;
    CPU_ZERO(&own);
    int share = 0;
    std::thread([&] {
      share = keep_to_part(part, parts);
      sched_getaffinity(0, sizeof own, &own);
    }).join();
    if (share == 0) return;  // one processor
    CHECK(CPU_COUNT(&own) == share);
    cpu_set_t both;
    CPU_AND(&both, &own, &seen);
    CHECK(CPU_COUNT(&both) == 0);
    CPU_OR(&seen, &own, &seen);
  }
}

TEST_CASE("a thread asks for short turns, and keeps all else", "[processors]") {
  const int nice = getpriority(PRIO_PROCESS, 0), scheduler = sched_getscheduler(0);
  bool granted = false;
  int found_nice = -100, found_scheduler = -1;
  std::thread([&] {
    granted = ask_for_short_turns();
    found_nice = getpriority(PRIO_PROCESS, 0);
    found_scheduler = sched_getscheduler(0);
  }).join();
  if (granted) CHECK(scheduler == SCHED_OTHER);  // before Linux 6.12 it is granted as well, and means nothing
  CHECK(found_nice == nice);
  CHECK(found_scheduler == scheduler);
}
#endif
