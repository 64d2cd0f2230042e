#include "tenet/parallel/strategy.hpp"

#include <tenet/tenet.hpp>

#include "../support/network.hpp"
#include "../support/networks.hpp"

using namespace tenet;

// The strategy is found among the tags, and the programs are the same: they are compiled once for all strategies.
using Plain = Trainer<networks::WholeRows, CrossEntropy, Sgd, Features<16>>;
using Parallel = Trainer<networks::WholeRows, CrossEntropy, Sgd, DataParallel<2>, Features<16>>;
static_assert(std::is_same_v<Policies<Features<16>>::Strategy, Single>);
static_assert(std::is_same_v<Policies<DataParallel<3>, Features<16>>::Strategy, DataParallel<3>>);
static_assert(std::is_same_v<Plain::Training, Parallel::Training>);
static_assert(!std::is_same_v<Plain::ExecutionOf<Plain::Training>, Parallel::ExecutionOf<Plain::Training>>);

TEST_CASE("the summary says on how many devices a step runs", "[strategy]") {
  CHECK(Plain().summary().find("\ndevice: cpu") != std::string::npos);
  CHECK(Parallel().summary().find("\n2 devices, each: cpu") != std::string::npos);
}

TEST_CASE("a model runs on several devices", "[strategy]") {
  using Net = networks::Residual;
  Model<Net, Image<2, 6, 5>, Cpu<0, 1>> one(4);
  Model<Net, Image<2, 6, 5>, Cpu<0, 1>, DataParallel<3>> many(4);
  const auto images = network::numbers(10 * 60);
  for (const int batch : {10, 2, 1, 7}) {
    const auto expected = one(images.data(), batch), found = many(images.data(), batch);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(expected[i]).margin(1e-5));
  }
}
