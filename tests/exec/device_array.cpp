#include "tenet/exec/device_array.hpp"

#include <catch2/catch.hpp>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "tenet/device/cpu.hpp"

using namespace tenet;

namespace {
/// Runs a task on a device's queue, and waits for it.
template <class Device, class Task>
void run_on(const Task& task) {
  detail::DeviceTasks<Device>::of_process().submit("a test", 0, task).wait();
}
}  // namespace

static_assert(OwnsOnDevice<DeviceArray<float, Cpu<0>>> && !OwnsOnDevice<OnDevice<float, Cpu<0>>>);
static_assert(!std::is_same_v<DeviceArray<float, Cpu<0>>, DeviceArray<float, Cpu<1>>>);
static_assert(!std::is_assignable_v<DeviceArray<float, Cpu<0>>&, DeviceArray<float, Cpu<1>>> &&
              !std::is_copy_constructible_v<DeviceArray<float, Cpu<0>>>);
static_assert(std::is_convertible_v<OnDevice<float, Cpu<1>>, OnDevice<float>> &&
              !std::is_convertible_v<OnDevice<float, Cpu<1>>, OnDevice<float, Cpu<0>>>);
static_assert(is_device_of<Cpu<1, 2>, Cpu<1>> && !is_device_of<Cpu<1>, Cpu<0>> && is_device_of<Cpu<1>, Cpu<0>, 2> &&
              !is_device_of<Cpu<2>, Cpu<0>, 2> && !is_device_of<Reference, Cpu<0>>);

TEST_CASE("an array's numbers are zero, and lie in its device's memory", "[device_array]") {
  DeviceArray<std::int32_t, Cpu<1, 1>> array(1000);
  CHECK(array.size() == 1000);
  CHECK(array.bytes() == 4000);
  array.wait();
  CHECK(std::count(array.data(), array.data() + 1000, 0) == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(array.data()) % 64 == 0);
  CHECK(array.on_device().data == array.data());
  CHECK(array.on_device().size == 1000);

  const long before = far::Executor::allocated;
  const DeviceArray<double, far::Device> there(3);
  CHECK(far::Executor::allocated == before + 24);
  there.wait();
  CHECK(there.data()[2] == 0);
}

TEST_CASE("an array is moved, may be empty, and has no negative size", "[device_array]") {
  using Array = DeviceArray<float, Cpu<0, 1>>;
  Array array(4), none;
  const float* const data = array.data();
  Array moved = std::move(array);
  CHECK(moved.data() == data);
  CHECK((array.data() == nullptr && array.size() == 0));
  none = std::move(moved);
  CHECK((none.data() == data && none.size() == 4 && moved.size() == 0));
  CHECK(Array(0).data() == nullptr);
  CHECK(message_of([] { Array(-2); }) == "DeviceArray: size; expected none or more, found -2");
}

TEST_CASE("memory of an array stays for what is queued to work with it", "[device_array]") {
  std::weak_ptr<detail::DeviceMemory<Cpu<0, 1>>> seen;
  std::atomic<bool> is_open{false};
  Event event;
  {
    const DeviceArray<float, Cpu<0, 1>> array(4);
    seen = array.memory();
    event = detail::DeviceTasks<Cpu<0, 1>>::of_process().submit("a test", 0, [&is_open, memory = array.memory()] {
      wait_until([&] { return is_open.load(); }, std::chrono::seconds(30));
    });
  }
  CHECK_FALSE(seen.expired());
  is_open = true;
  event.wait();
  run_on<Cpu<0, 1>>([] {});
  CHECK(seen.expired());
}

#if defined(__linux__)
TEST_CASE("what is queued on a device runs on its processors", "[device_array]") {
  ProcessorSet first, all;
  run_on<Cpu<0, 1>>([&] { first = own_processors(); });
  CHECK(first == Cpu<0, 1>::processors());
  run_on<Cpu<0>>([&] { all = own_processors(); });  // the same queue
  CHECK(all == own_processors());
}
#endif

TEST_CASE("the first failure of a device's tasks comes out of its synchronisation, once", "[device_array]") {
  auto& tasks = detail::DeviceTasks<Cpu<3, 1>>::of_process();
  const Event first = tasks.submit("first", 0, [] { throw Error("no room"); });
  const Event second = tasks.submit("second", 0, [] { throw std::length_error("too long"); });
  const Event third = tasks.submit("third", 0, [] {});
  synchronize(Cpu<2>{});
  CHECK(message_of([] { synchronize(Cpu<3>{}); }) == "first: no room");
  CHECK(message_of([] { synchronize(Cpu<3>{}); }).empty());
  CHECK(message_of([&] { second.wait(); }) == "second: too long");
  CHECK_NOTHROW(third.wait());
}
