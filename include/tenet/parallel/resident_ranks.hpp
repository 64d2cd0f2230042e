#pragma once

#include <tenet/parallel/exchanged_gradients.hpp>
#include <tenet/parallel/resident_shards.hpp>

namespace tenet {

/// A training step of one rank among several, on a device with a memory of its own: what `DistributedExecution` is on
/// the host. Each rank has its own samples, at least one, and all parameters; gradients go from device to device, and
/// what is left for the transport are the numbers of samples and the results.
///
/// The same interface as `ResidentExecution`, but `run` waits for the step. All ranks make one and run it together.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentRankStep {
 public:
  template <class Devices>
  ResidentRankStep(Devices& devices, T transport)
      : executor_(&devices.executor()), arenas_(&devices.arenas()), shards_(devices.executor(), devices.arenas()) {
    shards_.exchanges().connect(devices.executor(), std::move(transport));
  }

  void set_scalars(const float* scalars, std::uint64_t seed) { shards_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* host) { shards_.bind(arena, host); }
  void give(int index, const void* input) { shards_.give(index, input, false); }
  void give_there(int index, const void* input) { shards_.give(index, input, true); }
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    shards_.give_made(dataset, epoch, samples);
  }
  void use_weights(std::uint64_t version) { shards_.use_weights(version); }
  void collect_gradients() {
    shards_.gather_gradients();
    shards_.collect_gradients();
  }
  long memory_floats() const { return shards_.memory_floats(); }

  void run(int batch) {
    try {
      run_with_others(batch);
    } catch (...) {
      shards_.exchanges().abandon();  // what runs on this device does not wait for them
      throw;
    }
  }
  /// Means over the samples of all ranks.
  const float* result(int index) const { return &numbers_[static_cast<std::size_t>(index)]; }

 private:
  T& transport() { return shards_.exchanges().group(); }

  void run_with_others(int batch) {
    if (++step_ == 1)
      shards_.exchanges().share(*executor_, arenas_->memory(Arena::parameters), Program::slots.parameter_floats);
    float samples = static_cast<float>(batch);
    add_up(&samples, 1, "number of samples");
    shards_.run(detail::shards_of_rank<Cut>(transport().rank(), transport().size()), batch, static_cast<long>(samples));
    numbers_ = shards_.numbers();
    add_up(numbers_.data(), Program::result_count, "results");
  }
  void add_up(float* numbers, long count, const char* what) {
    all_reduce(transport(), numbers, count, {what, -1, step_});
  }

  typename Program::Kernels::Executor* executor_;
  ResidentArenas<typename Program::Kernels::Executor>* arenas_;
  ResidentShards<Program, ExchangedGradients<Program, Synchronisation, bucket_bytes, T>, Cut> shards_;
  std::array<float, 4> numbers_{};
  long step_ = 0;
};

}  // namespace tenet
