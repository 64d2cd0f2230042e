#include "tenet/parallel/replicas.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <set>
#include <tenet/device/cpu.hpp>
#include <tenet/device/reference.hpp>

#include "../support/message.hpp"

#if defined(__linux__)
#include <sys/wait.h>
#include <unistd.h>
#endif

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
      replicas.meet(r, {"values", -1, step});
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
        replicas.meet(r, {"a point that is never reached", -1, 1});
      });
    } catch (const Error& error) {
      message = error.what();
    }
    CHECK(message == "replica: no memory; expected some, found " + std::to_string(failing));
    int sum = 0;  // and they go on
    std::atomic<int> ran{0};
    replicas.run([&](int r) {
      ++ran;
      replicas.meet(r, {"again", -1, 1});
    });
    sum = ran;
    CHECK(sum == 3);
  }
}

namespace {

bool share_one(const ProcessorSet& a, const ProcessorSet& b) {
  for (int i = 0; i < 16; ++i)
    if ((a.bits[i] & b.bits[i]) != 0) return true;
  return false;
}

}  // namespace

TEST_CASE("all replicas but the caller's keep to parts of the processors, and so do their workers", "[replicas]") {
  const ProcessorSet all = own_processors();
  const int count = std::min(all.count(), 3);
  if (count < 2) {
    WARN("skipped: there is one processor only");
    return;
  }
  Replicas<Cpu<0, 3>> replicas(count);
  std::vector<std::vector<ProcessorSet>> of(static_cast<std::size_t>(count), std::vector<ProcessorSet>(4));
  replicas.run([&](int r) {
    auto& sets = of[static_cast<std::size_t>(r)];
    replicas.run_each(r, 3, [&](int task) { sets[static_cast<std::size_t>(task)] = own_processors(); });
    sets[3] = own_processors();
  });
  CHECK(std::memcmp(&of[0][3], &all, sizeof all) == 0);
  for (std::size_t r = 1; r < of.size(); ++r) {
    CHECK(of[r][3].count() == all.count() / count);
    for (const ProcessorSet& of_worker : of[r]) CHECK(std::memcmp(&of_worker, &of[r][3], sizeof all) == 0);
    for (std::size_t other = r + 1; other < of.size(); ++other) CHECK_FALSE(share_one(of[r][3], of[other][3]));
    CHECK_FALSE(share_one(of[r][3], part_of_processors(all, 0, count)));
  }
}

#if defined(__linux__)
TEST_CASE("the caller's thread begins on its part, and may use all processors as before", "[replicas]") {
  const ProcessorSet all = own_processors();
  if (all.count() < 2) {
    WARN("skipped: there is one processor only");
    return;
  }
  Replicas<Reference> replicas(2);
  const ProcessorSet first = part_of_processors(all, 0, 2);
  int there = 0;
  for (int round = 0; round < 20; ++round) {
    keep_to(part_of_processors(all, 1, 2));  // so it is on the other part
    keep_to(all);
    replicas.run([&](int r) {
      if (r == 0) there += first.has(sched_getcpu());
    });
    const ProcessorSet behind = own_processors();
    CHECK(std::memcmp(&behind, &all, sizeof all) == 0);
  }
  CHECK(there > 10);  // the scheduler may have moved it since
}
#endif

TEST_CASE("a replica that ends late has failed, and all go on", "[replicas]") {
  Replicas<Reference> replicas(3, std::chrono::milliseconds(300));
  CHECK(message_of([&] {
          replicas.run([](int r) {
            if (r == 2) std::this_thread::sleep_for(std::chrono::milliseconds(450));
          });
        }) == "replica 0, all tasks: waits for replica 2; expected within 0.3 s, found nothing");
  CHECK(message_of([&] {
          replicas.run([&](int r) {
            if (r == 2) std::this_thread::sleep_for(std::chrono::milliseconds(450));
            replicas.meet(r, {"gradients", -1, 12});
          });
        }).find(", gradients of step 12: waits for replica 2; expected within 0.3 s, found nothing") ==
        std::string("replica 0").size());
  std::atomic<int> ran{0};
  replicas.run([&](int) { ++ran; });
  CHECK(ran == 3);
}

#if defined(__linux__)
TEST_CASE("a replica that never ends ends the process, which says so", "[replicas]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], 2);
    Replicas<Reference> replicas(2, std::chrono::milliseconds(100));
    replicas.run([&](int r) {
      if (r == 1) std::this_thread::sleep_for(std::chrono::hours(1));
      replicas.meet(r, {"gradients", -1, 12});
    });
    _exit(0);
  }
  close(ends[1]);
  std::string said;
  char part[256];
  for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(count));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  CHECK(said.find("replica 0, gradients of step 12: waits for replica 1; expected within 0.1 s, found nothing\n"
                  "replica 1 is still at work: the process ends\n") != std::string::npos);
}
#endif
