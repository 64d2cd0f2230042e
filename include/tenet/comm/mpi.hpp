#pragma once

// The C++ bindings that MPI once had cost every includer, and MPI_Init's caller is us.
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/datatype.hpp>
#include <boost/mpi/environment.hpp>
#include <deque>
#include <optional>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/either_transport.hpp>
#include <tenet/comm/shared_memory.hpp>
#include <tenet/comm/time_limit.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/core/wait_until.hpp>
#include <vector>

/// Ranks under mpirun. The component tenet::mpi: it needs Boost.MPI and what that needs.
namespace tenet {

/// MPI, from the start of a program to its end: make one in `main`, before all trainers, and keep it.
///
/// A training communicates on a thread of its own. MPI has to allow that: if it does not, the constructor throws.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv) : environment_(argc, argv, boost::mpi::threading::multiple) {
    if (boost::mpi::environment::thread_level() < boost::mpi::threading::serialized)
      fail("MpiEnvironment", "MPI does not let another thread than the first communicate", "MPI_THREAD_SERIALIZED",
           static_cast<long>(boost::mpi::environment::thread_level()));
  }

  /// This process's number among all, from 0.
  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }

 private:
  boost::mpi::environment environment_;
  boost::mpi::communicator world_;
};

/// A `Transport` between the processes of a communicator. Long messages are sent in segments below the size at which
/// MPI begins to ask the receiver first, and a few are received at a time.
///
/// Of Boost.MPI it takes environment, communicator and data types. Messages go through MPI's own functions: Boost's
/// check results by `assert` before they throw, and an `assert` names no rank, step or tensor.
class MpiTransport {
 public:
  using Limit = std::chrono::nanoseconds;

  /// A communicator of its own, so that nobody else's messages are mistaken for its own: all ranks construct one
  /// together. A time limit ends each wait.
  explicit MpiTransport(const boost::mpi::communicator& all = {}, Limit limit = std::chrono::minutes(5))
      : communicator_(all, boost::mpi::comm_duplicate), limit_(limit) {}

  int rank() const { return communicator_.rank(); }
  int size() const { return communicator_.size(); }
  LinkCost link() const { return {2e-6, 4e-10, 1e-9}; }

  Limit limit() const { return limit_; }

  /// Whether all ranks run on one machine. To be asked by all of them together.
  bool is_within_machine() const {
    MPI_Comm here;
    int count = 0;
    const MessageLabel label{"processes of one machine", -1, -1};
    check(MPI_Comm_split_type(communicator_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), label);
    check(MPI_Comm_size(here, &count), label);
    check(MPI_Comm_free(&here), label);
    return count == size();
  }

  void send(int to, const float* data, long floats, MessageLabel label) {
    const long segment = segment_of(floats);
    for (long first = 0; first == 0 || first < floats; first += segment) {
      MPI_Request request;
      check(MPI_Isend(data + first, length(floats - first, segment), type(), to, tag(label), communicator_, &request),
            label);
      sent_.push_back({request, to, label});
    }
  }

  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    const long segment = segment_of(floats);
    received_.resize(static_cast<std::size_t>(under_way * longest_segment));
    receive_segments(
        from, floats, label, [&](long first) { return received_.data() + first / segment % under_way * segment; }, use);
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    receive_segments(
        from, floats, label, [&](long first) { return to + first; }, [](const float*, long, long) {});
  }

  bool arrived(int from) {
    const MessageLabel label{"waiting for messages", -1, 0};
    while (!sent_.empty()) {  // what has gone is forgotten: nobody may call `finish` for long
      int done = 0;
      check(MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE), label);
      if (done == 0) break;
      sent_.pop_front();
    }
    int found = 0;
    check(MPI_Iprobe(from, MPI_ANY_TAG, communicator_, &found, MPI_STATUS_IGNORE), label);
    return found != 0;
  }

  void finish() {
    for (Sent& message : sent_)
      if (!wait(message.request, message.label))
        detail::fail_waiting(rank(), "has sent a message, which waits for", message.to, message.label, seconds());
    sent_.clear();
  }

 private:
  static constexpr long longest_segment = 15 << 10;  // floats
  static constexpr long under_way = 4;

  /// Floats of each segment of a message. Open MPI sends without asking up to 64 KiB over TCP, but between processes of
  /// one machine up to 4 KiB, with what it says itself: there a message that is little longer is quicker in pieces.
  static constexpr long segment_of(long floats) {
    constexpr long within_machine = 1000, piece = 960, most_pieces = 3;
    return floats > within_machine && floats <= most_pieces * piece ? piece : longest_segment;
  }

  struct Sent {
    MPI_Request request;
    int to;
    MessageLabel label;
  };

  static MPI_Datatype type() { return boost::mpi::get_mpi_datatype<float>(); }
  static int length(long rest, long segment) { return static_cast<int>(rest < segment ? rest : segment); }
  /// Messages about different things do not meet, as far as tags reach.
  static int tag(const MessageLabel& label) { return static_cast<int>((label.number + 1024) % 32768); }
  double seconds() const { return std::chrono::duration<double>(limit_).count(); }

  void check(int result, const MessageLabel& label) const {
    if (result == MPI_SUCCESS) return;
    char message[MPI_MAX_ERROR_STRING];
    int count = 0;
    MPI_Error_string(result, message, &count);
    fail("rank " + std::to_string(rank()) + ", " + text(label), "MPI failed", "success",
         std::string(message, static_cast<std::size_t>(count)));
  }

  /// Each segment to place(first), and then used; a few of them are expected at a time.
  template <class Place, class Use>
  void receive_segments(int from, long floats, const MessageLabel& label, Place place, Use&& use) {
    const long segment = segment_of(floats);
    MPI_Request requests[under_way];
    long begun = 0;
    const auto begin = [&] {
      check(MPI_Irecv(place(begun), length(floats - begun, segment), type(), from, tag(label), communicator_,
                      &requests[begun / segment % under_way]),
            label);
      begun += segment;
    };
    while (begun < under_way * segment && (begun == 0 || begun < floats)) begin();
    for (long first = 0; first == 0 || first < floats; first += segment) {
      if (!wait(requests[first / segment % under_way], label)) {
        for (long open = first; open < begun; open += segment) {  // their memory is not theirs any longer
          MPI_Request& request = requests[open / segment % under_way];
          MPI_Cancel(&request);
          MPI_Request_free(&request);
        }
        detail::fail_waiting(rank(), "waits for a message from", from, label, seconds());
      }
      use(static_cast<const float*>(place(first)), first, long{length(floats - first, segment)});
      if (begun < floats) begin();
    }
  }

  bool wait(MPI_Request& request, const MessageLabel& label) {
    return wait_until(
        [&] {
          int done = 0;
          check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), label);
          return done != 0;
        },
        limit_, size() > 1 ? 400 : 0);
  }

  boost::mpi::communicator communicator_;
  Limit limit_;
  std::deque<Sent> sent_;
  std::vector<float> received_;
};

static_assert(Transport<MpiTransport>);

/// The world of `Distributed<MpiMessages>`: all processes that mpirun has started, which exchange messages by MPI
/// wherever they run. `process_time_limit` says when a wait ends.
struct MpiMessages {
  static MpiTransport connect() { return MpiTransport({}, process_time_limit()); }
};

/// The world of `Distributed<Mpi>`: the same processes. Where all of them, up to 16, run on one machine, they exchange
/// numbers through memory that they share, which is several times faster; else, or where the machine has no room for
/// that, by MPI's messages.
struct Mpi {
  using Transport = EitherTransport<SharedMemoryTransport, MpiTransport>;

  static Transport connect() {
    MpiTransport messages = MpiMessages::connect();
    if (auto shared = share_machine(messages)) return std::move(*shared);
    return messages;
  }

 private:
  static constexpr int most_sharing = 16;  // their transport takes 130 KB for each pair
  static constexpr std::chrono::seconds joining{5};

  /// Nothing on all ranks where one of them cannot share: the name that rank 0 gives to the memory may mean something
  /// else in another container.
  static std::optional<SharedMemoryTransport> share_machine(MpiTransport& messages) {
    const int n = messages.size();
    if (!messages.is_within_machine() || n == 1 || n > most_sharing) return std::nullopt;
    const MessageLabel label{"memory of the machine", -1, -1};
    struct {
      long process, time;
    } name{getpid(), std::chrono::system_clock::now().time_since_epoch().count()};
    broadcast_value(messages, 0, name, label);
    std::optional<SharedMemoryTransport> result;
    try {
      result.emplace("/tenet-mpi-" + std::to_string(name.process) + "-" + std::to_string(name.time), messages.rank(), n,
                     messages.limit(), joining);
    } catch (const Error&) {
    }
    float sharing = result ? 1 : 0;
    all_reduce(messages, &sharing, 1, label);
    if (sharing < static_cast<float>(n)) result.reset();
    return result;
  }
};

}  // namespace tenet
