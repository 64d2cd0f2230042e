#include "tenet/train/batch_checks.hpp"

#include <catch2/catch.hpp>

#include "../support/message.hpp"

using namespace tenet;

namespace {
// A data set that names its element types has to have those that are wanted; one that does not may have any.
struct Labelled {
  using Input = float;
  using Target = std::int32_t;
};
struct Unknown {};
template <class Data>
struct Loader {
  const Data& dataset();
};
static_assert(detail::ElementsOfLoader<Loader<Labelled>>::fit<float, std::int32_t>);
static_assert(!detail::ElementsOfLoader<Loader<Labelled>>::fit<float, float>);
static_assert(!detail::ElementsOfLoader<Loader<Labelled>&>::fit<std::int32_t, std::int32_t>);
static_assert(detail::ElementsOfLoader<Loader<Unknown>>::fit<float, float>);
}  // namespace

TEST_CASE("a label has to be a class, and a message says whose it is not", "[batch_checks]") {
  const std::int32_t labels[] = {0, 3, 1, 2, 4, 0};
  const auto check = [&](int samples, int of_sample, int classes) {
    return message_of([&] { detail::check_labels(labels, samples, of_sample, classes); });
  };
  CHECK(check(6, 1, 5).empty());
  CHECK(check(2, 2, 4).empty());
  CHECK(check(6, 1, 4) == "Trainer: label of sample 4 of the batch; expected 0 to 3, found 4");
  CHECK(check(3, 2, 4) == "Trainer: label of sample 2 of the batch; expected 0 to 3, found 4");
  const std::int32_t negative = -1;
  CHECK_FALSE(message_of([&] { detail::check_labels(&negative, 1, 1, 4); }).empty());
}

TEST_CASE("a data set's samples have to be the network's inputs and targets", "[batch_checks]") {
  using Input = Image<1, 2, 3>;
  using Target = TensorType<std::int32_t, true>;
  const auto check = [](const SampleLayout& layout) {
    return message_of([&] { detail::check_layout(layout, Input::info, Target::info); });
  };
  CHECK(check({{1, 2, 3}, DataKind::float32, {}, DataKind::int32}).empty());
  CHECK(
      check({{1, 3, 2}, DataKind::float32, {}, DataKind::int32}) ==
      "Trainer: the data set's inputs do not fit the network; expected float32 x 1 x 2 x 3, found float32 x 1 x 3 x 2");
  CHECK(check({{1, 2, 3}, DataKind::int32, {}, DataKind::int32}) ==
        "Trainer: the data set's inputs do not fit the network; expected float32 x 1 x 2 x 3, found int32 x 1 x 2 x 3");
  CHECK(check({{1, 2, 3}, DataKind::float32, {1}, DataKind::float32}) ==
        "Trainer: the data set's targets do not fit the network; expected int32, found float32 x 1");
}

TEST_CASE("the labels of a data set have to be classes, and a message says whose is not", "[batch_checks]") {
  const auto check = [](TargetRange found, int classes) {
    return message_of([&] { detail::check_labels(found, classes); });
  };
  CHECK(check({.least = 0, .largest = 4}, 5).empty());
  CHECK(check({.least = 0, .largest = 4, .least_at = 3, .largest_at = 8}, 4) ==
        "Trainer: label of sample 8 of the data set; expected 0 to 3, found 4");
  CHECK(check({.least = -2, .largest = 9, .least_at = 3, .largest_at = 8}, 4) ==
        "Trainer: label of sample 3 of the data set; expected 0 to 3, found -2");
  using Scores = Features<4>;
  CHECK_FALSE(message_of([] { detail::check_targets<BatchedInt<>, Batched<4>>(TargetRange{.largest = 4}); }).empty());
  CHECK(message_of([] { detail::check_targets<Scores, Batched<4>>(TargetRange{.largest = 4}); }).empty());
}
