#include "tenet/parallel/exchanged_gradients.hpp"

#include <catch2/catch.hpp>

#include "../support/far_device.hpp"
#include "tenet/comm/thread_transport.hpp"
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
  using Exchanges = ExchangedGradients<P, 64, ThreadTransport>;
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
  using OfPlain = ExchangedGradients<ProgramOf<Plain>, 1 << 20, ThreadTransport>;
  CHECK(OfPlain::all.size() == 1);  // no running statistics
}
