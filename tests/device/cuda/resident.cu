#include <catch2/catch.hpp>

#include "../../support/resident_data.hpp"
#include "fibers.hpp"
#include "tenet/device/cuda/host_stream.hpp"
#include "tenet/device/cuda/launch.hpp"

TEST_CASE("data that stays on a GPU gives the batches of a loader on the host, bit for bit", "[cuda][resident]") {
  const auto check = [](auto& executor) {
    resident_data::check_together(executor, resident_data::byte_images(3, 5, 23));
    resident_data::check_together(executor, resident_data::byte_images(20, 27, 23));  // a block of threads for a sample
  };
  tenet::gpu::FiberHost teams;  // memory that is closed to everybody else, and teams of several threads
  check(teams);
  if (tenet::gpu::device_count() > 0) {
    tenet::gpu::Stream stream(0);
    check(stream);
  }
}
