#include "tenet/comm/mpi.hpp"

#define CATCH_CONFIG_RUNNER
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <tenet/comm/common_memory.hpp>
#include <tenet/comm/recorded_transport.hpp>
#include <tenet/parallel/key_value_store.hpp>
#include <thread>

#include "../support/message.hpp"
#include "../support/network.hpp"
#include "../support/said_machine.hpp"

// Run by mpirun, with 1, 2, 4 and more processes: every process runs all cases.

using namespace tenet;
using namespace std::chrono_literals;

namespace {
MpiEnvironment* environment = nullptr;

static_assert(ExpectsMessages<Mpi::Transport> && ExpectsMessages<RecordedTransport<MpiTransport>>);
static_assert(!ExpectsMessages<RecordedTransport<SharedMemoryTransport>>);

}  // namespace

TEST_CASE("messages of all lengths arrive, in order", "[mpi]") {
  MpiTransport within({}, 20s, true), between({}, 20s, false);
  const int n = within.size(), next = (within.rank() + 1) % n, previous = (within.rank() + n - 1) % n;
  const long lengths[]{0, 1, 1000, 1001, 1921, 2880, 2881, 15360, 15361, 34816, 34817, 65536, 65537, 300000};
  for (std::size_t round = 0; round < 2 * std::size(lengths); ++round) {
    const long floats = lengths[round / 2];
    MpiTransport& transport = round % 2 == 0 ? within : between;
    CAPTURE(floats, transport.is_within_machine(), n);
    std::vector<std::vector<float>> sent;
    for (int m = 0; m < 3; ++m) {
      sent.push_back(network::numbers(floats, static_cast<std::uint64_t>(100 * m + transport.rank())));
      transport.send(next, sent.back().data(), floats, {"message", 1, m});
    }
    for (int m = 0; m < 3; ++m) {
      const auto expected = network::numbers(floats, static_cast<std::uint64_t>(100 * m + previous));
      long seen = 0, wrong = 0;
      if (m == 1) transport.expect(previous, floats, {"message", 1, m}, nullptr);
      transport.receive(previous, floats, {"message", 1, m}, [&](const float* part, long first, long count) {
        wrong += first != seen;
        for (long i = 0; i < count; ++i) wrong += part[i] != expected[static_cast<std::size_t>(first + i)];
        seen += count;
      });
      CHECK(seen == floats);
      CHECK(wrong == 0);
    }
    transport.finish();
  }
}

TEST_CASE("collectives give the sum, the same bits on all ranks", "[mpi]") {
  MpiTransport transport({}, 20s);
  const int n = transport.size();
  for (const long floats : {1L, 100L, 5000L, 300000L}) {
    for (const int way : {0, 1, 2}) {
      CAPTURE(floats, way, n);
      std::vector<float> data = network::numbers(floats, static_cast<std::uint64_t>(transport.rank()));
      const MessageLabel label{"bucket", 7, way};
      const float weight = 0.5f + static_cast<float>(transport.rank());
      if (way == 0) all_reduce_by_ring(transport, data.data(), floats, label, weight);
      if (way == 1) all_reduce_by_doubling(transport, data.data(), floats, label, weight);
      if (way == 2) all_reduce(transport, data.data(), floats, label, weight);
      double worst = 0;
      std::vector<double> expected(static_cast<std::size_t>(floats));
      for (int rank = 0; rank < n; ++rank) {
        const auto of_rank = network::numbers(floats, static_cast<std::uint64_t>(rank));
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += (0.5 + rank) * of_rank[i];
      }
      for (std::size_t i = 0; i < expected.size(); ++i) worst = std::fmax(worst, std::fabs(data[i] - expected[i]));
      CHECK(worst < 1e-5);
      std::vector<float> of_root = data;
      broadcast(transport, n - 1, of_root.data(), floats, {"sum", 1, way});
      CHECK(of_root == data);
    }
  }
}

TEST_CASE("a message that does not come is named, and the transport of others goes on", "[mpi]") {
  const int rank = environment->rank(), n = environment->size();
  MpiTransport transport({}, 300ms), others({}, 20s);
  if (n > 1 && rank == 0) {
    const std::string message = message_of([&] {
      transport.receive(1, 100000, {"bucket", 3, 17}, [](const float*, long, long) {});
    });
    CHECK(message ==
          "rank 0, bucket 3 of step 17: waits for a message from rank 1; expected within 0.3 s, found nothing");
  }
  barrier(others, {"barrier", 0, 0});
}

TEST_CASE("between machines a thread beside which another one computes sleeps between two looks", "[mpi]") {
  const int rank = environment->rank(), n = environment->size();
  if (n == 1) return;
  for (const bool is_within : {true, false})
    for (const bool is_computing : {true, false}) {
      CAPTURE(is_within, is_computing);
      MpiTransport transport({}, 20s, is_within);
      const MessageLabel label{"late", 0, 1};
      barrier(transport, {"barrier", 0, 0});
      if (rank == 0) {
        std::this_thread::sleep_for(40ms);
        for (int to = 1; to < n; ++to) transport.send(to, nullptr, 0, label);
        transport.finish();
        continue;
      }
      long looks = 0;
      transport.call_while_waiting([&] { ++looks; });
      const std::atomic<bool> computes{is_computing};
      computes_beside = &computes;
      const auto begin = std::chrono::steady_clock::now();
      transport.receive(0, 0, label, [](const float*, long, long) {});
      const auto most_sleeps = (std::chrono::steady_clock::now() - begin) / 100us;
      computes_beside = nullptr;
      if (is_computing && !is_within)
        CHECK(looks <= 10 + most_sleeps);
      else
        CHECK(looks >= 400);
    }
}

TEST_CASE("a message about something else than what is expected is told from it", "[mpi]") {
  const int rank = environment->rank(), n = environment->size();
  if (n == 1) return;
  const std::vector<float> sent(3000);
  std::vector<float> received(sent.size());
  struct Case {
    MessageLabel sent;
    long floats;
    const char* found;
  };
  const Case cases[]{{{"bucket", 3, 18}, 10, "bucket 3 of step 18"},
                     {{"bucket", 4, 17}, 10, "bucket 4 of step 17"},
                     {{"number of samples", -1, 17}, 10, "bucket of step 17"},
                     {{"bucket", 3, 17}, 5, "bucket 3 of step 17 with another number of them"},
                     {{"bucket", 3, 17}, 11, "bucket 3 of step 17 with another number of them"},
                     {{"bucket", 3, 17}, 3000, "bucket 3 of step 17 with another number of them"}};
  for (const Case& wrong : cases) {
    CAPTURE(wrong.found);
    MpiTransport transport({}, 20s), others({}, 20s);
    if (rank == 1) transport.send(0, sent.data(), wrong.floats, wrong.sent);
    if (rank == 0) {
      const std::string message = message_of([&] {
        transport.receive_into(1, received.data(), 10, {"bucket", 3, 17});
      });
      CHECK(message == "rank 0: rank 1 sent another message; expected bucket 3 of step 17 with 10 numbers, found " +
                           std::string(wrong.found));
    }
    barrier(others, {"barrier", 0, 0});
  }
}

TEST_CASE("transports do not take each other's messages", "[mpi]") {
  MpiTransport first({}, 20s), second({}, 20s);
  const int n = first.size(), next = (first.rank() + 1) % n, previous = (first.rank() + n - 1) % n;
  const float one = 1, two = 2;
  float found = 0;
  first.send(next, &one, 1, {"number", 0, 0});
  second.send(next, &two, 1, {"number", 0, 0});
  second.receive_into(previous, &found, 1, {"number", 0, 0});
  CHECK(found == 2);
  first.receive_into(previous, &found, 1, {"number", 0, 0});
  CHECK(found == 1);
  first.finish();
  second.finish();
}

TEST_CASE("a second thread does not connect: the order would differ from rank to rank", "[mpi]") {
  std::string message;
  std::thread([&] { message = message_of([] { Mpi::connect(); }); }).join();
  CHECK(message ==
        "MpiTransport: a second thread connects, which may do so before or after the first one on other ranks; "
        "expected all that use MPI to be made by one thread: trainers connect with their first step, or step_async, "
        "found two threads");
}

TEST_CASE("MPI is asked to let several threads communicate, and what it gives is looked at", "[mpi]") {
  namespace threading = boost::mpi::threading;
  CHECK(boost::mpi::environment::thread_level() == threading::multiple);
  CHECK(message_of([] { MpiEnvironment::check_threads(threading::serialized); }) ==
        "MpiEnvironment: MPI does not let several threads communicate at once; expected MPI_THREAD_MULTIPLE, found 2");
}

TEST_CASE("what a message costs follows from where the ranks run", "[mpi][one_machine]") {
  const LinkCost here = MpiTransport({}, 20s, true).link(), there = MpiTransport({}, 20s, false).link();
  CHECK(MpiTransport({}, 20s).link().seconds == here.seconds);  // mpirun has started them on this machine
  CHECK(there.seconds > here.seconds);
  CHECK(there.seconds_per_float > here.seconds_per_float);
}

TEST_CASE("ranks that tools/mpirun.sh starts keep to processors of their own, where there are enough", "[mpi]") {
  const ProcessorSet own = own_processors();
  ProcessorSet all;
  MPI_Allreduce(own.bits, all.bits, 16, MPI_UINT64_T, MPI_BOR, MPI_COMM_WORLD);
  const int ranks = boost::mpi::communicator().size();
  if (all.count() < ranks)
    CHECK(own.count() == all.count());
  else
    CHECK(ranks * own.count() <= all.count());
}

TEST_CASE("ranks of one machine share its memory", "[mpi][one_machine]") {
  Mpi::Transport transport = Mpi::connect();
  const int n = transport.size();
  CHECK(transport.rank() == environment->rank());
  REQUIRE(transport.is<SharedMemoryTransport>() == (n > 1));
  constexpr long floats = 100'000;
  std::vector<float> own(floats);
  for (const bool shares : {true, false}) {
    float* const data = shares && n > 1 ? transport.memory(floats) : own.data();
    REQUIRE(data != nullptr);
    for (int step = 0; step < 3; ++step) {
      std::fill_n(data, floats, static_cast<float>(1 + transport.rank()));
      all_reduce(transport, data, floats, {"numbers", shares, step});
      CHECK(std::count(data, data + floats, static_cast<float>(n * (n + 1) / 2)) == floats);
    }
  }
}

namespace {

/// Machines of so many ranks, the last one of those that are left.
std::vector<int> machines_of(int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < environment->size(); ++rank) result.push_back(rank / ranks);
  return result;
}

}  // namespace

TEST_CASE("ranks of several machines share the memory of each and exchange messages between them", "[mpi]") {
  const int n = environment->size(), rank = environment->rank();
  for (const int of_machine : {1, 2, 3}) {
    const SaidMachine said(rank / of_machine);
    Mpi::Transport transport = Mpi::connect();
    CAPTURE(n, of_machine);
    const MachineTopology expected(machines_of(of_machine), {});
    REQUIRE(transport.is<Mpi::OfMachines>() == (expected.count() > 1 && of_machine > 1));
    REQUIRE(transport.is<MpiTransport>() == (of_machine == 1 || n == 1));
    REQUIRE((transport.machines() != nullptr) == (expected.count() > 1));
    CHECK(transport.link().machine.count == expected.count());
    CHECK(transport.link().machine.most == (expected.count() > 1 ? expected.most() : 1));
    CHECK(transport.link().machine.shares == transport.is<Mpi::OfMachines>());
    CHECK(MpiMessages::connect().link().machine.count == expected.count());
    for (int other = 0; other < n && expected.count() > 1; ++other)
      CHECK(transport.machines()->machine_of(other) == expected.machine_of(other));
    for (const bool shares : {true, false})
      for (const long floats : {1L, 100L, 5000L, 300'000L}) {
        CAPTURE(shares, floats);
        std::vector<float> own(static_cast<std::size_t>(floats));
        const OwnNumbers memory(transport, floats);
        float* const data = shares ? memory.data() : own.data();
        for (int step = 0; step < 3; ++step) {
          std::fill_n(data, floats, static_cast<float>(1 + rank));
          all_reduce(transport, data, floats, {"numbers", shares, step});
          CHECK(std::count(data, data + floats, static_cast<float>(n * (n + 1) / 2)) == floats);
          for (const bool rings : {false, true}) {
            std::fill_n(data, floats, static_cast<float>(1 + rank));
            const auto outer = [](auto& group, auto... arguments) { all_reduce_by_ring(group, arguments...); };
            if (transport.machines() == nullptr) continue;
            all_reduce_by_parts_of_machines(transport, *transport.machines(), data, floats, {"numbers", shares, step},
                                            0.5f, rings, outer);
            CHECK(std::count(data, data + floats, 0.5f * static_cast<float>(n * (n + 1) / 2)) == floats);
          }
        }
      }
    // MachineTopology of a power of two ranks have the bits of one machine.
    if (of_machine == 3 || (n & (n - 1)) != 0) continue;
    MpiTransport one({}, 20s, true);
    for (const long floats : {3L, 700L, 50'000L}) {
      std::vector<float> data = network::numbers(floats, static_cast<std::uint64_t>(rank)), same = data;
      all_reduce(transport, data.data(), floats, {"numbers", 0, 0}, 1.0f / 3);
      all_reduce(one, same.data(), floats, {"numbers", 0, 0}, 1.0f / 3);
      CHECK(data == same);
    }
  }
}

TEST_CASE("errors between ranks of a machine name them by their numbers among all", "[mpi]") {
  const int n = environment->size(), rank = environment->rank();
  if (n < 4) return;
  MpiTransport others({}, 20s);
  const SaidMachine said(rank / 2);
  setenv("TENET_TIMEOUT", "0.3", 1);
  {
    Mpi::Transport transport = Mpi::connect();
    float number = 0;
    if (rank == 3)
      CHECK(message_of([&] {
              transport.receive_into(2, &number, 1, {"bucket", 3, 17});
            }) == "rank 3, bucket 3 of step 17: waits for a message from rank 2; expected within 0.3 s, found nothing");
    if (rank == 0)
      CHECK(message_of([&] {
              transport.receive_into(2, &number, 1, {"bucket", 3, 17});
            }) == "rank 0, bucket 3 of step 17: waits for a message from rank 2; expected within 0.3 s, found nothing");
    barrier(others, {"barrier", 0, 0});
  }
  unsetenv("TENET_TIMEOUT");
}

TEST_CASE("what a rank has sent within its machine goes on while it waits for another one", "[mpi]") {
  const int n = environment->size(), rank = environment->rank();
  if (n < 4) return;
  // Rank 0 sends rank 1 more than there are slots for, and waits for a message that comes when rank 1 has it all. Then
  // it sends rank 2 more than MPI sends at once, and waits for rank 1, who waits for rank 2.
  constexpr long many = 1'000'000;
  const SaidMachine said(rank / 2);
  Mpi::Transport transport = Mpi::connect();
  std::vector<float> numbers(many, static_cast<float>(rank));
  float token = 0;
  const MessageLabel label{"numbers", 0, 0};
  if (rank == 0) {
    transport.send(1, numbers.data(), many, label);
    transport.receive_into(2, &token, 1, label);
    transport.send(2, numbers.data(), many, label);
    transport.receive_into(1, &token, 1, label);
  } else if (rank == 1) {
    std::this_thread::sleep_for(20ms);
    transport.receive_into(0, numbers.data(), many, label);
    transport.send(2, &token, 1, label);
    transport.receive_into(2, &token, 1, label);
    transport.send(0, &token, 1, label);
  } else if (rank == 2) {
    transport.receive_into(1, &token, 1, label);
    transport.send(0, &token, 1, label);
    std::this_thread::sleep_for(20ms);
    transport.receive_into(0, numbers.data(), many, label);
    CHECK(std::count(numbers.begin(), numbers.end(), 0.0f) == many);
    transport.send(1, &token, 1, label);
  }
  transport.finish();
  barrier(transport, {"barrier", 0, 0});
}

TEST_CASE("where the machine has no room for memory to share, its ranks exchange messages", "[mpi]") {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{1 << 16, before.rlim_max};  // bytes of a file: the first rank makes it
  if (environment->rank() == 0) setrlimit(RLIMIT_FSIZE, &little);
  const auto begin = std::chrono::steady_clock::now();
  Mpi::Transport transport = Mpi::connect();
  CHECK(std::chrono::steady_clock::now() - begin < 4s);  // nobody waits until all have joined, for 5 s
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(transport.is<MpiTransport>());
  CHECK(transport.memory(10) == nullptr);
  const OwnNumbers numbers(transport, 1000);
  std::fill_n(numbers.data(), 1000, 1.0f);
  all_reduce(transport, numbers.data(), 1000, {"numbers", 0, 1});
  CHECK(numbers.data()[999] == static_cast<float>(transport.size()));
}

TEST_CASE("ranks that are started on machines of some each are there", "[mpi]") {
  const char* const said = std::getenv("RANKS_OF_MACHINE");  // as tools/over_tcp.sh does
  if (said == nullptr) return;
  const int of_machine = std::atoi(said);
  const MpiTransport transport({}, 20s);
  REQUIRE(transport.machines() != nullptr);
  CHECK(transport.machines()->count() * of_machine == transport.size());
  CHECK(transport.machines()->most() == of_machine);
  CHECK(transport.machines()->machine_of(transport.rank()) == transport.rank() / of_machine);
}

TEST_CASE("where a rank cannot join the others' memory, all exchange messages", "[mpi]") {
  rlimit before;
  getrlimit(RLIMIT_AS, &before);
  const rlimit little{1UL << 35, before.rlim_max};  // of addresses, of which the memory keeps 64 GiB
  if (environment->rank() == environment->size() - 1) setrlimit(RLIMIT_AS, &little);
  Mpi::Transport transport = Mpi::connect();
  setrlimit(RLIMIT_AS, &before);
  if (environment->size() > 1) CHECK(transport.is<MpiTransport>());
  float number = 1;
  all_reduce(transport, &number, 1, {"number", 0, 1});
  CHECK(number == static_cast<float>(transport.size()));
}

TEST_CASE("where one of several machines has no room, all ranks exchange messages", "[mpi]") {
  const int n = environment->size(), rank = environment->rank();
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{1 << 16, before.rlim_max};
  const SaidMachine said(rank / 2);
  if (rank == (n - 1) / 2 * 2) setrlimit(RLIMIT_FSIZE, &little);
  Mpi::Transport transport = Mpi::connect();
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(transport.is<MpiTransport>());
  CHECK((transport.machines() != nullptr) == (n > 2));
  std::vector<float> numbers(5000, 1.0f);
  all_reduce(transport, numbers.data(), 5000, {"numbers", 0, 1});
  CHECK(numbers[4999] == static_cast<float>(n));
}

TEST_CASE("a key-value store adds up what ranks push, and says what a server does not answer", "[mpi]") {
  const int rank = environment->rank(), n = environment->size();
  {
    KeyValueStore store(MpiTransport({}, 20s), {.limit = 20s});
    for (const int key : {0, 1, 2}) {
      const std::vector<float> values = network::numbers(key == 2 ? 200'000 : 10, 7);
      std::vector<float> found(values.size());
      if (rank == 0) store.assign(key, found).wait();
      for (int step = 0; step < 3; ++step) {
        PendingRequest pushed = store.push(key, values), pulled = store.pull(key, found);
        pushed.wait();
        pulled.wait();
        double worst = 0;
        for (std::size_t i = 0; i < found.size(); ++i)
          worst = std::fmax(worst, std::fabs(found[i] - static_cast<float>(n) * values[i]));
        CHECK(worst < 1e-5 * n);
      }
    }
    store.synchronize();
  }
  KeyValueStore store(MpiTransport({}, 20s), {.servers = {n - 1}, .limit = 300ms});
  float value = 0;
  const std::string message = message_of([&] { store.pull(4, {&value, 1}).wait(); });  // nobody has assigned it
  CAPTURE(message);
  // For whom the server waits it says only if it came here in time, too.
  CHECK(message.find("rank " + std::to_string(rank) + ", pull of key 4: waits for server " + std::to_string(n - 1)) ==
        0);
  CHECK(message.find("; expected within 0.3 s, found no answer") != std::string::npos);
}

namespace {

/// The last rank comes when the others have given up, caught the error, saved what they had and left `main`.
int wait_for_a_late_rank() {
  if (environment->rank() == environment->size() - 1) std::this_thread::sleep_for(60s);
  std::fprintf(stderr, "%s, and saves\n", message_of([] { Mpi::connect(); }).c_str());
  return EXIT_SUCCESS;
}

/// The last rank has connected, and sends nothing: in memory that they share.
int wait_for_a_silent_rank() {
  Mpi::Transport transport = Mpi::connect();
  const int last = transport.size() - 1;
  if (transport.rank() == last) std::this_thread::sleep_for(60s);
  float number = 0;
  std::fprintf(stderr, "%s, and saves\n", message_of([&] {
                                            transport.receive_into(last, &number, 1, {"bucket", 3, 17});
                                          }).c_str());
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  environment = &mpi;
  if (argc == 2 && std::string(argv[1]) == "--late") return wait_for_a_late_rank();
  if (argc == 2 && std::string(argv[1]) == "--silent") return wait_for_a_silent_rank();
  return Catch::Session().run(argc, argv);
}
