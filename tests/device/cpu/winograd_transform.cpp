#include "tenet/device/cpu/winograd_transform.hpp"

#include "../agreement.hpp"

using namespace tenet;
using namespace tenet::cpu::detail;

namespace {

/// Applies a transform to every lane.
template <class Transform>
std::vector<Vector> applied(const std::vector<float>& from) {
  std::vector<Vector> lanes, result(Transform::to_size);
  for (float value : from) lanes.push_back(broadcast<Vector>(value));
  Transform::apply(lanes.data(), result.data());
  return result;
}

/// The inner product of to . Transform(from) and of Gradient(to) . from are the same for transposed matrices.
template <class Transform, class Gradient>
void check_transposed() {
  static_assert(Transform::from_size == Gradient::to_size && Transform::to_size == Gradient::from_size);
  const auto from = random_floats(Transform::from_size, 1), to = random_floats(Transform::to_size, 2);
  const auto forward = applied<Transform>(from), backward = applied<Gradient>(to);
  double left = 0, right = 0;
  for (std::size_t i = 0; i < to.size(); ++i) left += double{to[i]} * forward[i][0];
  for (std::size_t i = 0; i < from.size(); ++i) right += double{from[i]} * backward[i][0];
  CHECK(left == Approx(right).margin(1e-5));
}

}  // namespace

TEST_CASE("a filter by transforms is the filter", "[cpu][winograd]") {
  const auto input = random_floats(6, 1), filter = random_floats(3, 2);
  const auto values = applied<InputTransform>(input), weights = applied<WeightTransform>(filter);
  std::vector<float> products;
  for (std::size_t i = 0; i < 6; ++i) products.push_back(values[i][0] * weights[i][0]);
  const auto result = applied<ResultTransform>(products);
  for (std::size_t i = 0; i < 4; ++i) {
    const float expected = input[i] * filter[0] + input[i + 1] * filter[1] + input[i + 2] * filter[2];
    for (int lane = 0; lane < vector_width; ++lane) CHECK(result[i][lane] == Approx(expected).margin(1e-5));
  }
}

TEST_CASE("transforms of gradients are transposed transforms", "[cpu][winograd]") {
  check_transposed<ResultTransform, ResultGradientTransform>();
  check_transposed<WeightTransform, WeightGradientTransform>();
}

TEST_CASE("panels are as equal as whole vectors allow", "[cpu][winograd]") {
  for (long columns = 1; columns < 20 * vector_width; columns += 5) {
    const WinogradPanels panels(columns);
    long next = 0;
    for (long panel = 0; panel < panels.count; ++panel) {
      CHECK(panels.first(panel) == next);
      CHECK(panels.width(panel) <= wide_columns);
      CHECK(panels.width(panel) + vector_width >= panels.width(0));
      next += panels.width(panel);
    }
    CHECK(next == round_up(columns, vector_width));
  }
}

TEST_CASE("blocks of tiles cover a batch once", "[cpu][winograd]") {
  for (const Conv2dGeometry& g : {Conv2dGeometry{16, 30, 45, 16, 3, 3, 1, 1}, {16, 7, 7, 16, 3, 3, 1, 0}}) {
    for (long most : {1, 10, 40, 200}) {
      for (long batch : {1, 5, 12}) {
        const WinogradCut cut(g, batch, most);
        std::vector<int> seen(static_cast<std::size_t>(batch * cut.tiles_y));
        for (long block = 0; block < cut.blocks; ++block) {
          long tiles = 0;
          const long parts = 2;
          for (long index = 0; index < samples_of(cut, block, batch) * parts; ++index) {
            const WinogradUnit unit = unit_of(cut, block, parts, index);
            CHECK(unit.tile == tiles);
            tiles += unit.rows * cut.tiles_x;
            for (long i = 0; i < unit.rows; ++i) {
              ++seen[static_cast<std::size_t>(unit.sample * cut.tiles_y + unit.row + i)];
            }
          }
          CHECK(tiles == tiles_of(cut, block, batch));
          CHECK(tiles <= cut.most_tiles());
        }
        for (int count : seen) CHECK(count == 1);
      }
    }
  }
}
