#include "tenet/data/dataset.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

TensorDataset<> numbers(int count) {
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  for (int i = 0; i < count; ++i) {
    inputs.insert(inputs.end(), {static_cast<float>(i), static_cast<float>(i) + 0.5f});
    targets.push_back(100 + i);
  }
  return {inputs, {2}, targets};
}

// A data set whose samples say in which epoch they are read.
struct EpochDataset {
  SampleLayout layout_{{}, DataKind::int32};
  long size() const { return 4; }
  const SampleLayout& layout() const { return layout_; }
  void read(long index, void* input, void* target) const { read(index, -1, input, target); }
  void read(long index, long epoch, void* input, void* target) const {
    *static_cast<std::int32_t*>(input) = static_cast<std::int32_t>(epoch);
    *static_cast<std::int32_t*>(target) = static_cast<std::int32_t>(index);
  }
};

}  // namespace

static_assert(Dataset<TensorDataset<>> && Dataset<TensorDataset<std::int32_t, float>>);
static_assert(Dataset<Subset<TensorDataset<>>> && Dataset<EpochDataset>);
static_assert(!Dataset<int> && !Dataset<std::vector<float>>);

TEST_CASE("a sample's layout counts elements and bytes") {
  const SampleLayout layout{{3, 4, 5}, DataKind::float32, {2}, DataKind::int32};
  CHECK(layout.input_size() == 60);
  CHECK(layout.input_bytes() == 240);
  CHECK(layout.target_size() == 2);
  CHECK(SampleLayout{{7}}.target_size() == 1);
  CHECK(layout == layout);
  CHECK_FALSE(layout == SampleLayout{{3, 4, 5}});
  CHECK_NOTHROW(layout.check("here"));
  CHECK_THROWS_WITH((SampleLayout{{3, 0}}.check("here")), Contains("here: input extents"));
  CHECK_THROWS_WITH((SampleLayout{{3}, DataKind::float32, {-1}}.check("here")), Contains("target extents"));
  CHECK_THROWS_AS((SampleLayout{{1 << 20, 1 << 20, 2}}.check("here")), Error);
}

TEST_CASE("a tensor data set gives its samples") {
  const TensorDataset dataset = numbers(5);
  CHECK(dataset.size() == 5);
  CHECK(dataset.layout().input_extents == std::vector<int>{2});
  CHECK(dataset.layout().target_kind == DataKind::int32);
  float input[2];
  std::int32_t target;
  dataset.read(3, input, &target);
  CHECK(input[0] == 3);
  CHECK(input[1] == 3.5f);
  CHECK(target == 103);
  CHECK_THROWS_WITH(dataset.read(5, input, &target), Contains("0 <= index < 5") && Contains("found 5"));
  CHECK_THROWS_AS(dataset.read(-1, input, &target), Error);

  const TensorDataset tokens(std::vector<std::int32_t>{1, 2, 3, 4}, {2}, std::vector<float>{5, 6, 7, 8}, {2});
  CHECK(tokens.layout().input_kind == DataKind::int32);
  CHECK(tokens.layout().target_kind == DataKind::float32);
  std::int32_t token[2];
  float value[2];
  tokens.read(1, token, value);
  CHECK(token[1] == 4);
  CHECK(value[0] == 7);
}

TEST_CASE("a tensor data set refuses sizes that do not match") {
  using Floats = std::vector<float>;
  using Labels = std::vector<std::int32_t>;
  CHECK_THROWS_WITH((TensorDataset(Floats(5), {2}, Labels(2))), Contains("a multiple of 2") && Contains("found 5"));
  CHECK_THROWS_WITH((TensorDataset(Floats(6), {2}, Labels(2))), Contains("3 samples x 1") && Contains("found 2"));
  CHECK_THROWS_AS((TensorDataset(Floats(6), {0}, Labels(2))), Error);
}

TEST_CASE("a subset is a range or a list") {
  const TensorDataset dataset = numbers(5);
  float input[2];
  std::int32_t target;

  const Subset first(dataset, 1, 3);
  CHECK(first.size() == 2);
  first.read(1, input, &target);
  CHECK(target == 102);
  CHECK_THROWS_AS(first.read(2, input, &target), Error);

  const Subset chosen(dataset, {4, 0, 4});
  CHECK(chosen.size() == 3);
  chosen.read(2, input, &target);
  CHECK(target == 104);
  const Subset one(dataset, {2});
  CHECK(one.size() == 1);

  CHECK(Subset(dataset, 5, 5).size() == 0);
  CHECK_THROWS_WITH(Subset(dataset, 0, 6), Contains("end <= 5") && Contains("0 to 6"));
  CHECK_THROWS_AS(Subset(dataset, 3, 2), Error);
  CHECK_THROWS_AS(Subset(dataset, {0, 5}), Error);
}

TEST_CASE("the epoch reaches data sets which want it, through those which do not care") {
  const EpochDataset dataset;
  std::int32_t epoch, index;
  read_sample(dataset, 2, 7, &epoch, &index);
  CHECK(epoch == 7);
  CHECK(index == 2);
  read_sample(Subset(dataset, 1, 3), 1, 9, &epoch, &index);
  CHECK(epoch == 9);
  CHECK(index == 2);
  float input[2];
  read_sample(numbers(3), 1, 9, input, &index);
  CHECK(index == 101);
}

TEST_CASE("epoch seeds differ") {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (long epoch = 0; epoch < 10; ++epoch) seeds.insert(epoch_seed(seed, epoch));
  }
  CHECK(seeds.size() == 100);
}

TEST_CASE("a subset says which samples of the whole it has") {
  const Subset part(numbers(5), 2, 5);
  CHECK(part.dataset().size() == 5);
  CHECK(part.index_of(1) == 3);
  CHECK(Subset(part, std::vector<long>{2, 0}).index_of(0) == 2);
  CHECK_THROWS_WITH(part.index_of(3), Contains("0 <= index < 3") && Contains("found 3"));
}
