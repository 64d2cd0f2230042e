#pragma once

#include <tenet/exec/resident_execution.hpp>
#include <tenet/parallel/exchanged_gradients.hpp>
#include <tenet/parallel/shards.hpp>

namespace tenet {

/// A training step of one rank among several, on a device with a memory of its own: what `DistributedExecution` is on
/// the host. Each rank has its own samples, at least one, and all parameters; gradients go from device to device, and
/// what is left for the transport are the numbers of samples and the results.
///
/// The same interface as `ResidentExecution`, but `run` waits for the step. All ranks make one and run it together.
template <class Program, long bucket_bytes, Transport T>
class ResidentRankStep {
  using Exchanges = ExchangedGradients<Program, bucket_bytes, T>;

 public:
  template <class Devices>
  ResidentRankStep(Devices& devices, T transport)
      : executor_(&devices.executor()),
        arenas_(&devices.arenas()),
        execution_(devices.executor(), devices.arenas(), &exchanges_) {
    exchanges_.connect(devices.executor(), std::move(transport));
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    execution_.set_scalars(scalars, seed_of_shard(seed, exchanges_.transport().rank()));
  }
  void bind(Arena arena, float* host) { execution_.bind(arena, host); }
  void give(int index, const void* input) { execution_.give(index, input); }
  void give_there(int index, const void* input) { execution_.give_there(index, input); }
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    execution_.give_made(dataset, epoch, samples);
  }
  void use_weights(std::uint64_t version) { execution_.use_weights(version); }
  void collect_gradients() { execution_.collect_gradients(); }
  long memory_floats() const { return execution_.memory_floats(); }

  void run(int batch) {
    try {
      run_with_others(batch);
    } catch (...) {
      exchanges_.abandon();  // what runs on this device does not wait for them
      throw;
    }
  }
  /// Means over the samples of all ranks.
  const float* result(int index) const { return &numbers_[static_cast<std::size_t>(index)]; }

 private:
  void run_with_others(int batch) {
    ++step_;
    if (step_ == 1) exchanges_.share(*executor_, arenas_->memory(Arena::parameters), Program::slots.parameter_floats);
    float samples = static_cast<float>(batch);
    add_up(&samples, 1, "number of samples");
    exchanges_.begin(batch, samples);
    execution_.run(batch, static_cast<long>(samples));
    for (int i = 0; i < Program::result_count; ++i)
      numbers_[static_cast<std::size_t>(i)] = exchanges_.weight() * *execution_.result(i);
    add_up(numbers_.data(), Program::result_count, "results");
  }
  void add_up(float* numbers, long count, const char* what) {
    all_reduce(exchanges_.transport(), numbers, count, {what, -1, step_});
  }

  typename Program::Kernels::Executor* executor_;
  ResidentArenas<typename Program::Kernels::Executor>* arenas_;
  Exchanges exchanges_;
  ResidentExecution<Program, Exchanges> execution_;
  std::array<float, 4> numbers_{};
  long step_ = 0;
};

}  // namespace tenet
