#include "tenet/parallel/micro_batches.hpp"

#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

// A batch that is cut needs the passes of a replica, and no other strategy.
static_assert(std::is_same_v<Policies<Features<16>, MicroBatches<4>>::Strategy, DataParallel<1>>);
static_assert(std::is_same_v<Policies<Single, Features<16>, Reproducible>::Strategy, DataParallel<1>>);
static_assert(std::is_same_v<Policies<DataParallel<2>, Features<16>, MicroBatches<4>>::Strategy, DataParallel<2>>);

TEST_CASE("micro-batches train in a part of the memory", "[micro_batches]") {
  using Net = networks::WholeRows;
  Trainer<Net, CrossEntropy, Sgd, Features<16>, Reference> whole{{.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  Trainer<Net, CrossEntropy, Sgd, Features<16>, Reference, MicroBatches<4>> cut{
      {.learning_rate = 0.1f, .momentum = 0.9f}, 3};
  const network::Samples<decltype(whole)> samples(16);
  for (int step = 0; step < 4; ++step) {
    const float expected = whole.step(samples.inputs.data(), samples.targets.data(), 16).loss;
    CHECK(cut.step(samples.inputs.data(), samples.targets.data(), 16).loss == Approx(expected).epsilon(1e-4));
  }
  constexpr long fixed = decltype(whole)::Training::fixed_floats;
  CHECK(cut.activation_floats() - fixed == (whole.activation_floats() - fixed) / 4);
  CHECK(cut.summary().find("\nbatch: in 4 micro-batches, one after the other\n") != std::string::npos);
  const auto expected = whole.predict(samples.inputs.data(), 10), found = cut.predict(samples.inputs.data(), 10);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-3));
}
