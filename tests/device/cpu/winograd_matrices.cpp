#include "tenet/device/cpu/winograd_matrices.hpp"

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

TEMPLATE_TEST_CASE_SIG("a filter by transforms is the filter", "[cpu][winograd]", ((int taps), taps), 3, 5) {
  constexpr std::size_t points = WinogradPoints<taps>::count;
  const auto input = random_floats(points, 1), filter = random_floats(taps, 2);
  const auto values = applied<InputTransform<taps>>(input), weights = applied<WeightTransform<taps>>(filter);
  std::vector<float> products;
  for (std::size_t i = 0; i < points; ++i) products.push_back(values[i][0] * weights[i][0]);
  const auto result = applied<ResultTransform<taps>>(products);
  REQUIRE(result.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    float expected = 0;
    for (std::size_t tap = 0; tap < taps; ++tap) expected += input[i + tap] * filter[tap];
    for (int lane = 0; lane < vector_width; ++lane) CHECK(result[i][lane] == Approx(expected).margin(1e-5));
  }
}

TEMPLATE_TEST_CASE_SIG("transforms of gradients are transposed transforms", "[cpu][winograd]", ((int taps), taps), 3,
                       5) {
  check_transposed<InputTransform<taps>, InputGradientTransform<taps>>();
  check_transposed<ResultTransform<taps>, ResultGradientTransform<taps>>();
  check_transposed<WeightTransform<taps>, WeightGradientTransform<taps>>();
}
