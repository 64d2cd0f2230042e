#include "agreement.hpp"
#include "tenet/device/cuda/sums.hpp"

namespace gpu = tenet::gpu;

namespace {

/// Of each row of a matrix its columns, two of which make a lane, and how many rows each lane saw.
struct PairsOfColumns {
  static constexpr int numbers = 3;
  const float* from;
  long columns;
  float* to;

  TENET_HOST_DEVICE void of(long row, long lane, float* terms) const {
    terms[0] = from[row * columns + 2 * lane];
    terms[1] = from[row * columns + 2 * lane + 1];
    terms[2] = 1;
  }
  TENET_HOST_DEVICE void store(long lane, const float* sums) const {
    for (int k = 0; k < numbers; ++k) to[numbers * lane + k] = sums[k];
  }
};

}  // namespace

TEST_CASE("sums over rows see each row once, in one part and in many, time and again", "[cuda][sums]") {
  struct Shape {
    long rows, lanes;
  };
  for (const auto& [rows, lanes] :
       {Shape{1, 1}, {3, 5}, {129, 16}, {5000, 1}, {70000, 1}, {20000, 32}, {2100, 300}, {3, 1000}})
    for (const bool side_by_side : {true, false}) {
      CAPTURE(rows, lanes, side_by_side);
      std::vector<float> numbers(static_cast<std::size_t>(rows * lanes * 2) + 1);
      for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7 % 19) - 9;
      const long columns = 2 * lanes;
      check_agreement(3 * lanes, 0, [&, rows = rows, lanes = lanes]<class Place>(Place& place, float* to) {
        const PairsOfColumns terms{place.in(numbers), columns, to};
        if constexpr (Place::is_reference) {
          std::fill_n(to, 3 * lanes, 0.0f);
          for (long row = 0; row < rows; ++row)
            for (long lane = 0; lane < lanes; ++lane) {
              float of_row[3];
              terms.of(row, lane, of_row);
              for (int k = 0; k < 3; ++k) to[3 * lane + k] += of_row[k];
            }
        } else {
          for (int again = 0; again < 3; ++again) gpu::run_sums(place.executor, terms, rows, lanes, side_by_side);
        }
      });
    }
}
