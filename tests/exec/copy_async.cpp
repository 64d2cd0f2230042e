#include "tenet/exec/copy_async.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <numeric>

#include "../support/far_device.hpp"
#include "../support/message.hpp"
#include "tenet/device/cpu.hpp"

using namespace tenet;
using namespace std::chrono_literals;

namespace {

using First = Cpu<0, 1>;
using Second = Cpu<1, 1>;
/// Devices with memories of their own. Their queues are those of the reference device, whose name they have.
using Far = far::Device;
struct FarSecond : far::Device {
  static constexpr int index = 1;
};

std::vector<float> numbers(int count, float first = 1) {
  std::vector<float> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), first);
  return result;
}

/// Has a device's queue wait until it is opened.
template <class Device>
class Held {
 public:
  Held() {
    event_ = detail::DeviceTasks<Device>::of_process().submit("a gate", 0, [is_open = is_open_] {
      if (!wait_until([&] { return is_open->load(); }, 30s)) fail("gate", "it stays closed", "open", "closed");
    });
  }
  ~Held() { open(); }
  void open() { *is_open_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
  Event event_;
};

/// From the host to one device, to another one and back.
template <class A, class B>
void check_round_trip() {
  const std::vector<float> given = numbers(1000);
  std::vector<float> found(1000);
  DeviceArray<float, A> a(1000);
  DeviceArray<float, B> b(1000);
  copy_async(given, a);
  copy_async(a, b);
  copy_async(b, found).wait();
  CHECK(found == given);
}

}  // namespace

TEST_CASE("copies between the host and any two devices bring the numbers", "[copy_async]") {
  check_round_trip<First, First>();
  check_round_trip<First, Second>();
  check_round_trip<First, Far>();
  check_round_trip<Far, First>();
  check_round_trip<Far, FarSecond>();
  check_round_trip<Far, Far>();
  auto& executor = detail::DeviceTasks<FarSecond>::of_process().executor();
  CHECK(executor.device() == 1);
  CHECK(executor.bytes_there == 4000);  // from device to device, not by the host
  std::vector<std::int32_t> ints{1, -2, 3}, back(3);
  DeviceArray<std::int32_t, Second> there(3), none(0);
  copy_async(ints, there);
  copy_async(there, back).wait();
  CHECK(back == ints);
  CHECK_NOTHROW(copy_async(std::span<const std::int32_t>(), none).wait());
}

TEST_CASE("the host goes on while copies wait in their device's queue", "[copy_async]") {
  const std::vector<float> given = numbers(8);
  DeviceArray<float, First> array(8);
  Held<First> held;
  const Event copied = copy_async(given, array);
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(copied.ready());
  CHECK(
      message_of([&] { copied.wait(20ms); }) ==
      "Event: copy of 8 numbers from the host to cpu 0 has not ended; expected within 0.020000 s, found that it waits "
      "or runs");
  held.open();
  copied.wait();
  CHECK(array.data()[7] == 8);
}

TEST_CASE("a copy between two devices is in its place of the order of both", "[copy_async]") {
  const std::vector<float> before = numbers(64), behind = numbers(64, 100);
  std::vector<float> found(64);
  DeviceArray<float, First> from(64);
  DeviceArray<float, Second> to(64);
  for (int round = 0; round < 50; ++round) {
    Held<First> first;
    Held<Second> second;
    copy_async(before, from);
    copy_async(from, to);
    copy_async(behind, from);  // waits for the copy from there
    copy_async(to, found);
    const Event last = copy_async(behind, to);
    (round % 2 == 0 ? first.open() : second.open());
    std::this_thread::sleep_for(1ms);
    CHECK_FALSE(last.ready());
    first.open();
    second.open();
    last.wait();
    REQUIRE(found == before);
    REQUIRE(to.data()[0] == 100);
  }
}

TEST_CASE("a device's queue waits for another one's event, and the host for neither", "[copy_async]") {
  std::vector<float> given = numbers(8), found(8);
  DeviceArray<float, First> array(8);
  DeviceArray<float, Second> other(8);
  Held<First> held;
  const Event copied = copy_async(given, array);
  wait(Second{}, copied);
  const Event behind = copy_async(given, other);
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(behind.ready());
  held.open();
  behind.wait();
  CHECK(copied.ready());
  CHECK(other.data()[7] == 8);
  CHECK_NOTHROW(synchronize(Second{}));
}

TEST_CASE("a copy of another size is refused, and nothing is queued", "[copy_async]") {
  std::vector<float> host(3);
  DeviceArray<float, First> four(4);
  DeviceArray<float, Second> five(5);
  CHECK(message_of([&] { copy_async(host, four); }) ==
        "copy_async: numbers of the target, for the copy of 3 numbers from the host to cpu 0; expected 3, found 4");
  CHECK(message_of([&] { copy_async(four, host); }) ==
        "copy_async: numbers of the target, for the copy of 4 numbers from cpu 0 to the host; expected 4, found 3");
  CHECK(message_of([&] { copy_async(four, five); }) ==
        "copy_async: numbers of the target, for the copy of 4 numbers from cpu 0 to cpu 1; expected 4, found 5");
}

TEST_CASE("a copy that fails is named by its event, by what waits for it and by its device", "[copy_async]") {
  const std::vector<float> host = numbers(6);
  DeviceArray<float, FarSecond> there(6);
  DeviceArray<float, First> array(6);
  there.wait();
  far::Executor::copies_fail_on = 1;
  const Event failed = copy_async(host, there);
  wait(First{}, failed);
  const std::string message =
      "copy of 6 numbers from the host to reference 1: far: copying in; expected success, found device 1 is gone";
  CHECK(message_of([&] { failed.wait(); }) == message);
  far::Executor::copies_fail_on = -1;
  CHECK(message_of([] { synchronize(FarSecond{}); }) == message);
  CHECK(message_of([] { synchronize(FarSecond{}); }).empty());
  CHECK(message_of([] { synchronize(First{}); }) == "wait of cpu 0: " + message);
  CHECK_NOTHROW(copy_async(host, there).wait());
  CHECK(there.data()[5] == 6);
}

TEST_CASE("arrays may end before copies to and from them", "[copy_async]") {
  const std::vector<float> given = numbers(5000);
  std::vector<float> found(5000);
  for (int round = 0; round < 20; ++round) {
    Event last;
    {
      Held<Second> held;
      DeviceArray<float, First> a(5000);
      DeviceArray<float, Second> b(5000);
      copy_async(given, a);
      copy_async(a, b);
      last = copy_async(b, found);
    }
    last.wait();
    REQUIRE(found == given);
    std::fill(found.begin(), found.end(), 0.0f);
  }
}

TEST_CASE("copies among three devices from several threads neither mix nor wait for each other", "[copy_async]") {
  std::array<bool, 4> same{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < same.size(); ++t)
    threads.emplace_back([&, t] {
      DeviceArray<float, First> a(100);
      DeviceArray<float, Second> b(100);
      DeviceArray<float, Cpu<2, 1>> c(100);
      std::vector<float> given = numbers(100, static_cast<float>(t)), found(100);
      same[t] = true;
      for (int round = 0; round < 50; ++round) {
        std::fill(found.begin(), found.end(), -1.0f);
        if (t % 2 == 0) {
          copy_async(given, a), copy_async(a, b), copy_async(b, c);
          copy_async(c, found).wait();
        } else {
          copy_async(given, c), copy_async(c, b), copy_async(b, a);
          copy_async(a, found).wait();
        }
        same[t] &= found == given;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(same == std::array{true, true, true, true});
}
