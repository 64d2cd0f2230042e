#include "tenet/parallel/device_communicator.hpp"

#include <tenet/comm/simulated_transport.hpp>
#include <tenet/parallel/synchronisation.hpp>

#include "../support/far_device.hpp"
#include "../support/ranks.hpp"

using namespace tenet;

namespace {

/// What a device has after a sum by weights 1, 2, …, a sum by other ones, and after the second one's numbers were sent.
template <class T>
std::vector<float> numbers_after(T& transport) {
  constexpr long floats = 40;
  far::Executor executor(transport.rank());
  DeviceCommunicator<far::Executor, T> communicator(executor, transport);
  DeviceBuffer<far::Executor> numbers;
  numbers.grow(executor, 2 * floats, "a test");
  const auto fill = [&] {
    for (long i = 0; i < floats; ++i) numbers.data()[i] = static_cast<float>(transport.rank() + 1 + i);
  };
  std::vector<float> result;
  // Two rounds of what was recorded once: the weight is read when it runs.
  const auto recorded = executor.record([&] {
    communicator.add_up_weighted(executor, numbers.data(), floats, {"sum", 0, -1});
  });
  for (const float factor : {1.0f, 0.5f}) {
    fill();
    communicator.weigh(factor * static_cast<float>(transport.rank() + 1));
    executor.replay(recorded);
    communicator.await(executor);
    result.insert(result.end(), {numbers.data()[0], numbers.data()[39]});
  }
  fill();
  communicator.add_up(executor, numbers.data(), numbers.data() + floats, 2, {"sum", 2, -1});
  communicator.add_up(executor, numbers.data(), numbers.data(), 1, {"sum", 3, -1});
  result.insert(result.end(),
                {numbers.data()[0], numbers.data()[1], numbers.data()[floats], numbers.data()[floats + 1]});
  fill();
  communicator.broadcast(executor, 1, numbers.data() + 1, floats - 1, {"numbers", 1, -1});
  result.insert(result.end(), {numbers.data()[0], numbers.data()[1], numbers.data()[39]});
  return result;
}

/// Weights 1 to n of numbers r + 1 + i.
void check(int rank, int devices, const std::vector<float>& found) {
  CAPTURE(rank, devices);
  const auto sum = [&](int i) {
    float result = 0;
    for (int r = 0; r < devices; ++r) result += static_cast<float>((r + 1) * (r + 1 + i));
    return result;
  };
  const float own = static_cast<float>(rank + 1), all = static_cast<float>(devices * (devices + 1) / 2);
  CHECK(found == std::vector<float>{sum(0), sum(39), sum(0) / 2, sum(39) / 2, all, own + 1, all,
                                    all + static_cast<float>(devices), own, 3, 41});
}

}  // namespace

TEST_CASE("devices add up their numbers by their weights, and send those of one", "[parallel][device_communicator]") {
  for (const int devices : {2, 3, 4}) {
    const auto found = ranks::collect(devices, [](ThreadTransport& transport) { return numbers_after(transport); });
    for (int r = 0; r < devices; ++r) check(r, devices, found[static_cast<std::size_t>(r)]);
  }
}

TEST_CASE("by a ring they get the sums of its order, where there are enough numbers",
          "[parallel][device_communicator]") {
  constexpr MessageLabel label{"sum", 0, -1};
  for (const int devices : {1, 2, 3, 5})
    for (const long floats : {1L, 7L, 100L}) {
      CAPTURE(devices, floats);
      const auto sums = [&](auto add_up) {
        return ranks::collect(devices, [&](ThreadTransport& transport) {
          std::vector<float> numbers(static_cast<std::size_t>(floats));
          for (std::size_t i = 0; i < numbers.size(); ++i)  // whose sum is another one in another order
            numbers[i] = 1.0f / static_cast<float>(3 * transport.rank() + static_cast<int>(i) + 1);
          add_up(transport, numbers.data(), 1.0f / static_cast<float>(transport.rank() + 2));
          return numbers;
        });
      };
      const auto found = sums([&](ThreadTransport& transport, float* numbers, float weight) {
        far::Executor executor(transport.rank());
        DeviceCommunicator<far::Executor, ThreadTransport> communicator(executor, transport);
        communicator.weigh(weight);
        communicator.template add_up_weighted<Ring>(executor, numbers, floats, label);
        communicator.await(executor);
      });
      CHECK(found == sums([&](ThreadTransport& transport, float* numbers, float weight) {
              if (floats >= 16L * devices)
                all_reduce_by_ring(transport, numbers, floats, label, weight);
              else  // too few to be cut
                all_reduce(transport, numbers, floats, label, weight);
            }));
      if (devices == 5 && floats == 100)
        CHECK(found != sums([&](ThreadTransport& transport, float* numbers, float weight) {
                all_reduce(transport, numbers, floats, label, weight);
              }));
    }
}

namespace {

/// Each device's part of a sum by weights 1, 2, …; then all parts on all devices.
template <class Place>
void check_owners(int devices, long floats) {
  CAPTURE(devices, floats);
  const auto found = ranks::collect(devices, [&](ThreadTransport& transport) {
    far::Executor executor(transport.rank());
    DeviceCommunicator<far::Executor, ThreadTransport> communicator(executor, transport);
    std::vector<float> numbers(static_cast<std::size_t>(floats));
    for (long i = 0; i < floats; ++i) numbers[static_cast<std::size_t>(i)] = static_cast<float>(i);
    communicator.weigh(static_cast<float>(transport.rank() + 1));
    communicator.reduce_to_owners(executor, numbers.data(), floats, {"sum", 0, -1}, Place());
    communicator.await(executor);
    std::vector<float> both = numbers;
    communicator.gather_from_owners(executor, numbers.data(), floats, {"parts", 1, -1}, Place());
    communicator.await(executor);
    both.insert(both.end(), numbers.begin(), numbers.end());
    return both;
  });
  long differing = 0, owned = 0;
  for (int r = 0; r < devices; ++r) {
    const FloatRange own = Place::part(floats, r, devices);
    owned += own.count;
    for (long i = 0; i < floats; ++i) {
      const float sum = static_cast<float>(i * devices * (devices + 1) / 2);
      const std::vector<float>& numbers = found[static_cast<std::size_t>(r)];
      const float part = numbers[static_cast<std::size_t>(i)];
      differing += i >= own.first && i < own.first + own.count && part != sum;
      differing += numbers[static_cast<std::size_t>(floats + i)] != sum;
    }
  }
  CHECK(owned == floats);
  CHECK(differing == 0);
}

}  // namespace

TEST_CASE("parts of a sum come to their owners, and from them to all", "[parallel][device_communicator]") {
  for (const long floats : {1L, 7L, 48L, 100L}) {
    check_owners<Sharded>(2, floats);
    check_owners<Sharded>(3, floats);
    check_owners<OnRank<1>>(3, floats);
    check_owners<OnRank<0>>(1, floats);
  }
}

TEST_CASE("the same over a simulated network", "[parallel][device_communicator]") {
  constexpr int devices = 5;
  SimulatedNetwork network(devices, {.link = {.latency = 1e-3, .bytes_per_second = 1e6}});
  std::vector<std::vector<float>> found(devices);
  const double seconds = network.run([&](SimulatedTransport& transport) {
    found[static_cast<std::size_t>(transport.rank())] = numbers_after(transport);
  });
  for (int r = 0; r < devices; ++r) check(r, devices, found[static_cast<std::size_t>(r)]);
  CHECK(seconds > 3 * 2e-3);  // there and back, at least, for each
}
