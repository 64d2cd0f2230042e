#include "agreement.hpp"
#include "tenet/device/cuda/parts.hpp"

using namespace tenet;

static_assert(gpu::parts_of_sum(Role::sum, 1, 1000) == 1 && gpu::parts_of_sum(Role::sum, 1, 1 << 30) == 1024);
static_assert(gpu::parts_of_sum(Role::sum_rows, 64, 200'000) == 2048 &&
              gpu::parts_of_sum(Role::sum_rows, 64, 640) == 20);
static_assert(gpu::parts_of_sum(Role::sum_rows, 1 << 20, 1 << 20) == 1);

TEST_CASE("parts of sums are added up, by threads and by teams, to what is there or not", "[cuda][parts]") {
  for (const long count : {1L, 7L, 300L})
    for (const long parts : {1L, 2L, 31L, 32L, 33L, 1000L, 2048L}) {
      CAPTURE(count, parts);
      std::vector<float> numbers(static_cast<std::size_t>(count * parts));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 19) - 9;
      check_agreement(2 * count, 0, [&]<class Place>(Place& place, float* to) {
        const float* const from = place.in(numbers);
        if constexpr (Place::is_reference) {
          for (long c = 0; c < count; ++c) {
            float sum = 0;
            for (long part = 0; part < parts; ++part) sum += from[part * count + c];
            to[c] = sum;
            to[count + c] = 2 * sum;
          }
        } else {
          gpu::add_up_parts(place.executor, from, count, parts, to);
          gpu::add_up_parts(place.executor, from, count, parts, to + count);
          gpu::add_up_parts(place.executor, from, count, parts, to + count, true);
        }
      });
    }
}
