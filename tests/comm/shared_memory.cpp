#include "tenet/comm/shared_memory.hpp"

#include <filesystem>
#include <fstream>
#include <tenet/comm/collectives.hpp>

#include "../support/collectives.hpp"
#include "../support/doorbells.hpp"
#include "../support/network.hpp"
#include "../support/processes.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

/// Names of shared memory of this process's tests that the system still knows.
int left_behind() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    count += entry.path().filename().string().starts_with("tenet-test-" + std::to_string(getpid()) + "-");
  return count;
}

/// Milliseconds that call() takes.
template <class Call>
double milliseconds_of(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

const auto use_nothing = [](const float*, long, long) {};

}  // namespace

TEST_CASE("messages of all lengths arrive between processes, in order", "[shared_memory]") {
  constexpr long many = TENET_TEST_SANITIZED ? 20'000 : 200'000;  // of several segments
  for (const int size : {2, 3, 4}) {
    processes::run_well(size, [](SharedMemoryTransport& transport) {
      const int n = transport.size(), next = (transport.rank() + 1) % n, previous = (transport.rank() + n - 1) % n;
      int step = 0;
      for (const long floats : {0L, 1L, 1000L, 4095L, 4096L, 4097L, many}) {
        for (int turn = 0; turn < 3; ++turn, ++step) {
          std::vector<std::vector<float>> sent;
          for (int m = 0; m < 3; ++m) {  // all before the first is received: more than there is room for
            sent.push_back(network::numbers(floats, static_cast<std::uint64_t>(100 * m + transport.rank())));
            transport.send(next, sent.back().data(), floats, {"message", m, step});
          }
          for (int m = 0; m < 3; ++m) {
            const auto expected = network::numbers(floats, static_cast<std::uint64_t>(100 * m + previous));
            long seen = 0, wrong = 0;
            transport.receive(previous, floats, {"message", m, step}, [&](const float* part, long first, long count) {
              wrong += first != seen;
              for (long i = 0; i < count; ++i) wrong += part[i] != expected[static_cast<std::size_t>(first + i)];
              seen += count;
            });
            if (wrong != 0 || seen != floats)
              fail("receive", "wrong numbers", std::to_string(floats), std::to_string(wrong));
          }
          transport.finish();
        }
      }
    });
  }
}

TEST_CASE("both send much before they receive", "[shared_memory]") {
  constexpr long floats = 3'000'000;
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    const int other = 1 - transport.rank();
    const std::vector<float> sent(floats, static_cast<float>(transport.rank()));
    std::vector<float> found(floats, -1);
    transport.send(other, sent.data(), floats, {"much", 0, 0});
    transport.receive_into(other, found.data(), floats, {"much", 0, 0});
    transport.finish();
    if (std::count(found.begin(), found.end(), static_cast<float>(other)) != floats)
      fail("receive", "wrong numbers", std::to_string(other), "others");
  });
}

TEST_CASE("collectives over processes", "[shared_memory]") {
  const auto collect = [](int count, auto body) { return processes::collect(count, body); };
  for (const int size : {1, 2, 3, 4}) {
    for (const long floats : {1L, 100L, 5000L, TENET_TEST_SANITIZED ? 30'000L : 300'000L}) {
      const auto check = [&](auto reduce) { collectives::check_all_reduce(collect, size, floats, reduce); };
      check([](auto&&... arguments) { all_reduce(arguments...); });
      check([](auto&&... arguments) { all_reduce_by_ring(arguments...); });
      check([](auto&&... arguments) { all_reduce_by_doubling(arguments...); });
      if (size != 3) check([](auto&&... arguments) { all_reduce_by_halving(arguments...); });
    }
    const auto found = collect(size, [](auto& transport) {
      std::vector<float> data = collectives::numbers_of(transport.rank(), 37);
      broadcast(transport, transport.size() - 1, data.data(), 37, {"parameters", 0, 0});
      barrier(transport, {"barrier", 0, 1});
      return data;
    });
    for (const auto& of_rank : found) CHECK(of_rank == collectives::numbers_of(size - 1, 37));
  }
}

TEST_CASE("numbers that lie in the shared memory are read where they are", "[shared_memory]") {
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    constexpr long floats = 100'000;
    const int other = 1 - transport.rank();
    for (int turn = 0; turn < 2; ++turn) {
      float* const data = transport.memory(floats);
      if (std::count(data, data + floats, 0.0f) != floats) fail("memory", "not zero", "0", "others");
      std::fill(data, data + floats, static_cast<float>(transport.rank()));
      transport.send(other, data + 1, floats - 1, {"numbers", 0, turn});
      int parts = 0;
      long right = 0;
      transport.receive(other, floats - 1, {"numbers", 0, turn}, [&](const float* part, long, long count) {
        ++parts;
        right += std::count(part, part + count, static_cast<float>(other));
      });
      transport.finish();
      if (parts != 1 || right != floats - 1)
        fail("receive", "wrong numbers", std::to_string(floats), std::to_string(right));
    }
  });
  const auto collect = [](int count, auto body) { return processes::collect(count, body); };
  for (const int size : {2, 3, 4})
    for (const long floats : {100L, 2'000L, 300'000L})
      collectives::check_all_reduce(
          collect, size, floats,
          [](SharedMemoryTransport& transport, float* data, long count, MessageLabel label, float weight) {
            float* const shared = transport.memory(count);
            std::copy_n(data, count, shared);
            all_reduce(transport, shared, count, label, weight);
            std::copy_n(shared, count, data);
          });
}

TEST_CASE("numbers that lie in the shared memory are added up where they are", "[shared_memory]") {
  const auto collect = [](int count, auto body) { return processes::collect(count, body); };
  for (const int size : {2, 3, 4})
    for (const long floats : {1L, 100L, 300'000L})
      collectives::check_all_reduce(
          collect, size, floats,
          [](SharedMemoryTransport& transport, float* data, long count, MessageLabel label, float weight) {
            float* const shared = transport.memory(count);
            std::copy_n(data, count, shared);
            if (!all_reduce_by_sharing(transport, shared, count, label, weight)) fail("share", "in the arena", "", "");
            std::copy_n(shared, count, data);
          });
}

TEST_CASE("where one rank's numbers lie elsewhere nothing is shared, and messages add them up", "[shared_memory]") {
  for (const int elsewhere : {0, 1, 2}) {
    processes::run_well(3, [elsewhere](SharedMemoryTransport& transport) {
      constexpr long floats = 5'000;
      std::vector<float> alone(floats);
      float* const data = transport.rank() == elsewhere ? alone.data() : transport.memory(floats);
      for (int step = 0; step < 20; ++step) {  // more often than there are slots
        std::fill_n(data, floats, 1.0f);
        if (all_reduce_by_sharing(transport, data, floats, {"numbers", 0, 2 * step}))
          fail("share", "one lies elsewhere", "false", "true");
        if (std::count(data, data + floats, 1.0f) != floats) fail("share", "not possible", "no change", "others");
        all_reduce(transport, data, floats, {"numbers", 0, 2 * step + 1});
        if (std::count(data, data + floats, 3.0f) != floats) fail("all_reduce", "wrong numbers", "3", "others");
      }
    });
  }
}

TEST_CASE("after finish what was sent to a process may be changed", "[shared_memory]") {
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    for (const long floats : {10L, 2'000L, 100'000L}) {
      std::vector<float> own(static_cast<std::size_t>(floats));
      for (float* const data : {transport.memory(floats), own.data()})
        for (int step = 0; step < 100; ++step) {
          if (transport.rank() == 0) {
            std::fill_n(data, floats, static_cast<float>(step));
            transport.send(1, data, floats, {"value", 0, step});
            transport.finish();
            std::fill_n(data, floats, -1.0f);
          } else {
            if (step % 16 == 0) std::this_thread::sleep_for(1ms);
            transport.receive(0, floats, {"value", 0, step}, [&](const float* part, long, long count) {
              if (std::count(part, part + count, static_cast<float>(step)) != count)
                fail("receive", "wrong numbers", std::to_string(step), std::to_string(part[0]));
            });
          }
        }
    }
  });
}

TEST_CASE("arrived says whether a message is there", "[shared_memory]") {
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    const std::vector<float> much(500'000, 1.0f);  // more than there is room for: `arrived` goes on sending
    if (transport.rank() == 1) {
      transport.receive(0, 0, {"begin", 0, 0}, use_nothing);
      transport.send(0, much.data(), 500'000, {"much", 0, 1});
      while (!transport.arrived(0)) std::this_thread::yield();
      transport.receive(0, 0, {"end", 0, 2}, use_nothing);
      return;
    }
    if (transport.arrived(1)) fail("arrived", "is true", "no message", "one");
    transport.send(1, nullptr, 0, {"begin", 0, 0});
    while (!transport.arrived(1)) std::this_thread::yield();
    transport.receive(1, 500'000, {"much", 0, 1}, use_nothing);
    if (transport.arrived(1)) fail("arrived", "is true", "no message", "one");
    transport.send(1, nullptr, 0, {"end", 0, 2});
  });
}

TEST_CASE("a message wakes the process that sleeps until one comes", "[shared_memory]") {
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    doorbells::wake_second(transport);
    // More than there is room for: whoever sleeps goes on with it now and then.
    const std::vector<float> much(500'000, 1.0f);
    const MessageLabel label{"much", 0, 1};
    if (transport.rank() == 0) {
      transport.send(1, much.data(), 500'000, label);
      if (transport.doorbell() != nullptr) fail("doorbell", "while something is still to be sent", "none", "one");
      transport.finish();
      if (transport.doorbell() == nullptr) fail("doorbell", "when all is sent", "one", "none");
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      transport.receive(0, 500'000, label, use_nothing);
    }
  });
}

TEST_CASE("whoever asks for messages in turn is told of a process that has ended, not of one that has left",
          "[shared_memory]") {
  const auto messages = processes::run(4, [](SharedMemoryTransport& transport) {
    if (transport.rank() == 1) return;
    if (transport.rank() == 3) raise(SIGKILL);
    if (transport.rank() == 2)
      transport.receive(0, 0, {"end", 0, 0}, use_nothing);
    else
      while (!transport.arrived(1) && !transport.arrived(2) && !transport.arrived(3)) std::this_thread::yield();
  });
  CHECK(messages[0] ==
        "rank 0, waiting for messages of step 0: waits for a message from rank 3; expected within 60 s, found that the "
        "process of rank 3 has ended");
  CHECK(messages[1] == "");
  CHECK(messages[2].ends_with("found that the process of rank 3 has ended"));
}

TEST_CASE("processes that are out of step are told apart", "[shared_memory]") {
  const auto messages = processes::run(2, [](SharedMemoryTransport& transport) {
    const float values[3]{};
    if (transport.rank() == 0) {
      transport.send(1, values, 3, {"bucket", 2, 9});
      transport.receive(1, 0, {"answer", 0, 9}, use_nothing);
    } else {
      transport.receive(0, 3, {"part", 1, 9}, use_nothing);
    }
  });
  CHECK(messages[1] ==
        "rank 1: rank 0 sent another message; expected part 1 of step 9 with 3 numbers, found bucket 2 of step 9 with "
        "3 numbers");
  CHECK(messages[0] == "rank 0, answer 0 of step 9: another rank has failed");
}

TEST_CASE("a message that does not come from a process is named, and all others stop waiting", "[shared_memory]") {
  const auto messages = processes::run(
      3,
      [](SharedMemoryTransport& transport) {
        if (transport.rank() == 2) {  // says nothing, and is there
          std::this_thread::sleep_for(600ms);
          return;
        }
        if (transport.rank() == 0) std::this_thread::sleep_for(100ms);
        transport.receive(2, 5, {"bucket", 4, 7}, use_nothing);
      },
      300ms);
  CHECK(messages[0] == "rank 0, bucket 4 of step 7: another rank has failed");
  CHECK(messages[1] ==
        "rank 1, bucket 4 of step 7: waits for a message from rank 2; expected within 0.3 s, found nothing");
  CHECK(messages[2] == "");
}

TEST_CASE("who waits for one that has left is told so", "[shared_memory]") {
  double milliseconds = 0;
  std::vector<std::string> messages;
  milliseconds = milliseconds_of([&] {
    messages = processes::run(2, [](SharedMemoryTransport& transport) {
      const std::vector<float> much(500'000);
      if (transport.rank() == 1) return;
      transport.send(1, much.data(), 500'000, {"bucket", 2, 9});
      transport.finish();
    });
  });
  CHECK(
      messages[0] ==
      "rank 0, bucket 2 of step 9: has sent a message, which waits for rank 1; expected within 60 s, found that rank 1 "
      "has left");
  CHECK(milliseconds < 10'000);
}

TEST_CASE("what one that has left had sent is still received", "[shared_memory]") {
  processes::run_well(2, [](SharedMemoryTransport& transport) {
    const std::vector<float> value(100, 3);
    if (transport.rank() == 1) {
      transport.send(0, value.data(), 100, {"last", 2, 9});
      return transport.finish();
    }
    std::this_thread::sleep_for(100ms);
    transport.receive(1, 100, {"last", 2, 9}, [](const float* part, long, long) {
      if (part[99] != 3) fail("receive", "wrong number", "3", std::to_string(part[99]));
    });
  });
}

TEST_CASE("a process that is killed is named at once, by all who wait", "[shared_memory]") {
  for (const auto& [victim, shares] : {std::pair{0, false}, {1, false}, {2, false}, {1, true}}) {
    CAPTURE(victim, shares);
    const std::string name = processes::new_name();
    processes::Started started(3, [&, shares = shares, victim = victim](int rank) {
      SharedMemoryTransport transport(name, rank, 3, 60s);
      float* const data = transport.memory(1000);
      for (int step = 0; step < 1'000'000; ++step) {
        if (rank == victim && step == 20) std::this_thread::sleep_for(60s);
        if (shares)
          all_reduce_by_sharing(transport, data, 1000, {"bucket", 1, step});
        else
          all_reduce_by_ring(transport, data, 1000, {"bucket", 1, step});
      }
      return std::vector<float>();
    });
    std::this_thread::sleep_for(300ms);
    CHECK(left_behind() == 0);
    started.send(victim, SIGKILL);
    std::vector<std::string> messages;
    // The killed one is not waited for yet: a process of which only that is missing has ended, too.
    CHECK(milliseconds_of([&] { messages = started.messages(10s); }) < 5'000);
    for (int rank = 0; rank < 3; ++rank) {
      const std::string& message = messages[static_cast<std::size_t>(rank)];
      CAPTURE(rank, message);
      if (rank == victim) {
        CHECK(message == "signal 9");
      } else {
        CHECK(message.starts_with("rank " + std::to_string(rank) +
                                  ", bucket 1 of step 20: waits for a message from rank"));
        CHECK(message.ends_with("found that the process of rank " + std::to_string(victim) + " has ended"));
      }
    }
  }
}

TEST_CASE("a process that is stopped is named after the limit", "[shared_memory]") {
  const std::string name = processes::new_name();
  processes::Started started(2, [&](int rank) {
    SharedMemoryTransport transport(name, rank, 2, 500ms);
    std::vector<float> data(1000);
    for (int step = 0; step < 1'000'000; ++step) {
      if (rank == 1 && step == 20) raise(SIGSTOP);
      all_reduce_by_ring(transport, data.data(), 1000, {"bucket", 1, step});
    }
    return data;
  });
  std::vector<std::string> messages;
  CHECK(milliseconds_of([&] { messages = started.messages(3s); }) < 10'000);
  CHECK(messages[0] ==
        "rank 0, bucket 1 of step 20: waits for a message from rank 1; expected within 0.5 s, found nothing");
  CHECK(messages[1] == "signal 9");  // from this test
}

TEST_CASE("the environment says which rank of which job a process is", "[shared_memory]") {
  const auto found = processes::Job::collect(2, [&](int rank) {
    SharedMemoryTransport first = SharedMemory::connect(), second = SharedMemory::connect();
    const float one = 1, two = 2;
    first.send(1 - rank, &one, 1, {"number", 0, 0});
    second.send(1 - rank, &two, 1, {"number", 0, 0});
    std::vector<float> numbers(2);
    second.receive_into(1 - rank, &numbers[1], 1, {"number", 0, 0});
    first.receive_into(1 - rank, &numbers[0], 1, {"number", 0, 0});
    if (SharedMemory::rank() != rank || SharedMemory::size() != 2) fail("environment", "wrong", "2", "another");
    return numbers;
  });
  for (const auto& of_rank : found) CHECK(of_rank == std::vector<float>{1, 2});
  CHECK(left_behind() == 0);

  processes::Started mistaken(4, [&](int rank) {
    processes::Job::enter(rank, 4, "mistaken");
    if (rank == 1) setenv("TENET_RANK", "one", 1);
    if (rank == 2) setenv("TENET_SIZE", "", 1);
    if (rank == 3) unsetenv("TENET_JOB");
    if (rank != 0) SharedMemory::connect();
    return std::vector<float>();
  });
  const auto messages = mistaken.messages();
  CHECK(messages[1] == "TENET_RANK: not a number of processes; expected 0, 1, 2, …, found one");
  CHECK(messages[2] == "TENET_SIZE: not set; expected what tools/processes.sh sets, found nothing");
  CHECK(messages[3] == "TENET_JOB: not set; expected what tools/processes.sh sets, found nothing");
}

TEST_CASE("tools/processes.sh starts ranks that know who they are, and ends with a status that says failed",
          "[shared_memory]") {
  const auto status_of = [](const std::string& command) {
    const std::string script = std::string(TENET_TEST_DATA) + "/../tools/processes.sh";
    const int status = std::system(("'" + script + "' 3 sh -c '" + command + "' 2>/dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(status_of("test $TENET_SIZE = 3 -a -n \"$TENET_JOB\" -a $TENET_NUM_THREADS -ge 1") == 0);
  CHECK(status_of("case $TENET_RANK in 0 | 1 | 2) ;; *) exit 5 ;; esac") == 0);
  CHECK(status_of("test $TENET_RANK != 1 || exit 7") == 7);
  CHECK(status_of("test $TENET_RANK != 1 || kill -KILL $$") == 128 + SIGKILL);
  CHECK(status_of("touch /dev/shm/tenet-$TENET_JOB-0; echo $TENET_JOB >/dev/shm/tenet-test-" +
                  std::to_string(getpid()) + "-job") == 0);
  std::string job;
  const std::string file = "/dev/shm/tenet-test-" + std::to_string(getpid()) + "-job";
  std::getline(std::ifstream(file), job);
  std::filesystem::remove(file);
  CHECK(job != "");
  CHECK(!std::filesystem::exists("/dev/shm/tenet-" + job + "-0"));
}
