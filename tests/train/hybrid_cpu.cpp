#include "../support/hybrid.hpp"

TEST_CASE("networks drawn at random give the same numbers in both modes on the CPU device", "[hybrid]") {
  hybrid::check_all_drawn<tenet::Cpu<0, 2>, 12>();
}
