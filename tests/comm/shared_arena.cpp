#include "tenet/comm/shared_arena.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>

#include "../support/processes.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

bool exists(const std::string& name) { return std::filesystem::exists("/dev/shm" + name); }

/// What processes throw that make an arena of `bytes` each; those with a negative number make none.
std::vector<std::string> connected(const std::string& name, std::vector<long> bytes, SharedArena::Limit limit = 60s) {
  const int size = static_cast<int>(bytes.size());
  processes::Started started(size, [&](int rank) {
    const long own = bytes[static_cast<std::size_t>(rank)];
    if (own >= 0) SharedArena(name, rank, size, own, limit);
    return std::vector<float>();
  });
  return started.messages();
}

}  // namespace

TEST_CASE("all see the same memory, and what one adds to it", "[shared_arena]") {
  const std::string name = processes::new_name();
  processes::Started started(3, [&](int rank) {
    SharedArena arena(name, rank, 3, 1000, 60s);
    if (exists(name)) fail("arena", "has its name", "none when all have come", name);
    auto& offsets = *reinterpret_cast<std::array<std::atomic<long>, 4>*>(arena.data());
    float* const own = arena.more(10'000 * (1 + rank));
    std::fill_n(own, 10'000 * (1 + rank), static_cast<float>(rank));
    offsets[static_cast<std::size_t>(rank)] = arena.offset_of(own);
    ++offsets[3];
    while (offsets[3] < 3) std::this_thread::yield();
    std::vector<float> found;
    for (int other = 0; other < 3; ++other) {
      const auto* const numbers = reinterpret_cast<float*>(arena.at(offsets[static_cast<std::size_t>(other)]));
      if (!arena.holds(numbers)) fail("arena", "does not hold what lies in it", "true", "false");
      found.push_back(
          static_cast<float>(std::count(numbers, numbers + 10'000 * (1 + other), static_cast<float>(other))));
    }
    if (arena.holds(found.data()) || arena.holds(nullptr)) fail("arena", "holds what lies elsewhere", "false", "true");
    if (reinterpret_cast<std::uintptr_t>(own) % 64 != 0) fail("arena", "not aligned", "64", "other");
    return found;
  });
  for (const auto& outcome : started.outcomes()) {
    CHECK(outcome.message == "");
    CHECK(outcome.numbers == std::vector<float>{10'000, 20'000, 30'000});
  }
}

TEST_CASE("the processors of all ranks are counted, also where each keeps to its own", "[shared_arena]") {
  const int all = available_processors();
  for (const bool keep : {false, true}) {
    const std::string name = processes::new_name();
    processes::Started started(2, [&](int rank) {
      const int share = keep ? keep_to_part(rank, 2) : 0;
      SharedArena arena(name, rank, 2, 0, 60s);
      return std::vector<float>{static_cast<float>(arena.processors()), static_cast<float>(share)};
    });
    for (const auto& outcome : started.outcomes()) {
      CHECK(outcome.message == "");
      REQUIRE(outcome.numbers.size() == 2);
      const float share = outcome.numbers[1];
      CHECK(outcome.numbers[0] == (share > 0 ? std::min(2 * share, static_cast<float>(all)) : static_cast<float>(all)));
    }
  }
}

TEST_CASE("a rank that has left, and one whose process has ended, are gone", "[shared_arena]") {
  const std::string name = processes::new_name();
  processes::Started started(4, [&](int rank) {
    SharedArena arena(name, rank, 4, 0, 60s);
    if (rank == 1) raise(SIGKILL);
    if (rank == 2) return std::vector<float>();
    if (rank == 3) {  // is there until all has been looked at
      if (!wait_until([&] { return arena.is_gone(0); }, 20s, 0)) fail("arena", "who is gone", "rank 0", "not");
      return std::vector<float>();
    }
    const bool gone = wait_until([&] { return arena.is_gone(1) && arena.is_gone(2); }, 20s, 0);
    if (!gone || arena.is_gone(0) || arena.is_gone(3)) fail("arena", "who is gone", "1 and 2", "others");
    if (arena.has_left(1) || !arena.has_left(2)) fail("arena", "who has left", "2", "another");
    return std::vector<float>();
  });
  CHECK(started.messages() == std::vector<std::string>{"", "signal 9", "", ""});
}

TEST_CASE("a rank that does not come is named, and no name is left", "[shared_arena]") {
  std::string name = processes::new_name();
  std::string where = ", shared memory " + name + ": waits for rank ";
  CHECK(connected(name, {64, -1}, 100ms) ==
        std::vector<std::string>{"rank 0" + where + "1; expected within 100 ms, found nothing", ""});
  CHECK(!exists(name));
  CHECK(connected(name, {-1, 64}, 100ms) ==
        std::vector<std::string>{"", "rank 1" + where + "0; expected within 100 ms, found nothing"});

  name = processes::new_name();
  processes::Started started(2, [&](int rank) {
    if (rank == 0)
      SharedArena(name, rank, 3, 64, 60s);
    else
      std::this_thread::sleep_for(60s);
    return std::vector<float>();
  });
  while (!exists(name)) std::this_thread::yield();
  std::this_thread::sleep_for(100ms);
  started.send(0, SIGKILL);  // with its name: who comes later sees that it has ended
  processes::Started late(1, [&](int) {
    SharedArena(name, 2, 3, 64, 60s);
    return std::vector<float>();
  });
  CHECK(late.messages(20s)[0] == "rank 2, shared memory " + name +
                                     ": waits for rank 1; expected it, found that the process of "
                                     "rank 0 has ended");
  CHECK(!exists(name));
}

TEST_CASE("ranks that do not fit together are told so", "[shared_arena]") {
  std::string name = processes::new_name();
  const auto messages = connected(name, {64, 128}, 500ms);
  CHECK(messages[1] ==
        "rank 1, shared memory " + name + ": made by rank 0 for other ranks; expected 576 bytes, found 512");
  CHECK(!exists(name));
  name = processes::new_name();
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, S_IRUSR | S_IWUSR);
  CHECK(connected(name, {64}) == std::vector<std::string>{"rank 0, shared memory " + name +
                                                          ": cannot be made; expected a name that no other job has, "
                                                          "found File exists"});
  CHECK(exists(name));  // it is another's
  close(file);
  shm_unlink(name.c_str());
  processes::Started twice(3, [&](int process) {  // two are told that they are rank 1
    SharedArena(name, process == 0 ? 0 : 1, 3, 64, 500ms);
    return std::vector<float>();
  });
  const auto found = twice.messages();
  CHECK(std::count_if(found.begin(), found.end(), [&](const std::string& message) {
          return message.starts_with("rank 1, shared memory " + name +
                                     ": cannot be entered; expected one process for rank 1");
        }) == 1);
  CHECK(connected(name, {1L << 37})[0].find("is full") != std::string::npos);
  CHECK(!exists(name));
}

TEST_CASE("whether there is room is known before others wait for it, and nothing is left behind", "[shared_arena]") {
  const std::string name = processes::new_name();
  CHECK(SharedArena::has_room(name, 2, 1000));
  CHECK(!exists(name));
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{1 << 12, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &little);
  const bool has_room = SharedArena::has_room(name, 2, 1 << 20);
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(!has_room);
  CHECK(!exists(name));
}
