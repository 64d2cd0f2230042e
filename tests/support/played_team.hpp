#pragma once

#include <tenet/core/worker_team.hpp>
#include <vector>

/// Devices that train together, played by one thread, one after the other: what the kernels of a device see.
class PlayedTeam {
 public:
  explicit PlayedTeam(int size) : size_(size) {}

  /// Runs each device, run(rank), the last one first; and then what they do when all have given their terms. Returns
  /// the sum that they have begun.
  template <class Workers, class Run>
  const std::vector<float>& play(Workers& workers, Run run) {
    for (int rank = size_ - 1; rank >= 0; --rank) {
      workers.team = {rank, size_, {&begin_sum, &end_sum}, this};
      run(rank);
    }
    workers.team = {};
    for (const auto& task : tasks_) task();
    return sum_;
  }
  /// How many sums all devices have begun.
  int sums() const { return sums_; }

 private:
  static tenet::WorkerTeam::Sum begin_sum(void* context, const float*, long places, long terms) {
    PlayedTeam& team = *static_cast<PlayedTeam*>(context);
    ++team.sums_;
    team.sum_.resize(static_cast<std::size_t>(places), 1e30f);
    team.terms_.resize(static_cast<std::size_t>(terms), 1e30f);
    return {team.sum_.data(), team.terms_.data()};
  }
  static void end_sum(void* context, const tenet::WorkerTeam::Task& task) {
    static_cast<PlayedTeam*>(context)->tasks_.push_back(task);
  }

  int size_, sums_ = 0;
  std::vector<float> sum_, terms_;
  std::vector<tenet::WorkerTeam::Task> tasks_;
};
