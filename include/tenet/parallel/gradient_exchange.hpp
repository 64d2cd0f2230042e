#pragma once

#include <algorithm>
#include <tenet/exec/buckets.hpp>
#include <tenet/exec/device_queue.hpp>
#include <tenet/parallel/synchronisation.hpp>

namespace tenet {

/// One rank's forward and backward pass, during which a communication thread adds up its gradients with those of all
/// other ranks: bucket by bucket, each as soon as the steps that compute it have run.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class GradientExchange {
 public:
  static constexpr auto plan =
      plan_buckets(Program::lowered, Program::slots,
                   (bucket_bytes + static_cast<long>(sizeof(float)) - 1) / static_cast<long>(sizeof(float)));

  explicit GradientExchange(T transport) : transport_(std::move(transport)) {}

  T& transport() { return transport_; }

  /// Runs the program until its gradients are the sum over all ranks of weight · gradient: `execution` has begun with
  /// this rank's samples; without any its weight is 0, and nothing is run.
  template <class Execution>
  void run(Execution& execution, float* gradients, float weight) {
    gradients_ = gradients;
    weight_ = weight;
    ++step_;
    const bool runs = weight != 0;
    if (!runs) std::fill(gradients, gradients + Program::slots.parameter_floats, 0.0f);
    int done = Program::lowered.prepared_steps;
    const auto run_until = [&](int step) {
      if (runs && step > done) execution.run_steps(done, step);
      done = std::max(done, step);
    };
    for (int b = 0; b < plan.count; ++b) {
      run_until(plan.buckets[static_cast<std::size_t>(b)].ready);
      queue_.submit([this, b] { reduce(b); });
    }
    run_until(Program::lowered.first_update);
    queue_.synchronize();
  }

 private:
  void reduce(int b) {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
    Synchronisation::reduce(transport_, gradients_ + bucket.first, bucket.floats, Label{"bucket", b, step_}, weight_);
  }

  T transport_;
  float* gradients_ = nullptr;
  float weight_ = 0;
  long step_ = 0;
  DeviceQueue queue_{{.tasks = plan.count + 1}};  // last: it ends before what its tasks use
};

}  // namespace tenet
