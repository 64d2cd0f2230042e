#pragma once

#include <poll.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <tenet/comm/shared_memory.hpp>
#include <vector>

/// Ranks for tests: processes that this one forks, before it starts any thread.
namespace processes {

inline std::string new_name() {
  static int count = 0;
  return "/tenet-test-" + std::to_string(getpid()) + "-" + std::to_string(count++);
}

/// What a process has ended with.
struct Outcome {
  std::string message;  // what it has thrown, or the signal that has ended it, or ""
  std::vector<float> numbers;
};

/// Processes that call body(rank), and what became of them. None outlives this.
class Started {
 public:
  template <class Body>
  Started(int count, Body body) {
    for (int rank = 0; rank < count; ++rank) {
      int ends[2];
      REQUIRE(pipe(ends) == 0);
      const pid_t process = fork();
      REQUIRE(process >= 0);
      if (process == 0) {
        std::string told;  // '=' and numbers, or '!' and a message
        try {
          const std::vector<float> numbers = body(rank);
          told.assign(reinterpret_cast<const char*>(numbers.data()), sizeof(float) * numbers.size()).insert(0, 1, '=');
        } catch (const std::exception& error) {
          told = std::string("!") + error.what();
        }
        // Not the end of a program: that would be the test program's.
        _exit(write(ends[1], told.data(), told.size()) == static_cast<ssize_t>(told.size()) ? 0 : 1);
      }
      close(ends[1]);
      members_.push_back({process, ends[0]});
    }
  }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() {
    for (Member& member : members_) end(member);
  }

  void send(int rank, int signal) { kill(members_[static_cast<std::size_t>(rank)].process, signal); }

  /// Whether a process ends, or says what it ends with, within the limit.
  bool has_ended(int rank, std::chrono::milliseconds limit) {
    pollfd ready{members_[static_cast<std::size_t>(rank)].pipe, POLLIN, 0};
    return poll(&ready, 1, limit.count() > 0 ? static_cast<int>(limit.count()) : 0) > 0;
  }

  /// Those that have not ended after `limit` are killed.
  std::vector<Outcome> outcomes(std::chrono::milliseconds limit = std::chrono::minutes(1)) {
    const auto latest = std::chrono::steady_clock::now() + limit;
    std::vector<Outcome> result;
    for (Member& member : members_) {
      std::string told;
      for (ssize_t found = 1; found > 0;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(latest - std::chrono::steady_clock::now()).count();
        pollfd ready{member.pipe, POLLIN, 0};
        char part[4096];
        if (poll(&ready, 1, left > 0 ? static_cast<int>(left) : 0) <= 0) kill(member.process, SIGKILL);
        found = read(member.pipe, part, sizeof part);
        if (found > 0) told.append(part, static_cast<std::size_t>(found));
      }
      Outcome& outcome = result.emplace_back();
      const int status = end(member);
      if (WIFSIGNALED(status)) {
        outcome.message = "signal " + std::to_string(WTERMSIG(status));
      } else if (told.empty()) {
        outcome.message = "status " + std::to_string(WEXITSTATUS(status));
      } else if (told[0] == '=') {
        outcome.numbers.resize((told.size() - 1) / sizeof(float));
        if (!outcome.numbers.empty()) std::memcpy(outcome.numbers.data(), told.data() + 1, told.size() - 1);
      } else {
        outcome.message = told.substr(1);
      }
    }
    return result;
  }
  std::vector<std::string> messages(std::chrono::milliseconds limit = std::chrono::minutes(1)) {
    std::vector<std::string> result;
    for (const Outcome& outcome : outcomes(limit)) result.push_back(outcome.message);
    return result;
  }
  std::vector<std::vector<float>> numbers() {
    std::vector<std::vector<float>> result;
    for (Outcome& outcome : outcomes()) {
      CHECK(outcome.message == "");
      result.push_back(std::move(outcome.numbers));
    }
    return result;
  }

 private:
  struct Member {
    pid_t process;
    int pipe;
    int status = 0;
  };
  static int end(Member& member) {
    if (member.process <= 0) return member.status;
    kill(member.process, SIGKILL);  // one that has ended keeps its status
    waitpid(member.process, &member.status, 0);
    close(member.pipe);
    member.process = 0;
    return member.status;
  }

  std::vector<Member> members_;
};

/// Calls body(transport) on each rank; what each has thrown, or "".
template <class Body>
std::vector<std::string> run(int count, Body body, std::chrono::milliseconds limit = std::chrono::minutes(1)) {
  const std::string name = new_name();
  Started started(count, [&](int rank) {
    tenet::SharedMemoryTransport transport(name, rank, count, limit);
    body(transport);
    return std::vector<float>();
  });
  return started.messages();
}
/// The same where nothing is to be thrown.
template <class Body>
void run_well(int count, Body body) {
  for (const std::string& message : run(count, body)) CHECK(message == "");
}
/// The numbers that body(transport) returns on each rank.
template <class Body>
std::vector<std::vector<float>> collect(int count, Body body) {
  const std::string name = new_name();
  Started started(count, [&](int rank) {
    tenet::SharedMemoryTransport transport(name, rank, count, std::chrono::minutes(1));
    return body(transport);
  });
  return started.numbers();
}

/// Processes that are told who they are as tools/processes.sh does, for `Distributed<SharedMemory>`.
struct Job {
  using World = tenet::SharedMemory;
  template <class Body>
  static std::vector<std::vector<float>> collect(int count, Body body) {
    const std::string job = new_name().substr(7);  // behind "/tenet-"
    Started started(count, [&](int rank) {
      enter(rank, count, job);
      return body(rank);
    });
    return started.numbers();
  }
  static void enter(int rank, int size, const std::string& job) {
    setenv("TENET_RANK", std::to_string(rank).c_str(), 1);
    setenv("TENET_SIZE", std::to_string(size).c_str(), 1);
    setenv("TENET_JOB", job.c_str(), 1);
  }
};

}  // namespace processes
