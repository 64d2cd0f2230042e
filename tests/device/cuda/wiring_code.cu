#include "regions_on_gpu.hpp"
#include "tenet/device/cuda/wiring_code.hpp"

TEST_CASE("the code of a wiring says all of it", "[cuda][element]") {
  constexpr tenet::Wiring constant = regions::Mixed::wiring(tenet::Role::store);
  CHECK(tenet::gpu::detail::CodeOf<constant>::decoded() == constant);
  constexpr tenet::Wiring largest = [] {
    tenet::Wiring made;
    made.operations = 24, made.inputs = 14, made.outputs = 6;
    for (int i = 0; i < 24; ++i)
      for (int k = 0; k < 4; ++k) made.source[i][k] = static_cast<signed char>(k % 2 == 0 ? 13 - k : -1 - i);
    for (int k = 0; k < 6; ++k) made.output[k] = static_cast<signed char>(k % 2 == 0 ? 23 - k : -14 + k);
    for (int k = 0; k < 14; ++k) made.uniform[k] = k % 3 == 0;
    made.narrow_inputs = 0x2a51, made.narrow_outputs = 9;
    made.summed = 3, made.moments = true, made.rows = 0x15a2, made.repeated_inputs = 0x2a3f;
    return made;
  }();
  CHECK(tenet::gpu::detail::CodeOf<largest>::decoded() == largest);
}
