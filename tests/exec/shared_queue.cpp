#include "tenet/exec/shared_queue.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <tenet/core/wait_until.hpp>
#include <tuple>

using namespace tenet;
using namespace std::chrono_literals;

namespace {

const DeviceRange first{"test", 0, 1}, second{"test", 1, 1}, both{"test", 0, 2};

/// Closed until it is opened.
struct Gate {
  std::atomic<bool> is_open{false};
  void pass() {
    if (!wait_until([&] { return is_open.load(); }, 60s)) std::abort();
  }
};

}  // namespace

TEST_CASE("a device has one queue, which ends with the last who has it", "[shared_queue]") {
  auto queue = SharedQueue::of("test", 0);
  CHECK(SharedQueue::of("test", 0) == queue);
  CHECK(SharedQueue::of("test", 1) != queue);
  CHECK(SharedQueue::of("other", 0) != queue);
  std::weak_ptr<SharedQueue> seen = queue;
  {
    const OwnTasks own(first), alone(first, true);
    queue.reset();
    CHECK_FALSE(seen.expired());
  }
  CHECK(seen.expired());
}

TEST_CASE("what several submit runs on the device's thread in the order of submission", "[shared_queue]") {
  std::vector<int> ran;
  std::vector<std::thread::id> threads;
  {
    OwnTasks a(first), b(first);
    for (int i = 0; i < 500; ++i)
      (i % 3 == 0 ? a : b).submit([&, i] {
        ran.push_back(i);
        threads.push_back(std::this_thread::get_id());
      });
  }  // whoever ends waits for his own
  REQUIRE(ran.size() == 500);
  for (int i = 0; i < 500; ++i) CHECK(ran[static_cast<std::size_t>(i)] == i);
  CHECK(std::count(threads.begin(), threads.end(), threads[0]) == 500);
  CHECK(threads[0] != std::this_thread::get_id());
}

TEST_CASE("queues of two devices run at once", "[shared_queue]") {
  Gate one, two;
  OwnTasks a(first), b(second);
  a.submit([&] { one.is_open = true, two.pass(); });  // each waits for the other
  b.submit([&] { two.is_open = true, one.pass(); });
  a.wait();
  b.wait();
  CHECK((one.is_open && two.is_open));
}

TEST_CASE("who waits does so for his own tasks, and not for those behind", "[shared_queue]") {
  Gate gate;
  std::atomic<int> ran{0};
  OwnTasks others(first);
  {
    OwnTasks own(first);
    own.submit([&] { ++ran; });
    others.submit([&] { gate.pass(), ++ran; });
  }
  CHECK(ran == 1);
  gate.is_open = true;
  others.wait();
  CHECK(ran == 2);
}

TEST_CASE("a task of two devices has both for itself, in its place of each one's order", "[shared_queue]") {
  Gate gate;
  std::atomic<bool> runs{false};
  std::atomic<int> before{0}, wrong{0};
  OwnTasks a(first), b(second), together(both);
  b.submit([&] { gate.pass(), ++before; });
  a.submit([&] { ++before; });
  for (int i = 0; i < 300; ++i) {
    together.submit([&] {
      const QueueMeeting::All all(together.meeting());
      wrong += before < 2;
      runs = true;
      for (int k = 0; k < 100; ++k) tenet::pause();
      runs = false;
    });
    const auto beside = [&] { wrong += runs; };
    a.submit(beside);
    b.submit(beside);
    if (i == 0) {
      a.submit([&] { before += 10; });
      std::this_thread::sleep_for(20ms);
      CHECK(before == 1);  // the first device waits for the second one's gate
      gate.is_open = true;
    }
  }
  together.wait();
  a.wait();
  b.wait();
  CHECK(wrong == 0);
  CHECK(before == 12);
}

TEST_CASE("tasks of devices in all combinations never wait for each other", "[shared_queue]") {
  // Three devices, and threads that submit what runs on one, two or three of them.
  constexpr std::array ranges{DeviceRange{"test", 0, 2}, DeviceRange{"test", 1, 2}, DeviceRange{"test", 0, 3},
                              DeviceRange{"test", 2, 1}};
  std::array<std::atomic<int>, 3> busy{};
  std::atomic<int> wrong{0}, ran{0};
  std::vector<std::thread> threads;
  for (const DeviceRange& range : ranges)
    threads.emplace_back([&, range] {
      OwnTasks own(range);
      for (int i = 0; i < 400; ++i)
        own.submit([&] {
          const QueueMeeting::All all(own.meeting());
          for (int d = range.first; d < range.first + range.count; ++d)
            wrong += busy[static_cast<std::size_t>(d)].fetch_add(1) != 0;
          ++ran;
          for (int d = range.first; d < range.first + range.count; ++d) --busy[static_cast<std::size_t>(d)];
        });
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(ran == 1600);
}

TEST_CASE("a queue holds no more tasks, and no more bytes, than its limits, whoever submits", "[shared_queue]") {
  const auto [bytes, fit] = GENERATE(std::tuple{0L, 64}, std::tuple{100L << 20, 10});
  Gate gate;
  std::atomic<int> submitted{0};
  {
    OwnTasks holds(first);
    holds.submit([&] { gate.pass(); }, bytes);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&, size = bytes] {
        OwnTasks own(first);
        for (int i = 0; i < 40; ++i, ++submitted) own.submit([] {}, size);
      });
    wait_until([&, most = fit] { return submitted >= most - 1; }, 60s);
    std::this_thread::sleep_for(20ms);
    CHECK(submitted == fit - 1);
    gate.is_open = true;
    for (std::thread& thread : threads) thread.join();
  }
  CHECK(submitted == 80);
}

#if defined(__linux__)
TEST_CASE("a queue's thread goes on where a task says, and everywhere again", "[shared_queue]") {
  const ProcessorSet all = own_processors();
  const ProcessorSet last = some_processors(all, all.count() - 1, 1);
  OwnTasks own(first);
  const auto processors_at = [&](const ProcessorSet& wanted) {
    ProcessorSet found;
    own.submit([&] {
      own.queue().go_on_at(wanted);
      found = own_processors();
    });
    own.wait();
    return found;
  };
  CHECK(processors_at({}) == all);
  CHECK(processors_at(last) == last);
  CHECK(processors_at(last) == last);
  CHECK(processors_at({}) == all);
  CHECK(processors_at(last) == last);
  CHECK(own_processors() == all);  // nobody else's thread
}
#endif
