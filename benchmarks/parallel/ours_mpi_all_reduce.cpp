// all_reduce over Boost.MPI beside MPI_Allreduce, in turns; rank 0 prints {"bytes": [ours, MPI's], …} in microseconds.
#include <cstdio>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/mpi.hpp>

#include "all_reduce.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  MpiTransport transport;
  std::string results;
  long step = 0;
  const auto meet = [] { MPI_Barrier(MPI_COMM_WORLD); };
  for (const long floats : all_reduce_sizes) {
    std::vector<float> data(static_cast<std::size_t>(floats), static_cast<float>(1 + mpi.rank()));
    all_reduce(transport, data.data(), floats, {"check", 0, ++step});
    for (const float value : data)
      if (value != static_cast<float>(mpi.size() * (mpi.size() + 1) / 2)) std::abort();
    std::fill(data.begin(), data.end(), 0.0f);
    double ours = 1e30, theirs = 1e30;
    for (int turn = 0; turn < 3; ++turn) {
      ours = std::min(ours, least_seconds(floats, meet, [&] {
                        all_reduce(transport, data.data(), floats, {"sum", 1, ++step});
                      }));
      theirs = std::min(theirs, least_seconds(floats, meet, [&] {
                          MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(floats), MPI_FLOAT, MPI_SUM,
                                        MPI_COMM_WORLD);
                        }));
    }
    char pair[64];
    std::snprintf(pair, sizeof pair, "[%.2f, %.2f]", ours * 1e6, theirs * 1e6);
    results += entry(floats, pair, results.empty());
  }
  if (mpi.rank() == 0) std::printf("{%s}\n", results.c_str());
}
