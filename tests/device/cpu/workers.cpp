#include "tenet/device/cpu/workers.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

using tenet::cpu::Workers;

TEST_CASE("every task runs exactly once", "[cpu][workers]") {
  for (int threads : {1, 2, 3, 5}) {
    Workers workers(threads);
    CHECK(workers.size() == threads);
    for (int tasks : {0, 1, 2, 7, 100}) {
      for (int repeat = 0; repeat < 200; ++repeat) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
        std::atomic<bool> strange{false};
        workers.for_each(tasks, [&](int index, int worker) {
          runs[static_cast<std::size_t>(index)]++;
          if (worker < 0 || worker >= threads) strange = true;
        });
        bool once = !strange;
        for (const auto& count : runs) once = once && count == 1;
        if (!once) FAIL("tasks " << tasks << " threads " << threads);
      }
    }
  }
}

TEST_CASE("what tasks wrote is visible after the call, and what came before it inside them", "[cpu][workers]") {
  Workers workers(3);
  std::vector<long> values(64);
  long expected = 0;
  for (long step = 0; step < 500; ++step) {
    expected = step;  // not atomic: the call orders it
    workers.for_each(64, [&](int index, int) { values[static_cast<std::size_t>(index)] += expected; });
  }
  for (long value : values) CHECK(value == 499 * 500 / 2);
}

TEST_CASE("a call from inside a task runs on that task's worker", "[cpu][workers]") {
  Workers workers(3);
  std::atomic<int> inner{0};
  std::atomic<bool> elsewhere{false};
  workers.for_each(20, [&](int, int worker) {
    workers.for_each(5, [&](int, int nested) {
      if (nested != worker) elsewhere = true;
      ++inner;
    });
  });
  CHECK(inner == 100);
  CHECK_FALSE(elsewhere);
}

TEST_CASE("scratch memory is aligned, apart and grows only", "[cpu][workers]") {
  Workers workers(3);
  workers.reserve_scratch(1000);
  float* const before = workers.scratch(0);
  workers.reserve_scratch(10);
  CHECK(workers.scratch(0) == before);
  for (int worker = 0; worker < 3; ++worker) {
    CHECK(reinterpret_cast<std::uintptr_t>(workers.scratch(worker)) % 64 == 0);
    if (worker > 0) CHECK(workers.scratch(worker) - workers.scratch(worker - 1) >= 1000);
    for (int i = 0; i < 1000; ++i) workers.scratch(worker)[i] = static_cast<float>(worker);
  }
  CHECK(workers.scratch(0)[999] == 0);
  CHECK(workers.scratch(1)[0] == 1);
  workers.reserve_scratch(100000);
  workers.scratch(2)[99999] = 1;
}

TEST_CASE("a workspace is what is lent, if that is enough, else grows only", "[cpu][workers]") {
  Workers workers(2);
  CHECK(workers.owned_workspace() == 0);
  std::vector<float> memory(100);
  workers.lend_workspace(memory.data(), 100);
  CHECK(workers.workspace(100) == memory.data());
  CHECK(workers.workspace(7) == memory.data());
  CHECK(workers.owned_workspace() == 0);
  float* const own = workers.workspace(101);
  CHECK(own != memory.data());
  CHECK(reinterpret_cast<std::uintptr_t>(own) % 64 == 0);
  own[100] = 1;
  CHECK(workers.owned_workspace() == 101);
  workers.lend_workspace();
  CHECK(workers.workspace(7) == own);
  workers.reserve_workspace(50);
  CHECK(workers.workspace(50) == own);
  workers.reserve_workspace(5000);
  CHECK(workers.owned_workspace() == 5000);
}

TEST_CASE("a pool of size 0 is as large as the machine allows", "[cpu][workers]") {
  CHECK(tenet::available_processors() >= 1);
  CHECK(Workers().size() == tenet::available_processors());
}

#if defined(__linux__)
TEST_CASE("workers keep to the processors that they are given, and the caller to none", "[cpu][workers]") {
  const tenet::ProcessorSet all = tenet::own_processors();
  const auto processors_of = [](Workers& workers) {
    // Each task waits for the others, so that each worker has one.
    std::vector<tenet::ProcessorSet> found(static_cast<std::size_t>(workers.size()));
    std::atomic<int> here{0};
    workers.for_each(workers.size(), [&](int, int worker) {
      found[static_cast<std::size_t>(worker)] = tenet::own_processors();
      for (++here; here < workers.size();) std::this_thread::yield();
    });
    return found;
  };
  const tenet::ProcessorSet last = tenet::some_processors(all, all.count() - 1, 1);
  Workers bound(3, last), free(3);
  CHECK(processors_of(bound) == std::vector{all, last, last});
  CHECK(processors_of(free) == std::vector{all, all, all});
}
#endif
