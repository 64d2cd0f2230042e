#include "tenet/core/wait.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

TEST_CASE("threads that are more than the processors sleep soon", "[wait]") {
  const int processors = available_processors();
  CHECK(spins_between(1) == usual_spins);
  CHECK(spins_between(processors) == usual_spins);
  CHECK(spins_between(processors + 1) < usual_spins / 10);
}

TEST_CASE("a thread that works for another one looks less often while that computes", "[wait]") {
  CHECK(spins_beside(usual_spins) == usual_spins);
  std::atomic<bool> computes{true};
  computes_beside = &computes;
  CHECK(gives_way());
  CHECK(spins_beside(usual_spins) == usual_spins / 4);
  CHECK(spins_beside(10) == 10);
  computes = false;
  CHECK_FALSE(gives_way());
  CHECK(spins_beside(usual_spins) == usual_spins);
  computes_beside = nullptr;
}
