#pragma once

#include <tenet/comm/collectives.hpp>
#include <tenet/core/same_address.hpp>

/// What workers bring each other in a training step, as data. It stands beside each synchronisation, in its `traffic`,
/// and is what `summary()` prints, a timeline plans and `predict_step_time` looks at.
namespace tenet {

/// How numbers come from worker to worker.
struct Moving {
  const char* verb;                           ///< what a worker does: "sends"
  const char* share;                          ///< so many times m numbers, of n workers: "2 (n - 1)/n"; empty: once
  double (*moved)(int workers, long floats);  ///< so many numbers of a worker
  double (*seconds)(int workers, long floats, const LinkCost& link){};  ///< null: there is no formula
  bool at_most = false;                                                 ///< it may be fewer numbers
};

struct Traffic {
  static constexpr long unbounded = 1L << 62;

  const Moving* gradients = nullptr;   ///< of each bucket, when it is ready; null: they stay where they are
  const Moving* parameters = nullptr;  ///< behind the update: of each bucket; of all at once where no gradients move
  int steps = 1;                       ///< parameters move once in so many steps
  long most_ahead = 0;                 ///< so many steps ahead of the slowest worker, before it waits for it
  bool is_known = true;                ///< else nothing is said of what moves
  bool inside = false;                 ///< gradients move between workers of one machine, parameters between all
  /// To servers and from them: of so many numbers, the most that one of them has of n workers. Else null.
  double (*served)(int workers, long floats) = nullptr;

  constexpr bool moves() const { return !is_null(gradients) || !is_null(parameters); }
  constexpr bool has_formula() const {
    return is_known && (is_null(gradients) || !is_null(gradients->seconds)) &&
           (is_null(parameters) || !is_null(parameters->seconds));
  }
};

namespace detail {

/// `all_reduce`: most is sent by doubling, which is for few numbers.
inline constexpr Moving all_reduce_moves{
    "sends", "⌈log₂ n⌉",
    [](int workers, long floats) { return static_cast<double>(rounds_of_doubling(workers)) * floats; },
    [](int workers, long floats, const LinkCost& link) { return AllReduceTimes(workers, floats, link).least(); }, true};

constexpr int rounds_of_parts(int workers, const LinkCost& link) {
  return halves_parts(workers, link) ? rounds_of_doubling(workers) : workers - 1;
}

/// `reduce_scatter` and `all_gather`, by halving and doubling or as a ring's two halves.
inline constexpr Moving scatter_moves{
    "sends", "(n - 1)/n", [](int workers, long floats) { return (workers - 1.0) / workers * floats; },
    [](int workers, long floats, const LinkCost& link) {
      return rounds_of_parts(workers, link) * link.seconds +
             (workers - 1.0) / workers * floats * (link.seconds_per_float + link.seconds_per_sum);
    }};
inline constexpr Moving gather_moves{"sends", scatter_moves.share, scatter_moves.moved,
                                     [](int workers, long floats, const LinkCost& link) {
                                       return rounds_of_parts(workers, link) * link.seconds +
                                              (workers - 1.0) / workers * floats * link.seconds_per_float;
                                     }};

/// Both of them where there are numbers for all parts, as `Ring` does it.
inline constexpr Moving ring_moves{"sends", "2 (n - 1)/n",
                                   [](int workers, long floats) {
                                     return has_lines_for(workers, floats) ? 2 * scatter_moves.moved(workers, floats)
                                                                           : all_reduce_moves.moved(workers, floats);
                                   },
                                   [](int workers, long floats, const LinkCost& link) {
                                     const AllReduceTimes times(workers, floats, link);
                                     return has_lines_for(workers, floats) ? times.by_ring : times.least();
                                   }};

}  // namespace detail

}  // namespace tenet
