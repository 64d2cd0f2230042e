#include "tenet/parallel/replicas.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <tenet/device/cpu.hpp>
#include <tenet/device/reference.hpp>

using namespace tenet;

TEST_CASE("each replica has a thread and an executor of its own", "[replicas]") {
  for (const int count : {1, 2, 3}) {
    Replicas<Cpu<>> replicas(count);
    REQUIRE(replicas.size() == count);
    std::set<void*> executors;
    for (int r = 0; r < count; ++r) executors.insert(&replicas.executor(r));
    CHECK(executors.size() == static_cast<std::size_t>(count));
    std::vector<std::thread::id> threads(static_cast<std::size_t>(count)), again(threads);
    replicas.run([&](int r) { threads[static_cast<std::size_t>(r)] = std::this_thread::get_id(); });
    replicas.run([&](int r) { again[static_cast<std::size_t>(r)] = std::this_thread::get_id(); });
    CHECK(std::set<std::thread::id>(threads.begin(), threads.end()).size() == static_cast<std::size_t>(count));
    CHECK(threads == again);
    CHECK(threads[0] == std::this_thread::get_id());
  }
}

TEST_CASE("replicas share the processors, but where a device says how many threads it has", "[replicas]") {
  const int all = available_processors();
  if (std::getenv("TENET_NUM_THREADS") == nullptr) {
    Replicas<Cpu<>> replicas(2);
    for (int r = 0; r < 2; ++r) CHECK(replicas.executor(r).size() == (all >= 2 ? all / 2 : 1));
  }
  Replicas<Cpu<0, 3>> asked(2);
  for (int r = 0; r < 2; ++r) CHECK(asked.executor(r).size() == 3);
  CHECK(Replicas<Reference>(2).size() == 2);
}

TEST_CASE("replicas meet", "[replicas]") {
  Replicas<Reference> replicas(3);
  std::vector<int> values(3);
  std::atomic<int> wrong{0};
  for (int step = 1; step < 100; ++step) {
    replicas.run([&](int r) {
      values[static_cast<std::size_t>(r)] = step;
      replicas.meet(r, "values");
      for (const int value : values) wrong += value != step;
    });
  }
  CHECK(wrong == 0);
}

TEST_CASE("what one replica throws ends all of them, and is thrown where they were called", "[replicas]") {
  Replicas<Reference> replicas(3);
  for (int failing = 0; failing < 3; ++failing) {
    std::string message;
    try {
      replicas.run([&](int r) {
        if (r == failing) fail("replica", "no memory", "some", r);
        replicas.meet(r, "a point that is never reached");
      });
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message == "replica: no memory; expected some, found " + std::to_string(failing));
    int sum = 0;  // and they go on
    std::atomic<int> ran{0};
    replicas.run([&](int r) {
      ++ran;
      replicas.meet(r, "again");
    });
    sum = ran;
    CHECK(sum == 3);
  }
}
