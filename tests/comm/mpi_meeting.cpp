#include "tenet/comm/mpi_meeting.hpp"

#include <catch2/catch.hpp>
#include <tenet/comm/mpi.hpp>

#include "../support/message.hpp"
#include "../support/variable.hpp"

// A part of the program of comm/mpi.cpp, which mpirun runs.

using namespace tenet;
using namespace std::chrono_literals;

TEST_CASE("all ranks that meet are named the one that does not come, within the limit", "[mpi_meeting]") {
  const boost::mpi::communicator world;
  const int rank = world.rank(), n = world.size();
  MpiTransport others({}, 20s);
  if (n == 1) return;
  const auto names = [&](int missing) {
    return "rank " + std::to_string(rank) + ", connection: waits for rank " + std::to_string(missing) +
           "; expected within 0.3 s, found nothing";
  };
  const auto meet = [&] { return message_of([&] { detail::meet(world, 300ms, {"connection", -1, -1}); }); };
  for (const int late : {n - 1, 0}) {
    CAPTURE(late);
    if (rank != late) {
      CHECK(meet() == names(late));
      CHECK(detail::has_waited_in_vain);
    }
    barrier(others, {"barrier", late, 0});
    // It comes when all others have gone: what they have left behind is not them.
    if (rank == late) CHECK(meet() == names(late == 0 ? 1 : 0));
    barrier(others, {"barrier", late, 1});
  }
  for (int time = 0; time < 3; ++time) CHECK_NOTHROW(detail::meet(world, 20s, {"connection", -1, time}));
}

TEST_CASE("a rank that comes late, but within the limit, is met", "[mpi_meeting]") {
  const boost::mpi::communicator world;
  for (const int late : {0, world.size() - 1}) {
    if (world.rank() == late) std::this_thread::sleep_for(100ms);
    CHECK_NOTHROW(detail::meet(world, 20s, {"connection", -1, -1}));
  }
}

TEST_CASE("MPI's errors say what they are about", "[mpi_meeting]") {
  CHECK_NOTHROW(detail::check_mpi(MPI_SUCCESS, 0, {"bucket", 3, 17}));
  CHECK(message_of([] {
          detail::check_mpi(MPI_ERR_TRUNCATE, 2, {"bucket", 3, 17});
        }).starts_with("rank 2, bucket 3 of step 17: MPI failed; expected success, found "));
  CHECK(detail::is_truncated(MPI_ERR_TRUNCATE));
  CHECK(!detail::is_truncated(MPI_ERR_RANK));
  CHECK(!detail::is_truncated(MPI_SUCCESS));
}

TEST_CASE("tags reach at least as far as MPI promises", "[mpi_meeting]") { CHECK(detail::most_mpi_tag() >= 32767); }

TEST_CASE("all processes of a machine have the same number for it", "[mpi_meeting][one_machine]") {
  std::uint64_t least = 0, own = detail::number_of_machine();
  MPI_Allreduce(&own, &least, 1, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
  CHECK(least == own);
  const auto number_of = [](const char* said) {
    const Variable machine("TENET_MACHINE", said);
    return detail::number_of_machine();
  };
  CHECK(number_of("one more") != number_of("another"));
  CHECK(number_of("another") != own);
  CHECK(number_of("") == own);
}
