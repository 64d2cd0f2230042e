#include "tenet/nn/embedding.hpp"

#include "../support/network.hpp"

using namespace tenet;

namespace {
static_assert(std::is_same_v<network::Output<Embedding<9, 5>, Tokens<7>>, Batched<7, 5>>);
static_assert(std::is_same_v<network::Output<Embedding<9, 5>, BatchedInt<>>, Batched<5>>);
static_assert(std::is_same_v<network::Output<Embedding<9, 5>, BatchedInt<2, 3>>, Batched<2, 3, 5>>);
static_assert(slot_table<Embedding<9, 5>>.parameter_count == 45);
static_assert(std::is_same_v<network::Output<Embedding<9, 5, Sparse>, Tokens<7>>, Batched<7, 5>>);
static_assert(slot_table<Embedding<9, 5, Sparse>>.table_count == 1 && slot_table<Embedding<9, 5>>.table_count == 0);
}  // namespace

TEST_CASE("an embedding's name is PyTorch's") {
  CHECK(network::names<Embedding<9, 5>>() == network::Strings{"weight"});
  CHECK(network::names<Embedding<9, 5, Sparse>>() == network::Strings{"weight"});
}

TEST_CASE("a token is a row of the table") {
  network::Evaluated<Embedding<9, 5>, Tokens<3>> net;
  const std::vector<std::int32_t> tokens{8, 0, 4, 4, 1, 8};
  const network::Floats weight = net["weight"], y = net(tokens, 2);
  REQUIRE(y.size() == 30);
  for (std::size_t i = 0; i < 30; ++i) CHECK(y[i] == weight[static_cast<std::size_t>(tokens[i / 5]) * 5 + i % 5]);
}

TEST_CASE("a sparse table starts as a dense one") {
  Weights<Embedding<20, 3>> dense(1);
  Weights<Embedding<20, 3, Sparse>> sparse(1);
  CHECK(std::equal(dense["weight"].begin(), dense["weight"].end(), sparse["weight"].begin()));
}

TEST_CASE("the table starts normal") {
  Weights<Embedding<100, 100>> weights(1);
  const network::Statistics found = network::statistics(weights["weight"]);
  CHECK(std::fabs(found.mean) < 0.05);
  CHECK(std::fabs(found.deviation - 1) < 0.05);
  CHECK(found.greatest > 3);  // not a uniform distribution of the same deviation
  CHECK(found.least < -3);
}
