#include "tenet/device/own_memory.hpp"

#include <catch2/catch.hpp>

#include "../support/far_device.hpp"
#include "tenet/data/resident.hpp"
#include "tenet/device/cpu.hpp"

static_assert(tenet::HasOwnMemory<far::Executor> && !tenet::HasOwnMemory<tenet::cpu::Workers> &&
              !tenet::HasOwnMemory<tenet::reference::Serial>);

// Data stays on devices that have a memory for it.
using Stays = tenet::Resident<tenet::TensorDataset<>>;
static_assert(tenet::StaysOn<Stays, far::Executor> && !tenet::StaysOn<Stays, tenet::cpu::Workers> &&
              !tenet::StaysOn<tenet::TensorDataset<>, far::Executor>);

TEST_CASE("a device's buffer is zero, and grows when it must", "[device][own_memory]") {
  far::Executor executor(0);
  const long before = far::Executor::allocations;
  tenet::DeviceBuffer<far::Executor> buffer;
  CHECK(buffer.data() == nullptr);
  buffer.grow(executor, 100, "a test");
  REQUIRE(buffer.size() == 100);
  std::vector<float> found(100, 7.0f);
  executor.copy_out(found.data(), buffer.data(), 400);
  CHECK(found == std::vector<float>(100));
  const float* const first = buffer.data();
  buffer.grow(executor, 50, "a test");
  CHECK(buffer.data() == first);
  CHECK(far::Executor::allocations == before + 1);
  const long waits = executor.waits;
  buffer.grow(executor, 200, "a test");
  CHECK(buffer.size() == 200);
  CHECK(executor.waits > waits);  // nothing that runs uses the old memory
}

TEST_CASE("a buffer of a device without a memory of its own is the host's", "[device][own_memory]") {
  tenet::reference::Serial executor;
  tenet::DeviceBuffer<tenet::reference::Serial> buffer;
  buffer.grow(executor, 3, "a test");
  buffer.data()[2] = 1;
  CHECK(buffer.size() == 3);
  CHECK(buffer.data()[0] == 0);
}
