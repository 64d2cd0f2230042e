#pragma once

#include "tenet/device/cpu/matmul.hpp"

/// The gradient of a linear layer by its weight: a sum over the samples of a batch of products of a column with a row.
namespace tenet::cpu {

namespace detail {

/// Whether devices of a team add up one such sum of all their samples: where writing sums of devices, and adding these
/// up, takes longer than bringing the factors together.
constexpr bool team_pays(const MatmulGeometry& g) {
  const double places = static_cast<double>(g.rows) * static_cast<double>(g.columns);
  return places >= 1 << 16 && 8.0 * static_cast<double>(g.inner) * static_cast<double>(g.rows + g.columns) <= places;
}

/// The factors of all devices: of each part of the rows a matrix [inner of all, rows of the part], then the other
/// factor [inner of all, columns].
struct TeamFactors {
  MatmulGeometry g;  ///< of one device
  int size;

  constexpr long inner() const { return g.inner * size; }
  constexpr long first_row(int part) const { return g.rows * part / size; }
  constexpr long rows(int part) const { return first_row(part + 1) - first_row(part); }
  constexpr long left(int part) const { return inner() * first_row(part); }
  constexpr long right() const { return inner() * g.rows; }
  constexpr long floats() const { return inner() * (g.rows + g.columns); }

  void bring(int rank, const float* lhs, const float* rhs, float* terms) const {
    for (int part = 0; part < size; ++part)
      for (long i = 0; i < g.inner; ++i)
        copy_floats(terms + left(part) + (rank * g.inner + i) * rows(part), lhs + i * g.rows + first_row(part),
                    rows(part));
    copy_floats(terms + right() + rank * g.inner * g.columns, rhs, g.inner * g.columns);
  }
  void add_up(Workers& workers, int part, const float* terms, float* result) const {
    run_matmul(workers, {1, rows(part), g.columns, inner(), true, false, 0, 0, false}, terms + left(part),
               terms + right(), result + first_row(part) * g.columns);
  }
};

}  // namespace detail

/// result [rows, columns] = lhsᵀ [inner, rows] * rhs [inner, columns], a sum over the samples of a batch: of this
/// device, or of all that train together.
inline void run_outer_sum(Workers& workers, const MatmulGeometry& g, const float* lhs, const float* rhs, float* result,
                          Epilogue epilogue = {}) {
  const WorkerTeam& team = workers.team;
  if (team.size() > 1 && !epilogue && g.count == 1 && detail::team_pays(g)) {
    const detail::TeamFactors factors{g, team.size()};
    if (const WorkerTeam::Sum sum = team.begin_sum(result, g.rows * g.columns, factors.floats())) {
      factors.bring(team.rank(), lhs, rhs, sum.terms);
      return team.end_sum(
          [&workers, factors, sum, rank = team.rank()] { factors.add_up(workers, rank, sum.terms, sum.to); });
    }
  }
  run_matmul(workers, g, lhs, rhs, result, epilogue);
}

}  // namespace tenet::cpu
