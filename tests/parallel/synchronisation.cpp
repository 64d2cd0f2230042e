#include "tenet/parallel/synchronisation.hpp"

#include <tenet/parallel/data_parallel.hpp>
#include <tenet/tenet.hpp>

#include "../support/ranks.hpp"

using namespace tenet;

static_assert(std::is_same_v<Policies<Features<2>, DataParallel<2>>::Synchronisation, Direct>);
static_assert(std::is_same_v<Policies<Ring, Features<2>, DataParallel<2>>::Synchronisation, Ring>);
static_assert(std::is_void_v<Policies<Features<2>>::Synchronisation>);
static_assert(Policies<Ring, Features<2>, DataParallel<2>, BucketBytes<4096>>::Buckets::bucket_bytes == 4096);

namespace {

/// Counts what a rank sends.
struct Counting {
  ThreadTransport transport;
  LinkCost cost;
  int messages = 0;
  long floats = 0;
  int rank() const { return transport.rank(); }
  int size() const { return transport.size(); }
  LinkCost link() const { return cost; }
  std::chrono::nanoseconds limit() const { return transport.limit(); }
  bool arrived(int from) { return transport.arrived(from); }
  void send(int to, const float* data, long count, MessageLabel label) {
    ++messages;
    floats += count;
    transport.send(to, data, count, label);
  }
  void receive(int from, long count, MessageLabel label, auto use) { transport.receive(from, count, label, use); }
  void receive_into(int from, float* to, long count, MessageLabel label) {
    transport.receive_into(from, to, count, label);
  }
  void finish() { transport.finish(); }
};

/// Messages and floats that rank 0 of 4, or as many as are asked for, sends to reduce so many floats.
template <class Synchronisation>
std::pair<int, long> sent_by(long floats, LinkCost cost, int ranks = 4) {
  std::pair<int, long> result;
  ranks::run_well(ranks, [&](ThreadTransport& transport) {
    Counting counting{transport, cost};
    std::vector<float> data(static_cast<std::size_t>(floats), 1.0f);
    Synchronisation::reduce(counting, data.data(), floats, {"bucket", 0, 1}, 0.5f);
    for (const float value : data)
      if (value != 0.5f * static_cast<float>(ranks))
        fail("reduce", "wrong sum", std::to_string(0.5 * ranks), std::to_string(value));
    if (transport.rank() == 0) result = {counting.messages, counting.floats};
  });
  return result;
}

}  // namespace

TEST_CASE("a ring sends 2 (n - 1) / n of the numbers, whatever the link", "[synchronisation]") {
  for (const LinkCost& cost : {LinkCost{1e-6, 1e-9, 0}, LinkCost{1, 1e-9, 0}})
    CHECK(sent_by<Ring>(6400, cost) == std::pair{6, 9600L});
}

TEST_CASE("AllReduce takes the way that takes least time", "[synchronisation]") {
  CHECK(sent_by<AllReduce>(6400, {1e-6, 1e-6, 0}) == std::pair{4, 9600L});   // halving: sending takes longest
  CHECK(sent_by<AllReduce>(6400, {1e-1, 1e-9, 0}) == std::pair{2, 12800L});  // doubling: waiting takes longest
}

TEST_CASE("a synchronisation says how much a rank sends", "[synchronisation]") {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const long floats = 1920 * ranks;
    const auto sent = [&]<class Synchronisation>(LinkCost cost) {
      return static_cast<double>(sent_by<Synchronisation>(floats, cost, ranks).second);
    };
    const auto said = [&]<class Synchronisation>() { return Synchronisation::traffic.gradients->moved(ranks, floats); };
    CAPTURE(ranks);
    CHECK(sent.operator()<Ring>({1e-6, 1e-9, 0}) == said.operator()<Ring>());
    // By halving or a ring, and by doubling, where rank 0 has one round more if ranks are no power of two.
    CHECK(sent.operator()<AllReduce>({1e-6, 1e-6, 0}) <= said.operator()<AllReduce>());
    CHECK(sent.operator()<AllReduce>({1e-1, 1e-9, 0}) == said.operator()<AllReduce>());
  }
  static_assert(!Direct::traffic.moves());
}
