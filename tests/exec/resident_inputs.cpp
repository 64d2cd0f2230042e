#include "tenet/exec/resident_inputs.hpp"

#include <catch2/catch.hpp>

#include "../support/laned_device.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<4, 3>> {};
template <class Device>
using Inputs = ResidentInputs<typename Trainer<Net, CrossEntropy, Sgd, Features<4>, Device>::Training>;

std::vector<float> batch_of(float first, int samples) {
  std::vector<float> numbers(static_cast<std::size_t>(4 * samples));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<float>(i);
  return numbers;
}
bool holds(const float* there, const std::vector<float>& numbers) {
  return std::equal(numbers.begin(), numbers.end(), there);
}

}  // namespace

TEST_CASE("inputs of the host are copied in, and those of the device copied there", "[exec][resident_inputs]") {
  far::Executor executor(0);
  Inputs<far::Device> inputs;
  const std::vector<float> batch = batch_of(1, 5), other = batch_of(2, 5);
  const std::vector<std::int32_t> labels{2, 0, 1, 1, 0};
  CHECK(inputs.at(0) == nullptr);
  inputs.give(0, {batch.data(), false});
  inputs.give(1, {labels.data(), true});
  inputs.copy_in(executor, 5);
  CHECK(holds(inputs.at(0), batch));
  CHECK(std::memcmp(inputs.at(1), labels.data(), 4 * 5) == 0);
  CHECK(inputs.at(2) == nullptr);
  CHECK(executor.bytes_in == 4 * 4 * 5);
  CHECK(executor.bytes_there == 4 * 5);
  const float* const place = inputs.at(0);
  inputs.give(0, {other.data(), false});
  inputs.copy_in(executor, 3);
  CHECK(inputs.at(0) == place);
  CHECK(holds(place, batch_of(2, 3)));
}

TEST_CASE("a batch that is copied ahead comes to the program when that has read the last one",
          "[exec][resident_inputs]") {
  laned::Executor executor(0);
  Inputs<laned::Device> inputs;
  std::vector<float> batch = batch_of(1, 5);
  inputs.give(0, {batch.data(), false});
  inputs.copy_in_ahead(executor, 5, 0);
  inputs.copy_in(executor, 5);
  inputs.has_ended(0, executor.mark());
  CHECK(holds(inputs.at(0), batch_of(1, 5)));
  CHECK(executor.bytes_in == 4 * 4 * 5);  // once from the host
  CHECK(executor.bytes_there == 4 * 4 * 5);
  inputs.await_copies(executor);
  CHECK(executor.awaited_copies == 1);
  inputs.await_copies(executor);  // nothing new
  CHECK(executor.awaited_copies == 1);

  for (float& number : batch) number = 9;
  CHECK(holds(inputs.at(0), batch_of(1, 5)));
  inputs.give(0, {batch.data(), false});
  inputs.copy_in_ahead(executor, 5, 1);
  CHECK(holds(inputs.at(0), batch_of(1, 5)));  // not before its run
  inputs.copy_in(executor, 5);
  CHECK(holds(inputs.at(0), std::vector<float>(20, 9)));
}
