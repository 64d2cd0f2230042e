#pragma once

#include <cmath>

/// Learning-rate schedules: how far training is -> the factor of the learning rate. Any callable will do; these are the
/// field's usual ones, named as in torch.optim.lr_scheduler.
namespace tenet {

/// How far training is, before a step.
struct TrainingPosition {
  long step = 0;         ///< steps done
  long total_steps = 1;  ///< of the whole training
  int epoch = 0;         ///< epochs done
};

struct ConstantLR {
  float factor = 1.0f;
  float operator()(const TrainingPosition&) const { return factor; }
};

/// gamma^(epoch / step_size), rounded down: a step down every step_size epochs.
struct StepLR {
  int step_size = 10;
  float gamma = 0.1f;
  float operator()(const TrainingPosition& at) const {
    return std::pow(gamma, static_cast<float>(at.epoch / step_size));
  }
};

/// From 1 down to `final` along half a cosine over the whole training, after `warmup_steps` steps of linear rise.
/// (Loshchilov and Hutter, arXiv 1608.03983.)
struct CosineAnnealingLR {
  float final = 0.0f;
  long warmup_steps = 0;
  float operator()(const TrainingPosition& at) const {
    if (at.step < warmup_steps) return static_cast<float>(at.step + 1) / static_cast<float>(warmup_steps);
    const long length = at.total_steps > warmup_steps ? at.total_steps - warmup_steps : 1;
    const float done = static_cast<float>(at.step - warmup_steps) / static_cast<float>(length);
    return final + 0.5f * (1.0f - final) * (1.0f + std::cos(3.14159265f * done));
  }
};

/// From `start` to `end` along a line over `steps` steps, then `end`.
struct LinearLR {
  float start = 1.0f, end = 0.0f;
  long steps = 1;
  float operator()(const TrainingPosition& at) const {
    if (at.step >= steps) return end;
    return start + (end - start) * static_cast<float>(at.step) / static_cast<float>(steps);
  }
};

}  // namespace tenet
