#include <algorithm>
#include <span>
#include <tenet/parallel/inter_op_parallel.hpp>

#include "../../support/training_ranks.hpp"
#include "matrix.hpp"

using namespace tenet;
using combinations::Comparison;
using combinations::Course;

namespace {

constexpr std::size_t parameters = Weights<combinations::Net>::table.parameter_floats,
                      all_weights = parameters + Weights<combinations::Net>::table.buffer_floats;
constexpr int features = combinations::Input::size, classes = 3;

/// Ranks have parts of unequal size. Every three samples of a batch have the inputs of the first three, and targets of
/// their own: so each part that a rank, a replica or a piece has has the batch's mean and variance, and gradients of
/// its own, and what batch norm computes from a part is what one device computes from the whole, up to rounding.
Course repeated_inputs() {
  Course course{96, 10, {.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f}, false};
  Random random(5);
  for (int step = 0; step < course.steps; ++step) {
    std::vector<float> three(3 * features);
    for (float& x : three) x = random.uniform(-1, 1);
    for (int i = 0; i < course.batch; ++i) {
      if (i % 3 == 0) course.inputs.insert(course.inputs.end(), three.begin(), three.end());
      course.targets.push_back(static_cast<std::int32_t>(random.below(classes)));
    }
  }
  return course;
}

/// The same with inputs that have nothing in common, for whoever takes statistics of the whole batch, or of shards.
Course different_inputs(bool even) {
  Course course = repeated_inputs();
  course.even = even;
  Random random(6);
  for (float& x : course.inputs) x = random.uniform(-1, 1);
  return course;
}

/// Three classes, each of samples about a center of its own.
Course separable() {
  Course course{64, 100, {.learning_rate = 0.05f, .momentum = 0.5f}, true};
  Random random(7);
  for (int i = 0; i < 6 * course.batch; ++i) {
    const int of = static_cast<int>(random.below(classes));
    for (int k = 0; k < features; ++k)
      course.inputs.push_back((k % classes == of ? 2.0f : 0.0f) + random.uniform(-1, 1));
    course.targets.push_back(of);
  }
  return course;
}

/// The share of the course's samples for which the network's greatest output is that of their class. Batch norm has the
/// statistics of all these samples: the running ones of a rank that nobody waits for are of parameters that the others
/// have changed since.
double accuracy_of(const std::vector<float>& numbers, const Course& course) {
  combinations::TrainerWith<> judge{{.learning_rate = 0}, 0};
  std::copy_n(numbers.begin(), parameters, judge.weights().parameters());
  judge.weights().changed();
  return judge.step(course.inputs.data(), course.targets.data(), static_cast<int>(course.targets.size())).accuracy;
}

/// Whether numbers differ by rounding alone, by what the largest of them are.
bool are_near(std::span<const float> found, std::span<const float> expected) {
  const auto size = [](float x) { return std::fabs(x); };
  const float largest = size(std::ranges::max(expected, {}, size));
  return std::ranges::equal(found, expected, [=](float a, float b) { return std::fabs(a - b) < 1e-5f * largest; });
}

/// A course, and what one device has behind it.
struct Expected {
  Course course;
  std::vector<float> numbers;
  double accuracy;

  template <class... Policies>
  static Expected of(Course course) {
    std::vector<float> numbers = combinations::train<Policies...>(course, 0, 1);
    const double accuracy = accuracy_of(numbers, course);
    return {std::move(course), std::move(numbers), accuracy};
  }
};
const Expected& expected(const combinations::Combination& combination) {
  static const Expected repeated = Expected::of<>(repeated_inputs()),
                        different = Expected::of<>(different_inputs(false)),
                        reproducible = Expected::of<Reproducible>(different_inputs(true)),
                        accurate = Expected::of<>(separable());
  switch (combination.comparison) {
    case Comparison::bits:
      return different;
    case Comparison::reproducible:
      return reproducible;
    case Comparison::rounded:
      return combination.shares_batch ? different : repeated;
    case Comparison::accuracy:
      break;
  }
  return accurate;
}

void compare(const std::vector<float>& found, const Expected& expected, const combinations::Combination& combination) {
  REQUIRE(found.size() == expected.numbers.size());
  const std::span all(found), all_expected(expected.numbers);
  switch (combination.comparison) {
    case Comparison::bits:
    case Comparison::reproducible:
      CHECK(found == expected.numbers);
      break;
    case Comparison::rounded: {
      CHECK(are_near(all.first(parameters), all_expected.first(parameters)));
      CHECK(are_near(all.subspan(all_weights), all_expected.subspan(all_weights)));
      // Else running statistics are those of a part, whose variance has another divisor.
      constexpr std::size_t buffers = all_weights - parameters;
      if (combination.shares_batch)
        CHECK(are_near(all.subspan(parameters, buffers), all_expected.subspan(parameters, buffers)));
      break;
    }
    case Comparison::accuracy:
      CHECK(std::fabs(accuracy_of(found, expected.course) - expected.accuracy) < 0.03);
      break;
  }
}

}  // namespace

namespace combinations {

std::vector<float> losses_of(const Course& course, int rank, int ranks,
                             const std::function<float(const float*, const std::int32_t*, int)>& step) {
  const auto first_of = [&](int r) {
    const int even = course.batch * r / ranks;
    return course.even || r == 0 || r == ranks ? even : even - 12;  // each has some of 12 samples, for up to 4 pieces
  };
  const int first = first_of(rank), count = first_of(rank + 1) - first;
  std::vector<float> losses;
  for (int number = 0; number < course.steps; ++number) {
    const std::size_t sample = static_cast<std::size_t>(number * course.batch + first) % course.targets.size();
    losses.push_back(step(course.inputs.data() + sample * features, course.targets.data() + sample, count));
  }
  return losses;
}

int check(const std::vector<Combination>& all) {
  int trained = 0;
  for (const Combination& combination : all) {
    const Expected& here = expected(combination);
    for (const int ranks : combination.workers == Workers::here ? std::vector{1} : std::vector{2, 4}) {
      CAPTURE(combination.name, ranks);
      const auto train = [&](int rank) { return combination.train(here.course, rank, ranks); };
      const auto found = combination.workers == Workers::here      ? std::vector<std::vector<float>>{train(0)}
                         : combination.workers == Workers::threads ? ranks::Threads::collect(ranks, train)
                                                                   : processes::Job::collect(ranks, train);
      for (const std::vector<float>& of_rank : found) {
        compare(of_rank, here, combination);
        CHECK(std::equal(of_rank.begin(), of_rank.begin() + parameters, found[0].begin()));
        if (combination.comparison != Comparison::accuracy) CHECK(of_rank == found[0]);
      }
    }
    ++trained;
  }
  return trained;
}

std::string joined(std::initializer_list<const char*> names) {
  std::string result;
  for (const std::string_view name : names) {
    const auto first = name.find("Policy = ") + 9;
    result += (result.empty() ? "" : ", ") + std::string(name.substr(first, name.rfind(']') - first));
  }
  return result;
}

}  // namespace combinations

using One = combinations::Of<Single>;
using Parts = combinations::Of<InterOpParallel<2>>;
static_assert(One::count == combinations::Count{4, 308});
static_assert(Parts::count == combinations::Count{2, 310});

TEST_CASE("one device trains as one device does, whatever the other policies", "[combinations]") { One::check_all(); }
TEST_CASE("devices that have parts of a network train as one device does", "[combinations]") { Parts::check_all(); }

TEST_CASE("accuracy tells a network that is trained", "[combinations]") {
  Course course = separable();
  CHECK(Expected::of<>(course).accuracy > 0.97);
  course.steps = 1;
  CHECK(Expected::of<>(course).accuracy < 0.9);
}
