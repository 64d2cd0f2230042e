#include "tenet/parallel/device_group.hpp"

#include "../support/ranks.hpp"

using namespace tenet;

static_assert(DeviceGroup<ThreadTransport> && DeviceGroup<DeviceOfRank<ThreadTransport>>);

namespace {

/// body(device) on each of the devices of some ranks, which are threads in threads; and what each of them returns.
template <class Body>
std::vector<std::vector<float>> collect(int count, int devices, Body body) {
  std::vector<std::vector<float>> found(static_cast<std::size_t>(count * devices));
  ranks::run_well(count, [&](ThreadTransport& between) {
    const auto messages = ranks::run(devices, [&](ThreadTransport& inside) {
      DeviceOfRank device(inside, between);
      found[static_cast<std::size_t>(device.rank())] = body(device);
    });
    for (const std::string& message : messages)
      if (!message.empty()) throw Error(message);
  });
  return found;
}

constexpr long floats = 3000;  // more than a small message
constexpr auto index(long i) { return static_cast<std::size_t>(i); }

/// Numbers r + 1 + i of device r.
std::vector<float> numbers_of(int rank) {
  std::vector<float> numbers(index(floats));
  for (long i = 0; i < floats; ++i) numbers[index(i)] = static_cast<float>(rank + 1 + i);
  return numbers;
}

}  // namespace

TEST_CASE("devices of several ranks are numbered rank by rank, and add up their numbers", "[parallel][device_group]") {
  for (const auto& [count, devices] : {std::pair{1, 3}, {2, 1}, {2, 3}, {3, 2}}) {
    CAPTURE(count, devices);
    const int all = count * devices;
    const auto found = collect(count, devices, [&](auto& device) {
      if (device.size() != all) throw Error("another number of devices");
      std::vector<float> numbers = numbers_of(device.rank());
      for (int round = 0; round < 2; ++round)
        all_reduce(device, numbers.data(), floats, {"sum", round, -1},
                   round == 0 ? static_cast<float>(device.rank() + 1) : 1.0f);
      return numbers;
    });
    float first = 0;
    for (int r = 0; r < all; ++r) first += static_cast<float>((r + 1) * (r + 1));
    const float weights = static_cast<float>(all * (all + 1) / 2);
    for (const std::vector<float>& numbers : found) {
      CHECK(numbers == found[0]);
      CHECK(numbers[0] == first * static_cast<float>(all));
      CHECK(numbers[7] == (first + 7 * weights) * static_cast<float>(all));
    }
  }
}

TEST_CASE("each device can send its numbers to those of all ranks", "[parallel][device_group]") {
  for (int root = 0; root < 6; ++root) {
    const auto found = collect(2, 3, [&](auto& device) {
      std::vector<float> numbers = numbers_of(device.rank());
      broadcast(device, root, numbers.data(), floats, {"numbers", 0, -1});
      return numbers;
    });
    CAPTURE(root);
    for (const std::vector<float>& numbers : found) CHECK(numbers == numbers_of(root));
  }
}

TEST_CASE("no device passes a barrier before all have come", "[parallel][device_group]") {
  std::atomic<int> come{0};
  const auto found = collect(2, 2, [&](auto& device) {
    std::vector<float> seen;
    for (int round = 1; round <= 20; ++round) {
      if (device.rank() == round % 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++come;
      barrier(device, {"barrier", round, -1});
      seen.push_back(come.load() >= 4 * round ? 1.0f : 0.0f);
      barrier(device, {"barrier", 20 + round, -1});
    }
    return seen;
  });
  for (const std::vector<float>& seen : found) CHECK(seen == std::vector<float>(20, 1.0f));
}
