#pragma once

// The C++ bindings that MPI once had cost every includer.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <tenet/comm/transport.hpp>
#include <tenet/core/wait_until.hpp>
#include <vector>

/// What ranks under mpirun do before they have a transport, and at the end: meet, within a time limit. MPI's own
/// collectives wait for ever.
namespace tenet::detail {

inline bool is_truncated(int result) {
  int kind = 0;
  return MPI_Error_class(result, &kind) == MPI_SUCCESS && kind == MPI_ERR_TRUNCATE;
}
inline void check_mpi(int result, int rank, const MessageLabel& label) {
  if (result == MPI_SUCCESS) return;
  char message[MPI_MAX_ERROR_STRING];
  int count = 0;
  MPI_Error_string(result, message, &count);
  fail("rank " + std::to_string(rank) + ", " + text(label), "MPI failed", "success",
       std::string(message, static_cast<std::size_t>(count)));
}

inline long most_mpi_tag() {
  void* most = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
  return found != 0 ? *static_cast<int*>(most) : 32767;
}

/// The same for all processes of a machine: of its name, and the number of the kernel's start, where there is one; or,
/// where it is set, of what the environment variable TENET_MACHINE says. (Containers of one machine may have names of
/// their own, and a name in common on several.)
inline std::uint64_t number_of_machine() {
  if (const char* const said = std::getenv("TENET_MACHINE"); said != nullptr && *said != '\0')
    return std::hash<std::string>()(said);
  char name[MPI_MAX_PROCESSOR_NAME + 1]{};
  int count = 0;
  MPI_Get_processor_name(name, &count);
  std::string start;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), start);
  return std::hash<std::string>()(name + start);
}

/// How many meetings the ranks of a communicator have had before: all of them take part in each.
inline long number_of_meeting(MPI_Comm all) {
  static const int key = [] {
    int made = MPI_KEYVAL_INVALID;
    check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &made, nullptr), 0, {"meeting"});
    return made;
  }();
  void* kept = nullptr;  // the number itself
  int found = 0;
  check_mpi(MPI_Comm_get_attr(all, key, &kept, &found), 0, {"meeting"});
  const std::intptr_t number = found != 0 ? reinterpret_cast<std::intptr_t>(kept) : 0;
  check_mpi(MPI_Comm_set_attr(all, key, reinterpret_cast<void*>(number + 1)), 0, {"meeting"});
  return number;
}

/// Waits until all ranks of a communicator have come here; past the limit an `Error` names one that has not, on all
/// that have. What goes between them are messages without content, with the highest of the tags that MPI promises:
///
///     rank 0 to each: that it is here        each answers: so am I        rank 0 to each: that all are
///
/// Rank 0 waits as long as the limit from its own coming. Another rank knows then that rank 0 has come, and waits again
/// as long, and a second, for what it has found. Who gives up has said nothing that could be taken for a later coming:
/// it has not answered yet, and each meeting has tags of its own.
inline void meet(MPI_Comm all, std::chrono::nanoseconds limit, const MessageLabel& label) {
  const int here = 32767 - 3 * static_cast<int>(number_of_meeting(all) % 1000), complete = here - 1, missing = here - 2;
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(all, &rank), 0, label);
  check_mpi(MPI_Comm_size(all, &size), rank, label);
  const auto fail_for = [&](int peer) {
    fail_waiting(rank, "waits for", peer, label, std::chrono::duration<double>(limit).count());
  };
  const auto send = [&](int to, int tag, const int* number = nullptr) {
    MPI_Request request;
    check_mpi(MPI_Isend(number, number != nullptr, MPI_INT, to, tag, all, &request), rank, label);
    check_mpi(MPI_Request_free(&request), rank, label);
  };
  // Forgets the requests that have not ended.
  struct Expected {
    std::vector<MPI_Request> requests;
    ~Expected() {
      for (MPI_Request& request : requests) {
        if (request == MPI_REQUEST_NULL) continue;
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }
  };
  const auto expect = [&](int from, int tag, int* number = nullptr) {
    MPI_Request request;
    check_mpi(MPI_Irecv(number, number != nullptr, MPI_INT, from, tag, all, &request), rank, label);
    return request;
  };
  const auto has_come = [&](MPI_Request& request) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), rank, label);
    return done != 0;
  };
  // The last one that has been missed, where it stays for the messages that say so.
  static int missed = 0;
  if (rank == 0) {
    Expected ranks;
    for (int other = 1; other < size; ++other) send(other, here);
    for (int other = 1; other < size; ++other) ranks.requests.push_back(expect(other, here));
    const auto begin = std::chrono::steady_clock::now();
    for (int other = 1; other < size; ++other) {
      const auto left = limit - (std::chrono::steady_clock::now() - begin);
      const auto come = [&] { return has_come(ranks.requests[static_cast<std::size_t>(other - 1)]); };
      if (come() || wait_until(come, left, 0)) continue;
      missed = other;
      for (int to = 1; to < size; ++to)
        if (to != missed) send(to, missing, &missed);
      fail_for(missed);
    }
    for (int other = 1; other < size; ++other) send(other, complete);
  } else {
    int found = 0;
    Expected expected{{expect(0, here), expect(0, complete), expect(0, missing, &found)}};
    const auto come = [&](std::size_t which) { return has_come(expected.requests[which]); };
    if (!wait_until([&] { return come(0); }, limit, 0)) fail_for(0);
    send(0, here);
    bool is_complete = false;
    // A moment longer than rank 0 waits for the others: its answer is to come before nobody knows whom it lacks.
    wait_until([&] { return (is_complete = come(1)) || come(2); }, limit + std::chrono::seconds(1), 0);
    if (!is_complete) fail_for(found);
  }
}

}  // namespace tenet::detail
