#pragma once

#include <tenet/parallel/simulated_training.hpp>

namespace tenet {

/// Ranks whose devices update common parameters without waiting for each other. A rank's step is a number of updates,
/// of which whoever of its devices is free takes the next one; ranks do not wait for others. Times are seconds.
struct SimulatedUpdates {
  int ranks = 1, replicas = 1;
  int updates = 1;                                     ///< of a rank in a step
  double seconds = 0;                                  ///< of one: what others cost included
  double last = 0;                                     ///< of the last one, which may have fewer samples
  double first = 0;                                    ///< more, of each device's first one in a step
  double meeting = 0;                                  ///< until a rank's devices see that all of them are done
  double behind = 0;                                   ///< of the first of them, when they are
  Function<double(int device, long step)> slowness{};  ///< see `SimulatedTraining`
};

/// Runs so many steps of each rank.
inline SimulatedSteps simulate(const SimulatedUpdates& given, int steps) {
  SimulatedSteps result(given.ranks, steps);
  std::vector<double> free(static_cast<std::size_t>(given.replicas)), factor(free.size());
  for (int rank = 0; rank < given.ranks; ++rank) {
    double now = 0;
    std::vector<bool> has_begun(free.size());
    for (int step = 0; step < steps; ++step) {
      for (std::size_t r = 0; r < free.size(); ++r)
        factor[r] = given.slowness ? given.slowness(rank * given.replicas + static_cast<int>(r), step) : 1.0;
      std::fill(free.begin(), free.end(), now);
      std::fill(has_begun.begin(), has_begun.end(), false);
      for (int update = 0; update < given.updates; ++update) {
        const auto next = static_cast<std::size_t>(std::min_element(free.begin(), free.end()) - free.begin());
        const double seconds = factor[next] * ((has_begun[next] ? 0 : given.first) +
                                               (update + 1 < given.updates ? given.seconds : given.last));
        has_begun[next] = true;
        free[next] += seconds;
        result.computing += seconds / given.replicas;
      }
      now = *std::max_element(free.begin(), free.end()) + given.meeting + factor[0] * given.behind;
      result.computing += factor[0] * given.behind / given.replicas;
      result.end(rank, step) = now;
    }
  }
  return result;
}

}  // namespace tenet
