// all_reduce among two threads, of numbers that stay where they are and of numbers that each thread has written just
// before; prints {"bytes": [the former, the latter with writing], …} in microseconds.
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
      write(data, 0);  // zeros stay finite
      long step = 0;
      const auto meet = [&] { barrier(transport, {"round", 1, ++step}); };
      const auto add_up = [&] { all_reduce(transport, data.data(), floats, {"sum", 2, ++step}); };
      const auto write_and_add_up = [&] {
        write(data, step);
        add_up();
      };
      const double kept = least_seconds(floats, meet, add_up), written = least_seconds(floats, meet, write_and_add_up);
      char pair[64];
      std::snprintf(pair, sizeof pair, "[%.3f, %.3f]", kept * 1e6, written * 1e6);
      if (rank == 0) results += entry(floats, pair, results.empty());
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  std::printf("{%s}\n", results.c_str());
}
