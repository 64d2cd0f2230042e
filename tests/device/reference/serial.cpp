#include "tenet/device/reference/serial.hpp"

#include <catch2/catch.hpp>
#include <concepts>
#include <type_traits>

#include "tenet/device/reference.hpp"

using tenet::reference::Serial;

// Nothing but the calling thread, and the sums of those that train with it: no scratch memory, no workers to be made.
static_assert(sizeof(Serial) == sizeof(tenet::WorkerSum) && std::default_initializable<Serial>);
static_assert(!std::is_constructible_v<Serial, int>);

TEST_CASE("the reference executor keeps nothing between kernels", "[reference]") {
  // The same call on one executor and on a fresh one for each run.
  Serial kept;
  const float a[] = {1, 2, 3}, b[] = {4, 5, 6};
  for (int run = 0; run < 3; ++run) {
    Serial fresh;
    float first = 0, second = 0;
    tenet::reference::run_matmul(kept, {1, 1, 1, 3, false, false, 0, 0}, a, b, &first);
    tenet::reference::run_matmul(fresh, {1, 1, 1, 3, false, false, 0, 0}, a, b, &second);
    CHECK(first == 32);
    CHECK(second == 32);
  }
}
