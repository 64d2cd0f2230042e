// all_reduce as ranks of `Distributed<Mpi>` do it, and by MPI's messages, beside MPI_Allreduce, in turns; and the
// latter of numbers that each rank has written just before. Rank 0 prints {"bytes": [ours, by messages, MPI's, MPI's
// with writing], …} in microseconds: of the turn in which they took least together, as a machine whose cores lie far
// apart for some minutes, and near for others, has two speeds.
#include <array>
#include <cstdio>
#include <numeric>
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/mpi.hpp>

#include "all_reduce.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Mpi::Transport transport = Mpi::connect();
  MpiTransport messages;
  std::string results;
  long step = 0;
  const auto meet = [] { MPI_Barrier(MPI_COMM_WORLD); };
  for (const long floats : all_reduce_sizes) {
    std::vector<float> data(static_cast<std::size_t>(floats), static_cast<float>(1 + mpi.rank()));
    const OwnNumbers numbers(transport, floats);  // where gradients lie
    std::copy_n(data.data(), floats, numbers.data());
    all_reduce(transport, numbers.data(), floats, {"check", 0, ++step});
    all_reduce(messages, data.data(), floats, {"check", 0, ++step});
    for (long i = 0; i < floats; ++i)
      for (const float value : {numbers.data()[i], data[static_cast<std::size_t>(i)]})
        if (value != static_cast<float>(mpi.size() * (mpi.size() + 1) / 2)) std::abort();
    std::fill_n(numbers.data(), floats, 0.0f);
    const auto add_up = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(floats), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    std::array<double, 4> least{1, 1, 1, 1};
    for (int turn = 0; turn < 5; ++turn) {
      write(data, 0);  // zeros stay finite
      const std::array found{least_seconds(floats, meet,
                                           [&] {
                                             all_reduce(transport, numbers.data(), floats, {"sum", 1, ++step});
                                           }),
                             least_seconds(floats, meet,
                                           [&] {
                                             all_reduce(messages, data.data(), floats, {"sum", 1, ++step});
                                           }),
                             least_seconds(floats, meet, add_up), least_seconds(floats, meet, [&] {
                               write(data, ++step);
                               add_up();
                             })};
      const auto sum = [](const auto& times) { return std::accumulate(times.begin(), times.end(), 0.0); };
      if (sum(found) < sum(least)) least = found;
    }
    char times[128];
    std::snprintf(times, sizeof times, "[%.4f, %.4f, %.4f, %.4f]", least[0] * 1e6, least[1] * 1e6, least[2] * 1e6,
                  least[3] * 1e6);
    results += entry(floats, times, results.empty());
  }
  if (mpi.rank() == 0) std::printf("{%s}\n", results.c_str());
}
