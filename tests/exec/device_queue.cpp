#include "tenet/exec/device_queue.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <tenet/core/wait_until.hpp>

#include "../support/message.hpp"

using namespace tenet;
using namespace std::chrono_literals;

TEST_CASE("tasks run in their order, on another thread", "[device_queue]") {
  for (const int spins : {4000, 0}) {  // whoever waits does so awake, or asleep
    CAPTURE(spins);
    std::vector<int> ran;
    const auto here = std::this_thread::get_id();
    int elsewhere = 0;
    {
      DeviceQueue queue({.tasks = 3, .spins = spins});
      for (int i = 0; i < 500; ++i) {
        queue.submit([&, i] {
          ran.push_back(i);
          elsewhere += std::this_thread::get_id() != here;
        });
        if (i % 100 == 50) {
          queue.synchronize();
          CHECK(ran.size() == static_cast<std::size_t>(i) + 1);  // all of them, and visible
          CHECK(queue.waiting() == 0);
        }
      }
    }  // the rest runs before the queue ends
    REQUIRE(ran.size() == 500);
    for (int i = 0; i < 500; ++i) CHECK(ran[static_cast<std::size_t>(i)] == i);
    CHECK(elsewhere == 500);
  }
}

TEST_CASE("whoever submits goes on at once, until the queue is full", "[device_queue]") {
  std::atomic<bool> open{false};
  std::atomic<int> submitted{0};
  DeviceQueue queue({.tasks = 4, .bytes = 100});
  const auto wait = [&] {
    while (!open) std::this_thread::sleep_for(1ms);
  };
  // The first one runs, and counts as long as it does.
  std::thread front([&] {
    for (int i = 0; i < 6; ++i) {
      queue.submit(wait);
      ++submitted;
    }
  });
  wait_until([&] { return submitted == 4; }, 60s);
  std::this_thread::sleep_for(20ms);
  CHECK(submitted == 4);
  CHECK(queue.waiting() == 4);
  open = true;
  front.join();
  queue.synchronize();
  CHECK(submitted == 6);

  // Bytes: 60 fit, another 60 do not; a task of more than the limit runs alone.
  open = false;
  submitted = 0;
  std::thread other([&] {
    for (const long bytes : {60, 60, 500, 10}) {
      queue.submit(wait, bytes);
      ++submitted;
    }
  });
  wait_until([&] { return submitted == 1; }, 60s);
  std::this_thread::sleep_for(20ms);
  CHECK(submitted == 1);
  open = true;
  other.join();
  queue.synchronize();
  CHECK(submitted == 4);
}

TEST_CASE("what is appended runs when the queue is woken, or when somebody waits for it", "[device_queue]") {
  std::atomic<int> ran{0};
  const auto count = [&] { ++ran; };
  DeviceQueue queue({.tasks = 4, .spins = 0});
  const auto fall_asleep = [] { std::this_thread::sleep_for(50ms); };
  fall_asleep();
  queue.append(count);
  queue.append(count);
  fall_asleep();
  CHECK(ran == 0);
  queue.wake();
  CHECK(wait_until([&] { return ran == 2; }, 20s));

  fall_asleep();
  queue.append(count);
  queue.synchronize();
  CHECK(ran == 3);

  fall_asleep();
  for (int i = 0; i < 10; ++i) queue.append(count);  // of which four have room
  queue.synchronize();
  CHECK(ran == 13);

  fall_asleep();
  queue.append(count);
  queue.submit(count);  // wakes it for both
  CHECK(wait_until([&] { return ran == 15; }, 20s));
}

TEST_CASE("whoever has waited for room submits at once", "[device_queue]") {
  std::atomic<bool> open{false};
  std::atomic<int> rooms{0};
  DeviceQueue queue({.tasks = 3, .bytes = 100});
  const auto wait = [&] {
    while (!open) std::this_thread::sleep_for(1ms);
  };
  queue.wait_for_room(500);  // nothing is queued
  queue.submit(wait, 60);
  queue.wait_for_room(40);
  std::thread other([&] {
    queue.wait_for_room(41);
    rooms = queue.waiting() == 0 ? 1 : -1;
  });
  std::this_thread::sleep_for(20ms);
  CHECK(rooms == 0);
  open = true;
  other.join();
  CHECK(rooms == 1);
}

TEST_CASE("what a task keeps alive ends with it", "[device_queue]") {
  DeviceQueue queue;
  const auto kept = std::make_shared<int>(1);
  queue.submit([copy = kept] { static_cast<void>(*copy); });
  queue.synchronize();
  CHECK(kept.use_count() == 1);
}

TEST_CASE("a failure comes out of the next synchronize, and which task it was", "[device_queue]") {
  DeviceQueue queue;
  CHECK(message_of([&] { queue.synchronize(); }).empty());
  int ran = 0;
  queue.submit([&] { ++ran; });
  queue.submit([] { fail("step", "something is wrong", "1", 2); });
  for (int i = 0; i < 10; ++i) queue.submit([&] { ++ran; });  // skipped
  CHECK(message_of([&] { queue.synchronize(); }) == "step: something is wrong; expected 1, found 2");
  CHECK(queue.failed_task() == 2);
  CHECK(ran == 1);
  queue.submit([&] { ++ran; });  // it goes on
  CHECK(message_of([&] { queue.synchronize(); }).empty());
  CHECK(ran == 2);
}

TEST_CASE("what is to run first runs before all tasks, on the queue's thread", "[device_queue]") {
  std::thread::id first, task;
  DeviceQueue queue({}, [&] { first = std::this_thread::get_id(); });
  queue.submit([&] {
    task = std::this_thread::get_id();
    CHECK(first == task);
  });
  queue.synchronize();
  CHECK(first == task);
}

TEST_CASE("one task can be waited for", "[device_queue]") {
  std::atomic<bool> go_on{false};
  std::atomic<int> ran{0};
  DeviceQueue queue;
  queue.submit([&] { ++ran; });
  const unsigned first = queue.submitted();
  queue.submit([&] {
    while (!go_on) std::this_thread::yield();
    ++ran;
  });
  const unsigned second = queue.submitted();
  queue.synchronize(first);  // the second one still runs
  CHECK(queue.has_run(first));
  CHECK_FALSE(queue.has_run(second));
  CHECK(ran == 1);
  go_on = true;
  queue.synchronize(second);
  CHECK(ran == 2);
  queue.submit([] { throw std::runtime_error("third"); });
  const unsigned third = queue.submitted();
  CHECK_THROWS_WITH(queue.synchronize(third), "third");
}
