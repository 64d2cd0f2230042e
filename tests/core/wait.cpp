#include "tenet/core/wait.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("threads that are more than the processors sleep soon", "[wait]") {
  const int processors = available_processors();
  CHECK(spins_between(1) == usual_spins);
  CHECK(spins_between(processors) == usual_spins);
  CHECK(spins_between(processors + 1) < usual_spins / 10);
}
