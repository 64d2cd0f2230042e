#pragma once

#include <tenet/exec/turns.hpp>
#include <tenet/parallel/simulated_training.hpp>

namespace tenet {

/// Devices of a process that run one program together, each step in its turn. Times are seconds.
struct SimulatedTurns {
  std::vector<DeviceTurns> of{};                       ///< each device
  std::vector<std::vector<double>> seconds{};          ///< by device and step
  double waiting = 0;                                  ///< until a device sees that another one has ended a step
  double meeting = 0;                                  ///< until all see that all have ended
  Function<double(int device, long step)> slowness{};  ///< see `SimulatedTraining`
};

/// Runs so many training steps, one after the other. Their computing is the mean of what the devices compute.
inline SimulatedSteps simulate(const SimulatedTurns& turns, int steps) {
  SimulatedSteps result(1, steps);
  double now = 0;
  for (int step = 0; step < steps; ++step) {
    double last = 0;
    const auto seconds = [&](int device, int of_program) {
      const double factor = turns.slowness ? turns.slowness(device, step) : 1.0;
      return factor * turns.seconds[static_cast<std::size_t>(device)][static_cast<std::size_t>(of_program)];
    };
    for (const TimedTurn& turn : timed_turns(turns.of, turns.waiting, seconds)) {
      last = std::max(last, turn.end);
      result.computing += (turn.end - turn.begin) / static_cast<double>(turns.of.size());
    }
    result.end(0, step) = now += last + turns.meeting;
  }
  return result;
}

}  // namespace tenet
