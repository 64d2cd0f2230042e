#include "tenet/device/cpu/channels_last_pairs.hpp"

#include "../agreement.hpp"

using tenet::bfloat16;

TEST_CASE("pairs of bfloat16 take the place of floats", "[cpu][channels_last_pairs]") {
  for (const long count : {1, 4, 15, 16, 17, 40}) {
    std::vector<bfloat16> a, b;
    for (const float value : random_floats(count, 1)) a.push_back(bfloat16(value));
    for (const float value : random_floats(count, 2)) b.push_back(bfloat16(value));
    std::vector<std::uint32_t> pairs(static_cast<std::size_t>(count) + 16, 7);
    std::vector<float> room(pairs.size());
    std::memcpy(room.data(), pairs.data(), 4 * pairs.size());
    tenet::cpu::detail::write_pairs(a.data(), b.data(), count, room.data());
    std::memcpy(pairs.data(), room.data(), 4 * pairs.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(pairs[i] == (a[i].bits | std::uint32_t{b[i].bits} << 16));
    for (std::size_t i = a.size(); i < pairs.size(); ++i) CHECK(pairs[i] == 7);
  }
}

TEST_CASE("an odd number of channels is not multiplied in pairs", "[cpu][channels_last_pairs]") {
  CHECK(tenet::cpu::channels_last_takes_bfloat16({2, 3, 3, 4, 1, 1, 1, 0}));
  CHECK(!tenet::cpu::channels_last_takes_bfloat16({1, 3, 3, 4, 1, 1, 1, 0}));
  CHECK(!tenet::cpu::channels_last_takes_bfloat16({2, 3, 3, 5, 1, 1, 1, 0}));
}
