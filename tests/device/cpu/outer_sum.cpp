#include "tenet/device/cpu/outer_sum.hpp"

#include "../../support/played_team.hpp"
#include "../agreement.hpp"
#include "tenet/device/reference/matmul.hpp"

using namespace tenet;

namespace {

struct Factors {
  MatmulGeometry g;  // of all samples
  std::vector<float> lhs, rhs, expected;

  Factors(long inner, long rows, long columns)
      : g{1, rows, columns, inner, true, false, 0, 0, false},
        lhs(random_floats(inner * rows, 1)),
        rhs(random_floats(inner * columns, 2)),
        expected(static_cast<std::size_t>(rows * columns)) {
    reference::Serial serial;
    run_matmul(serial, g, lhs.data(), rhs.data(), expected.data(), {});
  }
  /// Device `rank` of `size` runs with its part of the samples.
  void run(cpu::Workers& workers, int rank, int size, float* result, Epilogue epilogue = {}) const {
    MatmulGeometry own = g;
    own.inner /= size;
    run_outer_sum(workers, own, lhs.data() + rank * own.inner * g.rows, rhs.data() + rank * own.inner * g.columns,
                  result, epilogue);
  }
};

void check(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(found[i] == Approx(expected[i]).epsilon(1e-4).margin(1e-4));
}

}  // namespace

TEST_CASE("a sum over samples is that of a device that is alone", "[cpu][outer_sum]") {
  for (const Factors& factors : {Factors(6, 300, 257), Factors(40, 3, 5)}) {
    std::vector<float> found(factors.expected.size());
    factors.run(pool(2), 0, 1, found.data());
    check(found, factors.expected);
  }
}

TEST_CASE("devices that train together find the sum over all their samples", "[cpu][outer_sum]") {
  for (const int size : {2, 3, 7})
    for (const Factors& factors : {Factors(2 * size, 300, 257), Factors(size, 512, 128)}) {
      std::vector<float> own(factors.expected.size());
      PlayedTeam team(size);
      const auto& sum = team.play(pool(2), [&](int rank) { factors.run(pool(2), rank, size, own.data()); });
      CHECK(team.sums() == size);
      check(sum, factors.expected);
    }
}

TEST_CASE("devices have sums of their own where these are small or few, or something is done with them",
          "[cpu][outer_sum]") {
  const auto sums = [](const Factors& factors, Epilogue epilogue) {
    std::vector<float> own(factors.expected.size());
    PlayedTeam team(2);
    team.play(pool(2), [&](int rank) { factors.run(pool(2), rank, 2, own.data(), epilogue); });
    return team.sums();
  };
  const Epilogue something{[](const void*, long, long) {}, nullptr};
  CHECK(sums(Factors(4, 300, 257), {}) == 2);
  CHECK(sums(Factors(4, 300, 257), something) == 0);
  CHECK(sums(Factors(400, 300, 257), {}) == 0);  // many samples
  CHECK(sums(Factors(4, 100, 257), {}) == 0);    // few places
}
