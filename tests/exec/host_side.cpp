#include "tenet/exec/host_side.hpp"

#include <catch2/catch.hpp>

#include "../support/far_device.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<4, 3>> {};
using Learner = Trainer<Net, CrossEntropy, Sgd, Features<4>, far::Device>;
using Training = Learner::Training;
using Predicting = Learner::Predicting;

static_assert(detail::has_changing_numbers<Training>);  // the learning rate
static_assert(!detail::has_changing_numbers<Predicting>);
static_assert(detail::has_changing_numbers<
              Trainer<Sequential<Linear<4, 3>, Dropout<50>>, CrossEntropy, Sgd, Features<4>, far::Device>::Training>);

}  // namespace

TEST_CASE("numbers of a run are copied from where they stay until they are others", "[exec][host_side]") {
  far::Executor executor(0);
  HostSide<Training> side;
  std::vector<float> numbers(Training::numbers.size()), there(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i) + 0.5f;
  int waits = 0;
  const auto wait = [&] { ++waits; };
  CHECK(side.set_numbers(numbers.data(), wait));
  CHECK(waits == 0);  // nobody has read any
  CHECK_FALSE(side.set_numbers(numbers.data(), wait));
  const std::vector<float> before = numbers;
  numbers.back() = -1;
  side.copy_numbers_in(executor, there.data());
  CHECK(there == before);
  CHECK(side.set_numbers(numbers.data(), [&] {
    ++waits;
    side.copy_numbers_in(executor, there.data());  // who is waited for still finds the old ones
    CHECK(there == before);
  }));
  CHECK(waits == 1);
  side.copy_numbers_in(executor, there.data());
  CHECK(there == numbers);
  CHECK(executor.bytes_in == 3 * 4 * static_cast<long>(numbers.size()));
}

TEST_CASE("results have room for the largest batch so far", "[exec][host_side]") {
  far::Executor executor(0);
  HostSide<Predicting> side;
  std::vector<float> there(7 * 3);
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = static_cast<float>(i);
  int waits = 0;
  const auto wait = [&] { ++waits; };
  CHECK(side.make_room(4, wait));
  CHECK(waits == 0);
  const float* const place = side.result(0);
  CHECK_FALSE(side.make_room(4, wait));
  CHECK_FALSE(side.make_room(3, wait));
  CHECK(side.result(0) == place);  // recorded copies hold it
  CHECK(side.make_room(7, wait));
  CHECK(waits == 1);
  side.copy_out(executor, 7, [&](int i) { return i == 0 ? there.data() : nullptr; });
  CHECK(std::equal(there.begin(), there.end(), side.result(0)));
  CHECK(executor.bytes_out == 4 * 7 * 3);
}
