#include "tenet/parallel/traffic.hpp"

#include <catch2/catch.hpp>
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/parallel/micro_batches.hpp>
#include <tenet/parallel/parameter_server.hpp>
#include <tenet/parallel/sharded_optimizer.hpp>
#include <tenet/tenet.hpp>

#include "../support/far_device.hpp"
#include "../support/thread_world.hpp"

using namespace tenet;

namespace {

/// What a summary says of the synchronisation, without "synchronisation: " and the end of the line.
template <class Net, class Input, class... Tags>
std::string line() {
  using T = Trainer<Net, CrossEntropy, PlainSgd, Input, Reference, Tags...>;
  const std::string text = detail::synchronisation_text<typename T::Chosen, typename T::Training>();
  const std::string begin = "synchronisation: ";
  const std::size_t at = text.find(begin);
  if (at == std::string::npos || text.back() != '\n') return "without: " + text;
  return text.substr(at + begin.size(), text.size() - at - begin.size() - 1);
}

/// 784 · 16 + 16 and 16 · 8 + 8 parameters: multiples of 16 but for the last, so that nothing is added to the first
/// three tensors.
struct Net : Sequential<Linear<784, 16>, ReLU, Linear<16, 8>> {};
constexpr long floats = Weights<Net>::table.parameter_floats;
static_assert(floats >= 12'696 && floats <= 12'704);
template <class... Tags>
std::string net() {
  return line<Net, Features<784>, Tags...>();
}
template <class... Tags>
std::string rank() {
  return net<Distributed<ThreadWorld>, Tags...>();
}
std::string bytes(double of_floats) { return detail::bytes_text(4 * of_floats); }
const std::string all = bytes(floats), in_one_bucket = " a step, in 1 bucket, the first after ";

bool begins(const std::string& text, const std::string& with) {
  CAPTURE(text, with);
  CHECK(text.substr(0, with.size()) == with);
  return text.substr(0, with.size()) == with;
}

/// With a table of which a batch updates some rows.
struct Clicks {
  Embedding<100, 8, Sparse> words;
  Linear<8, 2> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(words(tokens))); }
};

/// A synchronisation of a user's, who says nothing about it.
struct Unknown {
  static constexpr const char* name = "unknown";
  static constexpr bool sends_buckets = true;
  using Place = Sharded;
  template <class T>
  static void reduce(T& transport, float* data, long count, MessageLabel label, float weight) {
    all_reduce(transport, data, count, label, weight);
  }
};

}  // namespace

TEST_CASE("replicas that share parameters send nothing", "[traffic]") {
  const std::string nothing = " (synchronous); nothing is sent";
  CHECK(net<>() == "without: ");
  CHECK(net<DataParallel<2>>() == "direct" + nothing);
  CHECK(net<MicroBatches<4>>() == "direct" + nothing);
  CHECK(net<Reproducible>() == "direct" + nothing);
  CHECK(net<DataParallel<2>, ParameterServer<>>() == "bulk-synchronous parameter server" + nothing);
  CHECK(net<DataParallel<2>, ParameterServer<OnCpu>>() == "bulk-synchronous parameter server on the CPU" + nothing);
  CHECK(net<DataParallel<2>, Hogwild<8>>() == "Hogwild! with updates by 8 samples; nothing is sent");
  CHECK(line<Clicks, Tokens<32>, DataParallel<2>, Hogwild<8>>() ==
        "Hogwild! with updates by 8 samples, of the rows that these choose; nothing is sent");
  begins(net<DataParallel<1>, Ring>(), "ring" + nothing + ", in 1 bucket, the first after ");
}

TEST_CASE("replicas that send buckets send their parts of them", "[traffic]") {
  const auto sent = [](const char* name, int devices, const std::string& what) {
    return name + std::string(" (synchronous); each of ") + std::to_string(devices) + " devices sends " + what +
           " of gradients";
  };
  begins(net<DataParallel<2>, Ring>(), sent("ring", 2, all) + in_one_bucket);
  begins(net<DataParallel<8>, Ring>(), sent("ring", 8, bytes(floats * 14.0 / 8)) + in_one_bucket);
  begins(net<DataParallel<2>, AllReduce>(), sent("all-reduce", 2, "at most " + all) + in_one_bucket);
  begins(net<DataParallel<8>, AllReduce>(), sent("all-reduce", 8, "at most " + bytes(3.0 * floats)) + in_one_bucket);
  begins(net<DataParallel<2>, Ring, BucketBytes<512>>(), sent("ring", 2, all) + " a step, in 2 buckets, ");
}

TEST_CASE("devices with memories of their own send gradients to each other, or to who owns their parameters",
          "[traffic]") {
  const auto of_devices = []<class... Tags>() {
    return Policies<Features<784>, far::Device, DataParallel<2>, Tags...>::traffic();
  };
  CHECK(of_devices().gradients == &detail::all_reduce_moves);
  CHECK(of_devices.operator()<ParameterServer<>>().gradients == &detail::push_moves<Sharded>);
  CHECK(of_devices.operator()<ParameterServer<>>().parameters == &detail::pull_moves<Sharded>);
  CHECK(of_devices.operator()<ParameterServer<OnCpu>>().gradients == &detail::push_moves<OnCpu>);
  CHECK(of_devices.operator()<ParameterServer<OnCpu>>().parameters == &detail::pull_moves<OnCpu>);
}

TEST_CASE("of ranks, whose number is not known, the summary has formulas", "[traffic]") {
  begins(rank<>(),
         "all-reduce (synchronous); each of n ranks sends at most ⌈log₂ n⌉ · " + all + " of gradients" + in_one_bucket);
  const std::string ring =
      "ring (synchronous); each of n ranks sends 2 (n - 1)/n · " + all + " of gradients" + in_one_bucket;
  begins(rank<Ring>(), ring);
  begins(net<Distributed<ThreadWorld, DataParallel<2>>, Ring>(), ring);
  begins(rank<ShardedOptimizer>(), "sharded optimizer (synchronous); each of n ranks sends (n - 1)/n · " + all +
                                       " of gradients and sends (n - 1)/n · " + all + " of parameters" + in_one_bucket);
  CHECK(rank<LocalSgd<8>>() == "local SGD (at most 7 steps ahead); each of n ranks sends at most ⌈log₂ n⌉ · " + all +
                                   " of parameters every 8 steps, 1/8 of it a step");
  begins(rank<LocalSgd<2>>(), "local SGD (at most 1 step ahead); ");
  CHECK(rank<LocalSgd<1>>() ==
        "local SGD (synchronous); each of n ranks sends at most ⌈log₂ n⌉ · " + all + " of parameters a step");
}

TEST_CASE("ranks push to servers and pull from them, as far ahead as these allow", "[traffic]") {
  const std::string moves =
      "; each of n ranks pushes " + all + " of gradients and pulls " + all + " of parameters" + in_one_bucket;
  begins(rank<ParameterServer<>>(), "bulk-synchronous parameter server (synchronous)" + moves);
  begins(rank<ParameterServer<OnCpu, Asynchronous>>(),
         "asynchronous parameter server on the CPU (any number of steps ahead)" + moves);
  begins(rank<ParameterServer<OnRank<0>, BoundedStaleness<3>>>(),
         "parameter server of bounded staleness (at most 3 steps ahead)" + moves);
  begins(rank<ParameterServer<Sharded, Asynchronous>>(),
         "asynchronous parameter server (any number of steps ahead)" + moves);
}

TEST_CASE("a synchronisation that says nothing of what it sends is not known", "[traffic]") {
  begins(net<DataParallel<2>, Unknown>(), "unknown; what is sent is not known, in 1 bucket, ");
  static_assert(!Policies<Features<784>, DataParallel<2>, Unknown>::traffic().has_formula());
}

TEST_CASE("sums over the batch are sent besides", "[traffic]") {
  using Normalized = Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, Flatten, Linear<2704, 3>>;
  const auto normalized = []<class... Tags>() { return line<Normalized, Image<1, 28, 28>, SyncBatchNorm, Tags...>(); };
  const auto ends = [](const std::string& text, const std::string& with) {
    CAPTURE(text);
    CHECK(text.ends_with("; in its passes 4 sums over all workers, of 64 bytes together" + with));
  };
  ends(normalized.operator()<DataParallel<1>>(), "");
  ends(normalized.operator()<DataParallel<2>>(), ", for which each sends at most 64 bytes");
  ends(normalized.operator()<DataParallel<8>>(), ", for which each sends at most 192 bytes");
  ends(normalized.operator()<Distributed<ThreadWorld>>(), ", for which each sends at most ⌈log₂ n⌉ · 64 bytes");
}

TEST_CASE("times of what moves are those of the collectives", "[traffic]") {
  const LinkCost link{.seconds = 1, .seconds_per_float = 0.01, .seconds_per_sum = 0.002};
  const auto seconds = [&](const Moving& moving, int workers) { return moving.seconds(workers, 1600, link); };
  CHECK(seconds(detail::scatter_moves, 4) == Approx(2 + 3 * 400 * 0.012));
  CHECK(seconds(detail::gather_moves, 4) == Approx(2 + 3 * 400 * 0.01));
  CHECK(seconds(detail::scatter_moves, 5) == Approx(4 * (1 + 320 * 0.012)));
  CHECK(seconds(detail::gather_moves, 5) == Approx(4 * (1 + 320 * 0.01)));
  CHECK(seconds(detail::ring_moves, 4) == Approx(3 * (2 + 400 * 0.022)));
  CHECK(seconds(detail::all_reduce_moves, 4) == AllReduceTimes(4, 1600, link).least());
  CHECK(detail::ring_moves.seconds(200, 1600, link) == AllReduceTimes(200, 1600, link).least());  // too few for parts
  // A server has to do with what all others send it: of numbers that are cut, an n-th; of others, all.
  CHECK(seconds(detail::push_moves<Sharded>, 4) == Approx(1 + 3 * 1600 * 0.012));
  CHECK(seconds(detail::pull_moves<Sharded>, 4) == Approx(1 + 3 * 1600 * 0.01));
  CHECK(detail::push_moves<Sharded>.seconds(4, 65536, link) == Approx(1 + 3 * 16384 * 0.012));
  CHECK(detail::pull_moves<Sharded>.seconds(4, 65536, link) == Approx(1 + 3 * 16384 * 0.01));
  CHECK(detail::push_moves<OnRank<2>>.seconds(4, 65536, link) == Approx(1 + 3 * 65536 * 0.012));
  for (const Moving* moving : {&detail::scatter_moves, &detail::gather_moves, &detail::ring_moves}) {
    CHECK(seconds(*moving, 1) == 0);
    CHECK(moving->moved(1, 1600) == 0);
  }
}
