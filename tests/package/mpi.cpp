// The same for the component tenet::mpi, whose headers need Boost.MPI.
#include <cstdio>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/mpi.hpp>

int main(int argc, char** argv) {
  tenet::MpiEnvironment mpi(argc, argv);
  tenet::MpiTransport transport;
  float sum = 1;
  tenet::all_reduce(transport, &sum, 1, {"sum", 0, 0});
  std::printf("%d ranks: %g\n", mpi.size(), static_cast<double>(sum));
  return sum == static_cast<float>(mpi.size()) ? 0 : 1;
}
