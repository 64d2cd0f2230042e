// Against values worked out by hand.
#include "tenet/device/reference/embedding.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace {

using Floats = std::vector<float>;
tenet::reference::Serial serial;

}  // namespace

TEST_CASE("reference embedding", "[reference]") {
  const Floats table{1, 2, 3, 4, 5, 6};  // [3, 2]
  const std::int32_t tokens[] = {2, 0, 2, 3, -1};
  Floats y(10), gradient(6, 9.0f);
  run_embedding(serial, 5, 2, 3, tokens, table.data(), y.data());
  CHECK(Floats(y.begin(), y.begin() + 6) == Floats{5, 6, 1, 2, 5, 6});
  for (std::size_t i = 6; i < 10; ++i) CHECK(std::isnan(y[i]));
  const Floats upstream{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  run_embedding_gradient(serial, 5, 2, 3, tokens, upstream.data(), gradient.data());
  CHECK(gradient == Floats{3, 4, 0, 0, 6, 8});
}
