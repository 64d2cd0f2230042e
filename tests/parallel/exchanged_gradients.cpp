#include "tenet/parallel/exchanged_gradients.hpp"

#include <catch2/catch.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "tenet/comm/thread_transport.hpp"
#include "tenet/parallel/parameter_server.hpp"
#include "tenet/parallel/sharded_optimizer.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Conv2d<1, 4, 3>, BatchNorm2d<4>, ReLU, Flatten, Linear<16, 3>> {};
struct Plain : Sequential<Flatten, Linear<16, 3>> {};
template <class Network>
using ProgramOf = Trainer<Network, CrossEntropy, Sgd, Image<1, 4, 4>, far::Device>::Training;

}  // namespace

TEST_CASE("each bucket leaves behind the steps that make it, running statistics at the end",
          "[parallel][exchanged_gradients]") {
  using P = ProgramOf<Net>;
  using Exchanges = ExchangedGradients<P, AllReduce, 64, ThreadTransport>;
  REQUIRE(Exchanges::all.size() >= 3);
  long floats = 0;
  for (std::size_t i = 0; i + 1 < Exchanges::all.size(); ++i) {
    const Exchange& exchange = Exchanges::all[i];
    CHECK(exchange.arena == Arena::gradients);
    CHECK(exchange.after <= P::lowered.first_update);
    CHECK((i == 0 || exchange.after >= Exchanges::all[i - 1].after));
    floats += exchange.floats;
  }
  CHECK(Exchanges::all[0].after < P::lowered.first_update);
  CHECK(floats == P::slots.parameter_floats);
  const Exchange& last = Exchanges::all.back();
  CHECK(last.arena == Arena::buffers);
  CHECK(last.floats == P::slots.buffer_floats);
  CHECK(last.after == P::lowered.used.steps);
  using OfPlain = ExchangedGradients<ProgramOf<Plain>, AllReduce, 1 << 20, ThreadTransport>;
  CHECK(OfPlain::all.size() == 1);  // no running statistics
}

TEST_CASE("where parts have owners, their parameters go round behind the update", "[parallel][exchanged_gradients]") {
  using P = ProgramOf<Net>;
  using Exchanges = ExchangedGradients<P, ShardedOptimizer, 64, ThreadTransport>;
  using OfAll = ExchangedGradients<P, AllReduce, 64, ThreadTransport>;
  const std::size_t buckets = OfAll::all.size() - 1;
  REQUIRE(Exchanges::all.size() == 2 * buckets + 1);
  for (std::size_t b = 0; b < buckets; ++b) {
    const Exchange &gradients = Exchanges::all[b], &parameters = Exchanges::all[buckets + b];
    CHECK(gradients.after == OfAll::all[b].after);
    CHECK(parameters.arena == Arena::parameters);
    CHECK(parameters.first == gradients.first);
    CHECK(parameters.floats == gradients.floats);
    CHECK(parameters.after == P::lowered.after_update);
  }
  CHECK(Exchanges::all.back().arena == Arena::buffers);
}

TEST_CASE("a server that is no rank is an error", "[parallel][exchanged_gradients]") {
  ThreadNetwork network(2);
  far::Executor executor(0);
  ExchangedGradients<ProgramOf<Plain>, ParameterServer<OnRank<2>>, 64, ThreadTransport> exchanges;
  CHECK(message_of([&] { exchanges.connect(executor, ThreadTransport(network, 0)); }) ==
        "ParameterServer: no such server; expected a rank from 0 to 1, found 2");
}
