#pragma once

#include <cstdio>
#include <tenet/core/function.hpp>
#include <tenet/optim/schedule.hpp>
#include <vector>

/// What a training is asked for, and what it reports.
namespace tenet {

/// What one training step found: the mean loss of its batch, and the share of right answers (-1 if the loss has none).
struct StepResult {
  float loss = 0;
  float accuracy = -1;
};

/// What an evaluation found, over all samples.
struct Evaluation {
  double loss = 0;
  double accuracy = -1;
  long samples = 0;
};

/// What one epoch of training found.
struct EpochReport {
  int epoch = 0;  ///< from 1
  double loss = 0, accuracy = -1;
  double seconds = 0;
  long samples = 0;
};

/// What a whole training found.
struct FitReport {
  std::vector<EpochReport> epochs;
  bool interrupted = false;  ///< Ctrl-C ended it; the last epoch is not whole
};

struct FitOptions {
  int epochs = 1;
  /// Factor of the learning rate before each step; none: 1.
  Function<float(const TrainingPosition&)> schedule = {};
  /// Called after each step and each epoch.
  Function<void(long step, const StepResult&)> on_step = {};
  Function<void(const EpochReport&)> on_epoch = {};
  /// Asked after each epoch, behind `on_epoch`: true ends the training, as where validation no longer gains.
  Function<bool(const EpochReport&)> stop_after = {};
  std::FILE* progress = stderr;  ///< where progress is shown; null: nowhere
};

namespace detail {

/// FitOptions; named in this way so that g++ does not list the whole function where an option is misspelt.
template <class Loader>
struct FitOptionsFor {
  using type = FitOptions;
};

}  // namespace detail

}  // namespace tenet
