// all_reduce as ranks of `Distributed<Mpi>` do it, and by MPI's messages, beside MPI_Allreduce, in turns; and the
// latter of numbers that each rank has written just before. Rank 0 prints {"bytes": [ours, by messages, MPI's, MPI's
// with writing], …} in microseconds.
#include <cstdio>
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
    double ours = 1e30, by_messages = 1e30, theirs = 1e30, written = 1e30;
    const auto add_up = [&] {
      MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(floats), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    for (int turn = 0; turn < 3; ++turn) {
      write(data, 0);  // zeros stay finite
      ours = std::min(ours, least_seconds(floats, meet, [&] {
                        all_reduce(transport, numbers.data(), floats, {"sum", 1, ++step});
                      }));
      by_messages = std::min(by_messages, least_seconds(floats, meet, [&] {
                               all_reduce(messages, data.data(), floats, {"sum", 1, ++step});
                             }));
      theirs = std::min(theirs, least_seconds(floats, meet, add_up));
      written = std::min(written, least_seconds(floats, meet, [&] {
                           write(data, ++step);
                           add_up();
                         }));
    }
    char times[128];
    std::snprintf(times, sizeof times, "[%.4f, %.4f, %.4f, %.4f]", ours * 1e6, by_messages * 1e6, theirs * 1e6,
                  written * 1e6);
    results += entry(floats, times, results.empty());
  }
  if (mpi.rank() == 0) std::printf("{%s}\n", results.c_str());
}
