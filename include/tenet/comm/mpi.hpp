#pragma once

#include <algorithm>
#include <boost/mpi/communicator.hpp>
#include <boost/mpi/datatype.hpp>
#include <boost/mpi/environment.hpp>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <tenet/comm/collectives.hpp>
#include <tenet/comm/either_transport.hpp>
#include <tenet/comm/machine_topology.hpp>
#include <tenet/comm/machine_transport.hpp>
#include <tenet/comm/message_tag.hpp>
#include <tenet/comm/mpi_meeting.hpp>  // first, as it includes MPI without what its C++ bindings cost
#include <tenet/comm/shared_memory.hpp>
#include <tenet/comm/subgroup.hpp>
#include <tenet/comm/transport.hpp>
#include <tenet/core/function.hpp>
#include <tenet/core/time_limit.hpp>
#include <tenet/core/wait_until.hpp>
#include <thread>
#include <vector>

/// Ranks under mpirun. The component tenet::mpi: it needs Boost.MPI and what that needs.
namespace tenet {

/// MPI, from the start of a program to its end: make one in `main`, before all trainers, and keep it.
///
/// A training communicates on a thread of its own. MPI has to allow that: if it does not, the constructor throws.
///
/// MPI's end waits for all processes, for ever. A program that has caught the error of a wait, has saved what it had
/// and ends waits for `time_limit`, then ends the job. One that has not waited in vain waits as long as the others
/// take.
class MpiEnvironment {
 public:
  MpiEnvironment(int& argc, char**& argv) : environment_(argc, argv, boost::mpi::threading::multiple) {
    check_threads(boost::mpi::environment::thread_level());
  }
  ~MpiEnvironment() {
    if (std::uncaught_exceptions() > 0) return;  // Boost ends the job
    try {
      detail::meet(world_, detail::has_waited_in_vain ? time_limit() : any_time, {"the end of MPI", -1, -1});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      MPI_Abort(world_, EXIT_FAILURE);
    }
  }

  /// This process's number among all, from 0.
  int rank() const { return world_.rank(); }
  int size() const { return world_.size(); }

  /// Two trainings, or one and a key-value store, communicate at the same time.
  static void check_threads(boost::mpi::threading::level given) {
    if (given < boost::mpi::threading::multiple)
      fail("MpiEnvironment", "MPI does not let several threads communicate at once", "MPI_THREAD_MULTIPLE",
           static_cast<long>(given));
  }

 private:
  static constexpr std::chrono::hours any_time{24 * 365};

  boost::mpi::environment environment_;
  boost::mpi::communicator world_;
};

/// A `Transport` between the processes of a communicator. Long messages are sent in segments, of which a few are
/// received at a time, so that a rank adds up one while the next ones come. MPI delivers at once what it was told to
/// expect; the rest it has to keep in a list first.
///
/// Of Boost.MPI it takes environment, communicator and data types. Messages go through MPI's own functions: Boost's
/// check results by `assert` before they throw, and an `assert` names no rank, step or tensor.
class MpiTransport {
 public:
  using Limit = std::chrono::nanoseconds;

  /// A communicator of its own, so that nobody else's messages are mistaken for its own: all ranks construct one
  /// together, and several in the same order; so all are constructed by one thread. A time limit ends each wait, and
  /// that for ranks which do not come here. `within_machine`: that all ranks run on one machine, or that messages go
  /// over a network all the same; else the ranks find out which of them share a machine.
  explicit MpiTransport(const boost::mpi::communicator& all = {}, Limit limit = std::chrono::minutes(5),
                        std::optional<bool> within_machine = {})
      : limit_(limit) {
    check_thread();
    detail::meet(all, limit, {"connection", -1, -1});
    communicator_ = boost::mpi::communicator(all, boost::mpi::comm_duplicate);
    rank_ = communicator_.rank();
    size_ = communicator_.size();
    is_within_machine_ = !within_machine || *within_machine;
    if (!within_machine) find_machines();
    link_ = is_within_machine_ ? inside : between;
    if (machines_ != nullptr) link_.machine = machines_->cost();
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  LinkCost link() const { return link_; }

  Limit limit() const { return limit_; }

  /// Whether all ranks run on one machine.
  bool is_within_machine() const { return is_within_machine_; }
  /// Null: they do, or nothing is known.
  const MachineTopology* machines() const { return machines_.get(); }

  void send(int to, const float* data, long floats, MessageLabel label) {
    const long segment = segment_of(to, floats);
    const int tag = tag_of(label, floats);
    for (long first = 0; first == 0 || first < floats; first += segment) {
      MPI_Request request;
      check(MPI_Isend(data + first, length(floats - first, segment), type(), to, tag, communicator_, &request), label);
      sent_.push_back({request, to, label});
    }
  }

  void expect(int from, long floats, MessageLabel label, float* to) {
    expected_.begin(*this, from, floats, label, to);
    is_expected_ = true;
  }
  template <class Use>
  void receive(int from, long floats, MessageLabel label, Use&& use) {
    if (!std::exchange(is_expected_, false)) expected_.begin(*this, from, floats, label, nullptr);
    expected_.end(*this, use);
  }
  void receive_into(int from, float* to, long floats, MessageLabel label) {
    if (!std::exchange(is_expected_, false)) expected_.begin(*this, from, floats, label, to);
    expected_.end(*this, [](const float*, long, long) {});
  }

  bool arrived(int from) {
    progress();  // nobody may call `finish` for long
    int found = 0;
    check(MPI_Iprobe(from, MPI_ANY_TAG, communicator_, &found, MPI_STATUS_IGNORE), waiting);
    return found != 0;
  }

  void finish() {
    for (Sent& message : sent_)
      if (!wait(message.request, message.label, MPI_STATUS_IGNORE))
        detail::fail_waiting(rank(), "has sent a message, which waits for", message.to, message.label, seconds());
    sent_.clear();
  }

  /// Lets MPI go on with what has been sent, and forgets what has gone; see `MachineTransport`.
  void progress() {
    while (!sent_.empty()) {
      int done = 0;
      check(MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE), waiting);
      if (done == 0) break;
      sent_.pop_front();
    }
  }
  /// Calls call() again and again while it waits.
  void call_while_waiting(Function<void()> call) { call_while_waiting_ = std::move(call); }

 private:
  static constexpr LinkCost inside{3e-6, 4e-10, 1e-9}, between{2.5e-5, 3.2e-9, 1e-9};  // by TCP with 10 Gbit/s
  static constexpr MessageLabel waiting{"waiting for messages", -1, 0};
  static constexpr long under_way = 4;

  /// Floats of each segment of a message. What Open MPI sends without asking the receiver first are up to 4 KiB between
  /// processes of one machine, with what it says itself, and 64 KiB over TCP: a message that is little longer is
  /// quicker in pieces of that. One that is much longer is not, but for those whose sums stay in the cache.
  long segment_of(int peer, long floats) const {
    constexpr long machine = 1000, machine_piece = 960, machine_segment = 68 << 10;
    constexpr long network_piece = 15 << 10, network_segment = 256 << 10;
    const bool is_near = machines_ == nullptr ? is_within_machine_ : machines_->are_together(rank_, peer);
    if (is_near) return floats > machine && floats <= 3 * machine_piece ? machine_piece : machine_segment;
    return floats <= network_segment / 4 ? network_piece : network_segment;
  }

  struct Sent {
    MPI_Request request;
    int to;
    MessageLabel label;
  };

  /// A message that is received by segments, of which a few are expected at a time: each to its place in `to`, or,
  /// where that is null, in memory of its own.
  class Incoming {
   public:
    Incoming() = default;
    Incoming(Incoming&& other) noexcept { *this = std::move(other); }
    Incoming& operator=(Incoming&& other) noexcept {
      std::swap(message_, other.message_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Incoming() { cancel(); }

    void begin(MpiTransport& transport, int from, long floats, const MessageLabel& label, float* to) {
      cancel();  // what the use of a segment has left by an exception
      message_ = {from, floats, transport.segment_of(from, floats), label, transport.tag_of(label, floats), to};
      if (const auto room = static_cast<std::size_t>(std::min(floats, under_way * message_.segment));
          to == nullptr && room > memory_.size())
        memory_.resize(room);
      while (message_.begun < under_way * message_.segment && goes_on(message_.begun)) begin_segment(transport);
    }
    /// Calls use(part, first, count) for each segment when it has come.
    template <class Use>
    void end(MpiTransport& transport, Use&& use) {
      Message& m = message_;
      while (m.ended < m.begun) {
        const long first = m.ended;
        MPI_Status status;
        if (!transport.wait(request_of(first), m.label, &status)) {
          cancel();
          detail::fail_waiting(transport.rank(), "waits for a message from", m.from, m.label, transport.seconds());
        }
        if (status.MPI_TAG != m.tag) {
          cancel();
          detail::fail_message(transport.rank(), m.from, m.label, m.floats,
                               transport.tags_.label(status.MPI_TAG, m.label), detail::unknown_length);
        }
        use(static_cast<const float*>(place(first)), first, long{length(m.floats - first, m.segment)});
        m.ended += m.segment;
        if (goes_on(m.begun)) begin_segment(transport);
      }
    }

   private:
    struct Message {
      int from = 0;
      long floats = 0, segment = 1;
      MessageLabel label;
      int tag = 0;
      float* to = nullptr;
      long begun = 0, ended = 0;  ///< the first of the segment that is expected next, and used next
      MPI_Request requests[under_way]{};
    };

    /// A message without numbers has a segment, too.
    bool goes_on(long first) const { return first == 0 || first < message_.floats; }
    MPI_Request& request_of(long first) { return message_.requests[first / message_.segment % under_way]; }
    float* place(long first) {
      const Message& m = message_;
      return m.to != nullptr ? m.to + first : memory_.data() + first / m.segment % under_way * m.segment;
    }
    void begin_segment(const MpiTransport& transport) {
      Message& m = message_;
      transport.check(MPI_Irecv(place(m.begun), length(m.floats - m.begun, m.segment), type(), m.from, MPI_ANY_TAG,
                                transport.communicator_, &request_of(m.begun)),
                      m.label);
      m.begun += m.segment;
    }
    /// From now on their memory is not MPI's.
    void cancel() {
      for (Message& m = message_; m.ended < m.begun; m.ended += m.segment) {
        MPI_Request& request = request_of(m.ended);
        if (request == MPI_REQUEST_NULL) continue;  // it has come
        MPI_Cancel(&request);
        MPI_Request_free(&request);
      }
    }

    Message message_;
    std::vector<float> memory_;
  };

  /// The last one is kept: two ranks that exchange numbers send and expect the same.
  int tag_of(const MessageLabel& label, long floats) {
    if (floats != tagged_.floats || !(label == tagged_.label)) tagged_ = {label, floats, tags_.tag(label, floats)};
    return tagged_.tag;
  }
  static MPI_Datatype type() { return boost::mpi::get_mpi_datatype<float>(); }
  static int length(long rest, long segment) { return static_cast<int>(rest < segment ? rest : segment); }
  double seconds() const { return std::chrono::duration<double>(limit_).count(); }
  void check(int result, const MessageLabel& label) const { detail::check_mpi(result, rank(), label); }

  static void check_thread() {
    static const std::thread::id first = std::this_thread::get_id();
    if (std::this_thread::get_id() != first)
      fail("MpiTransport", "a second thread connects, which may do so before or after the first one on other ranks",
           "all that use MPI to be made by one thread: trainers connect with their first step, or step_async",
           "two threads");
  }
  /// Each rank tells the others the number of its machine.
  void find_machines() {
    const std::uint64_t own = detail::number_of_machine();
    const auto n = static_cast<std::size_t>(size_);
    constexpr std::size_t words = sizeof own / sizeof(float);
    std::vector<float> message(words * n);
    std::memcpy(message.data() + words * static_cast<std::size_t>(rank_), &own, sizeof own);
    all_gather_by_ring(*this, message.data(), static_cast<long>(message.size()), {"number of the machine", -1, -1});
    finish();
    std::vector<std::uint64_t> numbers(n);
    std::memcpy(numbers.data(), message.data(), sizeof own * n);
    auto machines = std::make_unique<const MachineTopology>(numbers, inside);
    is_within_machine_ = machines->count() == 1;
    if (!is_within_machine_) machines_ = std::move(machines);
  }
  bool wait(MPI_Request& request, const MessageLabel& label, MPI_Status* status) {
    const auto has_come = [&] {
      int done = 0;
      const int result = MPI_Test(&request, &done, status);
      // Another message than the expected one may be too long for its place: its tag will tell.
      if (result != MPI_SUCCESS && (status == MPI_STATUS_IGNORE || !detail::is_truncated(result))) check(result, label);
      if (done == 0 && call_while_waiting_) call_while_waiting_();
      return done != 0;
    };
    // Whoever lets the one through that computes beside it has the processor back when the scheduler's clock ticks,
    // after 4 ms; until then a network stands idle, as MPI goes on only while somebody looks. Who has slept has it at
    // once; but to wake takes 20 us, more than what messages within a machine gain by it.
    const auto sleeps = [this] { return gives_way() && !is_within_machine_; };
    // Without a pause between two looks, unlike others: MPI's takes as long, and a message would come later by it.
    for (int look = size_ == 1 ? 0 : sleeps() ? 10 : 400; look > 0; --look)
      if (has_come()) return true;
    const auto end = std::chrono::steady_clock::now() + limit_;
    const auto rest = [=] { return end - std::chrono::steady_clock::now(); };
    while (sleeps() && rest() > Limit(0)) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      if (has_come()) return true;
    }
    return wait_until(has_come, rest(), 0);
  }

  boost::mpi::communicator communicator_;
  Limit limit_;
  int rank_ = 0, size_ = 1;
  bool is_within_machine_ = false;
  std::unique_ptr<const MachineTopology> machines_;
  LinkCost link_;
  MessageTags tags_{detail::most_mpi_tag()};
  std::deque<Sent> sent_;
  Incoming expected_;
  bool is_expected_ = false;  // it has begun
  struct {
    MessageLabel label{};
    long floats = -1;
    int tag = 0;
  } tagged_{};
  Function<void()> call_while_waiting_;
};

static_assert(KnowsMachines<MpiTransport>);

/// The world of `Distributed<MpiMessages>`: all processes that mpirun has started, which exchange messages by MPI
/// wherever they run. `time_limit` says when a wait ends.
struct MpiMessages {
  static MpiTransport connect() { return MpiTransport({}, time_limit()); }
};

/// The world of `Distributed<Mpi>`: the same processes. Those of a machine, where they are up to 16, exchange numbers
/// through memory that they share, which is several times faster; those of different machines, and all where a machine
/// has no room for that, by MPI's messages.
struct Mpi {
  using OfMachines = MachineTransport<SharedMemoryTransport, MpiTransport>;
  using Transport = EitherTransport<SharedMemoryTransport, OfMachines, MpiTransport>;

  static Transport connect() {
    MpiTransport messages = MpiMessages::connect();
    std::vector<int> machine_of_rank(static_cast<std::size_t>(messages.size()));
    if (messages.machines() != nullptr)
      for (int rank = 0; rank < messages.size(); ++rank)
        machine_of_rank[static_cast<std::size_t>(rank)] = messages.machines()->machine_of(rank);
    auto shared = share_machines(messages, MachineTopology(machine_of_rank, {}));
    if (!shared) return messages;
    if (messages.is_within_machine()) return std::move(*shared);
    return OfMachines(std::move(*shared), std::move(messages), machine_of_rank);
  }

 private:
  static constexpr int most_sharing = 16;  // their transport takes 130 KB for each pair
  static constexpr std::chrono::seconds joining{5};

  /// Memory of this rank's machine. Nothing on all ranks where those of some machine cannot share: the name that its
  /// first rank gives to the memory may mean something else in another container.
  static std::optional<SharedMemoryTransport> share_machines(MpiTransport& messages, const MachineTopology& machines) {
    if (machines.most() == 1 || machines.most() > most_sharing) return std::nullopt;
    const MessageLabel label{"memory of the machine", -1, -1};
    struct Name {
      long process, time, has_room;
      std::string text() const { return "/tenet-mpi-" + std::to_string(process) + "-" + std::to_string(time); }
    } name{getpid(), std::chrono::system_clock::now().time_since_epoch().count(), 0};
    auto group = Subgroup<MpiTransport>::of_machine(messages, machines);
    // Asked before, so that nobody waits for what cannot come: in a container there may be 64 MB, and others in it.
    if (group.rank() == 0) name.has_room = SharedMemoryTransport::has_room(name.text(), group.size());
    broadcast_value(group, 0, name, label);
    std::optional<SharedMemoryTransport> result;
    try {
      if (name.has_room != 0)
        result.emplace(name.text(), group.rank(), group.size(), messages.limit(), joining,
                       machines.ranks(machines.machine_of(messages.rank())));
    } catch (const Error&) {
    }
    float sharing = result ? 1 : 0;
    all_reduce(messages, &sharing, 1, label);
    if (sharing < static_cast<float>(messages.size())) result.reset();
    return result;
  }
};

}  // namespace tenet
