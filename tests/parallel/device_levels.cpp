#include "tenet/parallel/device_levels.hpp"

#include <tenet/parallel/hierarchical.hpp>

#include "../support/far_device.hpp"
#include "../support/machines.hpp"

using namespace tenet;
using ranks::OnMachines;

namespace {

const std::vector<std::vector<int>> machines_of_ranks{
    {0, 0, 1, 1}, {0, 0, 0, 1}, {0, 1, 2}, {0, 1, 1, 0, 1}, {0, 0, 0}};

/// What use(levels, executor, numbers, transport) leaves of each device's numbers, r + 1 + i at first.
template <class Use>
std::vector<std::vector<float>> numbers_after(const std::vector<int>& machine_of_rank, long floats, Use use) {
  return ranks::collect(static_cast<int>(machine_of_rank.size()), [&](ThreadTransport& transport) {
    OnMachines on(transport, machine_of_rank);
    far::Executor executor(on.rank());
    DeviceLevels<far::Executor, OnMachines> levels(executor, on);
    DeviceBuffer<far::Executor> numbers;
    numbers.grow(executor, floats, "a test");
    for (long i = 0; i < floats; ++i) numbers.data()[i] = static_cast<float>(on.rank() + 1 + i);
    use(levels, executor, numbers.data(), on);
    levels.await(executor);
    return std::vector<float>(numbers.data(), numbers.data() + floats);
  });
}
/// Of weights 1 to n of numbers r + 1 + i.
float weighted_sum(int devices, long i) {
  float sum = 0;
  for (int r = 0; r < devices; ++r) sum += static_cast<float>((r + 1) * (r + 1 + i));
  return sum;
}

}  // namespace

TEST_CASE("devices of machines add up their numbers by their weights", "[parallel][device_levels]") {
  const auto check = []<class Policy>(Policy, long floats) {
    for (const std::vector<int>& machines : machines_of_ranks) {
      const int devices = static_cast<int>(machines.size());
      const auto found = numbers_after(machines, floats, [&](auto& levels, auto& executor, float* numbers, auto& on) {
        levels.weigh(static_cast<float>(on.rank() + 1));
        levels.template add_up_weighted<Policy>(executor, numbers, floats, {"sum", 0, 1});
      });
      CAPTURE(devices, floats, Policy::name);
      for (const auto& of_device : found)
        for (long i = 0; i < floats; ++i) REQUIRE(of_device[static_cast<std::size_t>(i)] == weighted_sum(devices, i));
    }
  };
  for (const long floats : {1L, 3L, 200L}) {  // fewer than there are devices on a machine, too
    check(Hierarchical<AllReduce, Ring>{}, floats);
    check(Hierarchical<Ring, AllReduce>{}, floats);
  }
}

TEST_CASE("what was recorded is added up by the weights of the time when it runs", "[parallel][device_levels]") {
  using Policy = Hierarchical<AllReduce, AllReduce>;
  const auto found = numbers_after({0, 0, 1, 1}, 64, [](auto& levels, auto& executor, float* numbers, auto&) {
    const auto recorded = executor.record([&] {
      levels.template add_up_weighted<Policy>(executor, numbers, 64, {"sum", 0, -1});
    });
    levels.weigh(0.25f);
    executor.replay(recorded);  // the mean
    levels.weigh(2);
    executor.replay(recorded);  // of four equal ones, eight times as much
  });
  for (const auto& of_device : found) CHECK(of_device == std::vector<float>(found[0]));
  CHECK(found[0][0] == 8 * 2.5f);
  CHECK(found[0][63] == 8 * 65.5f);
}

TEST_CASE("an owner sends its part to other machines, nobody more", "[parallel][device_levels]") {
  std::vector<long> between(4);
  numbers_after({0, 0, 1, 1}, 640, [&](auto& levels, auto& executor, float* numbers, OnMachines& on) {
    // The levels' groups count by the transport that they were made of.
    levels.weigh(1);
    levels.await(executor);
    const long before = on.sent_between;
    levels.template add_up_weighted<Hierarchical<AllReduce, Ring>>(executor, numbers, 640, {"sum", 0, 1});
    levels.await(executor);
    between[static_cast<std::size_t>(on.rank())] = on.sent_between - before;
  });
  for (const long floats : between) CHECK(floats == 320);  // 2 (M - 1)/M of a half
}

TEST_CASE("sums over all devices of what lies elsewhere, and the numbers of device 0", "[parallel][device_levels]") {
  for (const std::vector<int>& machines : machines_of_ranks) {
    const int devices = static_cast<int>(machines.size());
    CAPTURE(devices);
    const auto found = numbers_after(machines, 40, [&](auto& levels, auto& executor, float* numbers, auto&) {
      levels.add_up(executor, numbers, numbers + 20, 2, {"sum", 1, 1});
      levels.add_up(executor, numbers + 2, numbers + 2, 1, {"sum", 2, 1});
      levels.broadcast(executor, 0, numbers + 30, 10, {"numbers", 3, 1});
    });
    for (int r = 0; r < devices; ++r) {
      const auto& of_device = found[static_cast<std::size_t>(r)];
      const auto all = static_cast<float>(devices * (devices + 1) / 2);
      CHECK(of_device[0] == static_cast<float>(r + 1));
      CHECK(of_device[20] == all);
      CHECK(of_device[21] == all + static_cast<float>(devices));
      CHECK(of_device[2] == all + 2 * static_cast<float>(devices));
      CHECK(of_device[30] == 31);
      CHECK(of_device[39] == 40);
    }
  }
}
