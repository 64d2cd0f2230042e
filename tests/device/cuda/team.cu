#include "agreement.hpp"
#include "tenet/device/cuda/team.hpp"

namespace gpu = tenet::gpu;

namespace {

/// Of each row its sum, its largest number, and how many numbers the team has seen.
struct Summary {
  const float* from;
  long length;
  float* to;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    float sum = 0, largest = -__builtin_inff(), seen = 0;
    for (long i = team.rank(); i < length; i += Members::size) {
      const float number = from[row * length + i];
      sum += number;
      largest = number > largest || number != number ? number : largest;
      seen += 1;
    }
    sum = team.sum(sum);
    largest = team.largest(largest);
    seen = team.sum(seen);
    if (team.rank() == 0) {
      to[3 * row] = sum;
      to[3 * row + 1] = largest;
      to[3 * row + 2] = seen;
    }
  }
};

void for_each_row(tenet::reference::Serial&, long rows, long, const Summary& work) {
  for (long row = 0; row < rows; ++row) work(gpu::Alone{}, row);
}

}  // namespace

TEST_CASE("the threads of a team see each number once, and all get the result", "[cuda][team]") {
  for (const long rows : {1L, 7L, 300L})
    for (const long length : {1L, 31L, 32L, 33L, 1000L, 1025L, 5000L}) {
      CAPTURE(rows, length);
      std::vector<float> numbers(static_cast<std::size_t>(rows * length));
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 19) - 9;
      numbers[0] = __builtin_nanf("");
      check_agreement(3 * rows, 0, [&](auto& place, float* to) {
        for_each_row(place.executor, rows, length, Summary{place.in(numbers), length, to});
      });
    }
}

namespace {

/// Of each row the sums of the numbers whose index has the same rest when it is divided by `lanes`, and how many they
/// are; and how often a team was the last of all.
struct Lanes {
  const float* from;
  long rows, length;
  int lanes;
  unsigned* arrived;
  float* to;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const int width = lanes < Members::size ? lanes : Members::size;
    for (int begin = 0; begin < lanes; begin += width) {
      float sums[2] = {};
      for (long i = begin + team.rank() % width; i < length; i += lanes)
        if (i / lanes % (Members::size / width) == team.rank() / width) {
          sums[0] += from[row * length + i];
          sums[1] += 1;
        }
      team.template sum_of_lanes<2>(sums, width);
      if (team.rank() >= width) continue;
      to[row * 2 * lanes + begin + team.rank()] = sums[0];
      to[row * 2 * lanes + lanes + begin + team.rank()] = sums[1];
    }
    if (team.is_last(arrived, rows) && team.rank() == 0) to[rows * 2 * lanes] += 1;
  }
};

}  // namespace

TEST_CASE("the threads of a team add up lanes, and know whether theirs is the last team", "[cuda][team]") {
  for (const long rows : {1L, 7L, 300L})
    for (const long length : {5L, 100L, 1000L, 5000L})
      for (const int lanes : {1, 2, 8, 16, 32}) {
        CAPTURE(rows, length, lanes);
        std::vector<float> numbers(static_cast<std::size_t>(rows * length));
        for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 19) - 9;
        check_agreement(rows * 2 * lanes + 1, 0, [&]<class Place>(Place& place, float* to) {
          const float* const from = place.in(numbers);
          if constexpr (Place::is_reference) {
            std::fill_n(to, rows * 2 * lanes, 0.0f);
            for (long row = 0; row < rows; ++row)
              for (long i = 0; i < length; ++i) {
                to[2 * row * lanes + i % lanes] += from[row * length + i];
                to[(2 * row + 1) * lanes + i % lanes] += 1;
              }
            to[rows * 2 * lanes] = unwritten + 3;
          } else {
            for (int again = 0; again < 3; ++again)
              for_each_row(place.executor, rows, length,
                           Lanes{from, rows, length, lanes, place.executor.counters(), to});
          }
        });
      }
}

TEST_CASE("one thread alone is a team", "[cuda][team]") {
  static_assert(gpu::Alone::size == 1 && gpu::Alone::rank() == 0);
  CHECK(gpu::Alone::sum(3) == 3);
  CHECK(gpu::Alone::largest(-2) == -2);
}
