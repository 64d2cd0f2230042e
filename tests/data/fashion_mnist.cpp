#include "tenet/data/fashion_mnist.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "../support/variable.hpp"
#include "../temporary_folder.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

std::string images_file(int count, int side = 28) {
  std::string file{"\0\0\x08\x03\0\0\0", 7};
  file += static_cast<char>(count);
  for (int i = 0; i < 2; ++i) (file += std::string(3, '\0')) += static_cast<char>(side);
  for (int i = 0; i < count * side * side; ++i) file += static_cast<char>(i % 256);
  return file;
}

std::string labels_file(const std::string& labels) {
  return (std::string{"\0\0\x08\x01\0\0\0", 7} += static_cast<char>(labels.size())) + labels;
}

}  // namespace

static_assert(Dataset<FashionMnist>);

TEST_CASE("Fashion-MNIST is read from a folder, an argument's or the environment's") {
  const TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte", images_file(3));
  folder.write("train-labels-idx1-ubyte", labels_file({9, 0, 5}));
  CHECK_FALSE(FashionMnist::available(folder.path()));
  folder.write("t10k-images-idx3-ubyte", images_file(1));
  folder.write("t10k-labels-idx1-ubyte", labels_file({7}));
  CHECK(FashionMnist::available(folder.path()));

  const FashionMnist train = FashionMnist::train(folder.path());
  CHECK(train.size() == 3);
  CHECK(train.layout() == SampleLayout{{1, 28, 28}});
  std::vector<float> pixels(784);
  std::int32_t label;
  train.read(2, pixels.data(), &label);
  CHECK(label == 5);
  CHECK(pixels[1] == static_cast<float>((2 * 784 + 1) % 256) / 255.0f);
  CHECK(FashionMnist::class_names[9] == std::string("ankle boot"));

  FashionMnist::train(folder.path(), {.normalize = true}).read(2, pixels.data(), &label);
  CHECK(pixels[1] == Approx((33 / 255.0 - 0.2860) / 0.3530).epsilon(1e-5));

  const Variable variable("TENET_FASHION_MNIST", folder.path());
  CHECK(FashionMnist::default_folder() == folder.path());
  CHECK(FashionMnist::test().size() == 1);
  CHECK(FashionMnist::available());
}

TEST_CASE("missing or wrong Fashion-MNIST files are named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(FashionMnist::train(folder.path()),
                    Contains("apt install dataset-fashion-mnist") && Contains(folder / "train-images-idx3-ubyte.gz"));
  {
    const Variable variable("TENET_FASHION_MNIST", "/no/such/folder");
    CHECK_THROWS_WITH(FashionMnist::test(), Contains("/no/such/folder/t10k-images-idx3-ubyte.gz"));
  }
  folder.write("train-images-idx3-ubyte", images_file(2, 27));
  folder.write("train-labels-idx1-ubyte", labels_file({9}));
  CHECK_THROWS_WITH(FashionMnist::train(folder.path()), Contains("any x 28 x 28, found 2 x 27 x 27"));
  folder.write("train-images-idx3-ubyte", images_file(2));
  CHECK_THROWS_WITH(FashionMnist::train(folder.path()), Contains("expected 2, one for each image, found 1"));
  folder.write("train-labels-idx1-ubyte", labels_file({9, 10}));
  CHECK_THROWS_WITH(FashionMnist::train(folder.path()), Contains("label 1") && Contains("found 10"));
  folder.write("train-labels-idx1-ubyte", images_file(2));
  CHECK_THROWS_WITH(FashionMnist::train(folder.path()), Contains("expected any, found 2 x 28 x 28"));
}

TEST_CASE("the real Fashion-MNIST holds what it is known to hold") {
  if (!FashionMnist::available()) {
    WARN("skipped: no Fashion-MNIST in " << FashionMnist::default_folder());
    return;
  }
  const FashionMnist train = FashionMnist::train(), test = FashionMnist::test();
  CHECK(train.size() == 60000);
  CHECK(test.size() == 10000);
  const int first_train[] = {9, 0, 0, 3, 0, 2, 7, 2, 5, 5}, first_test[] = {9, 2, 1, 1, 6, 1, 4, 6, 5, 7};
  for (int i = 0; i < 10; ++i) {
    CHECK(train.label(i) == first_train[i]);
    CHECK(test.label(i) == first_test[i]);
  }
  std::vector<float> pixels(784);
  std::vector<int> counts(10);
  double sum = 0, squares = 0;
  std::int32_t label;
  for (long i = 0; i < train.size(); ++i) {
    train.read(i, pixels.data(), &label);
    ++counts[static_cast<std::size_t>(label)];
    for (float x : pixels) sum += x, squares += static_cast<double>(x) * x;
  }
  CHECK(counts == std::vector<int>(10, 6000));
  const double mean = sum / (60000.0 * 784);
  CHECK(mean == Approx(0.2860).margin(5e-5));
  CHECK(std::sqrt(squares / (60000.0 * 784) - mean * mean) == Approx(0.3530).margin(5e-5));
}
