#include "tenet/train/weights.hpp"

#include <tenet/nn/batch_norm.hpp>
#include <tenet/nn/conv2d.hpp>
#include <tenet/nn/linear.hpp>
#include <tenet/nn/sequential.hpp>

#include "../temporary_folder.hpp"

using namespace tenet;

namespace {
using Net = Sequential<Conv2d<1, 2, 3>, BatchNorm2d<2>, Named<"head", Linear<4, 3>>>;
using Catch::Contains;

std::vector<float> all(Weights<Net>& weights) {
  std::vector<float> result(weights.parameters(), weights.parameters() + Weights<Net>::table.parameter_floats);
  result.insert(result.end(), weights.buffers(), weights.buffers() + Weights<Net>::table.buffer_floats);
  return result;
}

// The tensors of a network's file, to be spoilt one by one.
struct Tensors {
  std::vector<float> zeros = std::vector<float>(64, 0.0f);
  std::int64_t steps = 7;
  std::vector<NamedTensor> list{
      {"0.weight", "F32", {2, 1, 3, 3}, zeros.data()}, {"0.bias", "F32", {2}, zeros.data()},
      {"1.weight", "F32", {2}, zeros.data()},          {"1.bias", "F32", {2}, zeros.data()},
      {"1.running_mean", "F32", {2}, zeros.data()},    {"1.running_var", "F32", {2}, zeros.data()},
      {"1.num_batches_tracked", "I64", {}, &steps},    {"head.weight", "F32", {3, 4}, zeros.data()},
      {"head.bias", "F32", {3}, zeros.data()}};
  NamedTensor& operator[](const std::string& name) {
    for (NamedTensor& tensor : list)
      if (tensor.name == name) return tensor;
    throw std::logic_error("no tensor " + name);
  }
  void remove(const std::string& name) {
    std::erase_if(list, [&](const NamedTensor& tensor) { return tensor.name == name; });
  }
};

// Loading the file fails with a message that holds all the words, and leaves the network as it was.
void check_refused(const Tensors& tensors, const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  const std::string path = folder / "spoilt.safetensors";
  write_safetensors(path, tensors.list);
  Weights<Net> weights(1);
  weights.count_step();
  const std::vector<float> before = all(weights);
  try {
    weights.load(path);
    FAIL("the file was taken");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains(path));
    for (const std::string& word : words) CHECK_THAT(error.what(), Contains(word));
  }
  CHECK(all(weights) == before);
  CHECK(weights.steps() == 1);
}
}  // namespace

TEST_CASE("saved weights come back bit for bit, steps too") {
  const TemporaryFolder folder;
  Weights<Net> one(1), two(2);
  std::fill_n(one.buffers(), Weights<Net>::table.buffer_floats, 0.3f);
  one.count_step();
  one.count_step();
  REQUIRE(all(one) != all(two));
  one.save(folder / "net.safetensors");
  two.load(folder / "net.safetensors");
  for (const std::string& name : one.names())
    if (name != "1.num_batches_tracked") {
      const auto a = one[name], b = two[name];
      CHECK(std::vector<float>(a.begin(), a.end()) == std::vector<float>(b.begin(), b.end()));
    }
  CHECK(two.steps() == 2);
}

TEST_CASE("the file holds PyTorch's names, types and shapes") {
  const TemporaryFolder folder;
  Weights<Net>().save(folder / "net.safetensors");
  const SafetensorsFile file(folder / "net.safetensors");
  Tensors expected;
  REQUIRE(file.tensors().size() == expected.list.size());
  for (const NamedTensor& tensor : expected.list) {
    INFO(tensor.name);
    const NamedTensor* const found = file.find(tensor.name);
    REQUIRE(found != nullptr);
    CHECK(found->dtype == tensor.dtype);
    CHECK(found->shape == tensor.shape);
  }
  REQUIRE(file.metadata().size() == 1);  // without it PyTorch's loaders refuse the file
  CHECK(file.metadata().begin()->first == "format");
  CHECK(file.metadata().begin()->second == "pt");
}

TEST_CASE("a complete file is taken") {
  const TemporaryFolder folder;
  Tensors tensors;
  write_safetensors(folder / "zeros.safetensors", tensors.list);
  Weights<Net> weights(1);
  weights.load(folder / "zeros.safetensors");
  CHECK(weights["head.weight"][5] == 0);
  CHECK(weights["1.running_var"][1] == 0);
  CHECK(weights.steps() == 7);
}

TEST_CASE("a file without the count of steps is taken, for old ones have none") {
  const TemporaryFolder folder;
  Tensors tensors;
  tensors.remove("1.num_batches_tracked");
  write_safetensors(folder / "old.safetensors", tensors.list);
  Weights<Net> weights(1);
  weights.count_step();
  weights.load(folder / "old.safetensors");
  CHECK(weights["head.bias"][0] == 0);
  CHECK(weights.steps() == 1);
}

TEST_CASE("a file that does not fit is refused, and nothing is changed") {
  SECTION("a tensor is missing") {
    Tensors tensors;
    tensors.remove("head.bias");
    check_refused(tensors, {"missing", "'head.bias' (3)"});
  }
  SECTION("a buffer is missing") {
    Tensors tensors;
    tensors.remove("1.running_mean");
    check_refused(tensors, {"missing", "'1.running_mean' (2)"});
  }
  SECTION("another shape of as many elements") {
    Tensors tensors;
    tensors["head.weight"].shape = {4, 3};
    check_refused(tensors, {"'head.weight'", "shape", "(3, 4)", "(4, 3)"});
  }
  SECTION("another type of the same size") {
    Tensors tensors;
    tensors["0.bias"].dtype = "I32";
    check_refused(tensors, {"'0.bias'", "type", "F32", "I32"});
  }
  SECTION("a count of steps that is no integer") {
    Tensors tensors;
    tensors["1.num_batches_tracked"] = {"1.num_batches_tracked", "F32", {}, tensors.zeros.data()};
    check_refused(tensors, {"'1.num_batches_tracked'", "I64", "F32"});
  }
  SECTION("a tensor that the network has not") {
    Tensors tensors;
    tensors.list.push_back({"head.scale", "F32", {3}, tensors.zeros.data()});
    check_refused(tensors, {"'head.scale'", "network has not"});
  }
}

TEST_CASE("a file that is not there is an error that names it") {
  Weights<Net> weights;
  CHECK_THROWS_WITH(weights.load("no such folder/net.safetensors"), Contains("no such folder/net.safetensors"));
  CHECK_THROWS_AS(weights.save("no such folder/net.safetensors"), Error);
}

TEST_CASE("a tensor is found by its name, or the name is in the message") {
  Weights<Net> weights;
  CHECK(weights["head.weight"].size() == 12);
  CHECK(weights["1.running_var"].size() == 2);
  CHECK_THROWS_WITH(weights["head.wait"], Contains("'head.wait'"));
  CHECK_THROWS_AS(weights["1.num_batches_tracked"], Error);  // not floats
}

TEST_CASE("the version changes with each step, load and access for writing, and with nothing else") {
  const TemporaryFolder folder;
  Weights<Net> weights(1);
  std::uint64_t last = weights.version();
  const auto has_changed = [&] {
    const std::uint64_t before = last;
    last = weights.version();
    return last != before;
  };
  weights.save(folder / "net.safetensors");
  CHECK((weights.steps() == 0 && !weights.names().empty()));
  CHECK_FALSE(has_changed());
  weights.count_step();
  CHECK(has_changed());
  weights.parameters();
  CHECK(has_changed());
  weights.buffers();
  CHECK(has_changed());
  weights["head.bias"];
  CHECK(has_changed());
  weights.load(folder / "net.safetensors");
  CHECK(has_changed());
  weights.initialize(1);
  CHECK(has_changed());
  weights.changed();
  CHECK(has_changed());
}

TEST_CASE("initialising again begins anew") {
  Weights<Net> weights(1);
  const std::vector<float> before = all(weights);
  std::fill_n(weights.parameters(), Weights<Net>::table.parameter_floats, 9.0f);
  weights.count_step();
  weights.initialize(1);
  CHECK(weights.steps() == 0);
  for (const std::string& name : weights.names())
    if (name != "1.num_batches_tracked") CHECK(weights[name][0] != 9.0f);
  Weights<Net> fresh(1);
  CHECK(std::equal(weights["0.weight"].begin(), weights["0.weight"].end(), fresh["0.weight"].begin()));
}
