#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <tenet/comm/thread_transport.hpp>
#include <thread>
#include <vector>

/// Ranks for tests: threads of this process.
namespace ranks {

/// Calls body(transport) on a thread for each rank; returns the message of what each one has thrown, or "".
template <class Body>
std::vector<std::string> run(int count, Body body, tenet::ThreadNetwork::Limit limit = std::chrono::minutes(1)) {
  tenet::ThreadNetwork network(count, limit);
  std::vector<std::string> messages(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank)
    threads.emplace_back([&, rank] {
      try {
        tenet::ThreadTransport transport(network, rank);
        body(transport);
      } catch (const std::exception& error) {
        messages[static_cast<std::size_t>(rank)] = error.what();
        network.abandon();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return messages;
}

/// The same where nothing is to be thrown.
template <class Body>
void run_well(int count, Body body) {
  for (const std::string& message : run(count, body)) CHECK(message == "");
}

/// The numbers that body(transport) returns on each rank.
template <class Body>
std::vector<std::vector<float>> collect(int count, Body body) {
  std::vector<std::vector<float>> result(static_cast<std::size_t>(count));
  run_well(count, [&](tenet::ThreadTransport& transport) {
    result[static_cast<std::size_t>(transport.rank())] = body(transport);
  });
  return result;
}

}  // namespace ranks
