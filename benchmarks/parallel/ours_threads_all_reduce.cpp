// all_reduce among two threads; prints {"bytes": seconds, …}.
#include <chrono>
#include <cstdio>
#include <string>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/thread_transport.hpp>

#include "all_reduce.hpp"

using namespace tenet;

int main() {
  ThreadNetwork network(2);
  std::string results;
  const auto work = [&](int rank) {
    ThreadTransport transport(network, rank);
    for (const long floats : all_reduce_sizes) {
      std::vector<float> data(static_cast<std::size_t>(floats), static_cast<float>(1 + rank));
      all_reduce(transport, data.data(), floats, {"check", 0, 0});
      for (const float value : data)
        if (value != 3) std::abort();
      std::fill(data.begin(), data.end(), 0.0f);  // they stay finite
      long step = 0;
      const double seconds = least_seconds(
          floats,
          [&] {
            barrier(transport, {"round", 1, ++step});
          },
          [&] {
            all_reduce(transport, data.data(), floats, {"sum", 2, ++step});
          });
      if (rank == 0) results += entry(floats, std::to_string(seconds * 1e6), results.empty());
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  std::printf("{%s}\n", results.c_str());
}
