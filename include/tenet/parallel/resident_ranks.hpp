#pragma once

#include <memory>
#include <tenet/parallel/exchanged_gradients.hpp>
#include <tenet/parallel/resident_shards.hpp>

/// Training steps of one rank among several, on a device with a memory of its own. Each rank has its own samples, at
/// least one, and all parameters.
namespace tenet {

/// What such a step has in common with `ResidentExecution`, whose interface it has, but `run` waits for the step. All
/// ranks make one and run it together.
template <class Program, class Exchanges, class Cut>
class ResidentRank {
 public:
  using Executor = typename Program::Kernels::Executor;

  template <class Devices>
  explicit ResidentRank(Devices& devices) : ResidentRank(devices.executor(), devices.arenas()) {}
  ResidentRank(Executor& executor, ResidentArenas<Executor>& arenas)
      : executor_(&executor), arenas_(&arenas), shards_(executor, arenas) {}

  void set_scalars(const float* scalars, std::uint64_t seed) { shards_.set_scalars(scalars, seed); }
  void bind(Arena arena, float* host) { shards_.bind(arena, host); }
  void give(int index, const void* input, bool is_there = false) { shards_.give(index, input, is_there); }
  void give_there(int index, const void* input) { give(index, input, true); }
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    shards_.give_made(dataset, epoch, samples);
  }
  void use_weights(std::uint64_t version) { shards_.use_weights(version); }
  void collect_gradients() {
    shards_.gather_gradients();
    shards_.collect_gradients();
  }
  void abandon() noexcept { shards_.abandon(); }
  long memory_floats() const { return shards_.memory_floats(); }
  const float* result(int index) const { return &numbers_[static_cast<std::size_t>(index)]; }

 protected:
  static constexpr long parameter_floats = Program::slots.parameter_floats,
                        buffer_floats = Program::slots.buffer_floats;

  Executor* executor_;
  ResidentArenas<Executor>* arenas_;
  ResidentShards<Program, Exchanges, Cut> shards_;
  std::array<float, 4> numbers_{};
  long step_ = 0;
};

/// What `DistributedExecution` is on the host: gradients go from device to device, and what is left for the transport
/// are the numbers of samples and the results, which become means over the samples of all ranks.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentRankStep
    : public ResidentRank<Program, ExchangedGradients<Program, Synchronisation, bucket_bytes, T>, Cut> {
  using Base = ResidentRank<Program, ExchangedGradients<Program, Synchronisation, bucket_bytes, T>, Cut>;

 public:
  template <class Devices>
  ResidentRankStep(Devices& devices, T transport) : Base(devices) {
    this->shards_.exchanges().connect(devices.executor(), std::move(transport));
  }

  void run(int batch) {
    try {
      run_with_others(batch);
    } catch (...) {
      this->shards_.exchanges().abandon();  // what runs on this device does not wait for them
      throw;
    }
  }

 private:
  T& transport() { return this->shards_.exchanges().group(); }

  void run_with_others(int batch) {
    if (++this->step_ == 1)
      this->shards_.exchanges().share(*this->executor_, this->arenas_->memory(Arena::parameters),
                                      Base::parameter_floats);
    float samples = static_cast<float>(batch);
    add_up(&samples, 1, "number of samples");
    this->shards_.run(detail::shards_of_rank<Cut>(transport().rank(), transport().size()), batch,
                      static_cast<long>(samples));
    this->numbers_ = this->shards_.numbers();
    add_up(this->numbers_.data(), Program::result_count, "results");
  }
  void add_up(float* numbers, long count, const char* what) {
    all_reduce(transport(), numbers, count, {what, -1, this->step_});
  }
};

/// What `LocalSgdExecution` is on the host: each rank trains by itself, and after so many steps the devices' parameters
/// become their mean, and their running statistics those of rank 0's. Results are means over a rank's own samples.
template <class Program, int steps_alone, Transport T, class Cut>
class ResidentLocalSgdStep : public ResidentRank<Program, NoExchanges, Cut> {
  using Base = ResidentRank<Program, NoExchanges, Cut>;

 public:
  template <class Devices>
  ResidentLocalSgdStep(Devices& devices, T transport)
      : Base(devices),
        transport_(std::make_unique<T>(std::move(transport))),
        devices_(devices.executor(), *transport_),
        shards_of_rank_(detail::shards_of_rank<Cut>(transport_->rank(), transport_->size())) {
    devices_.weigh(1.0f / static_cast<float>(transport_->size()));
  }

  void run(int batch) {
    abandoning_if_failed([&] {
      if (this->step_ == 0) share("parameters", Arena::parameters, Base::parameter_floats);
      ++this->step_;
      this->shards_.run(shards_of_rank_, batch, batch);
      this->numbers_ = this->shards_.numbers();
      if (this->step_ % steps_alone == 0) average();
    });
  }

  /// The parameters become the mean of all ranks'.
  void synchronize() {
    abandoning_if_failed([&] { average(); });
  }

 private:
  /// Calls task(); if it fails, nothing that runs on this device waits for the others.
  template <class Task>
  void abandoning_if_failed(const Task& task) {
    try {
      task();
    } catch (...) {
      devices_.abandon();
      throw;
    }
  }
  void average() {
    devices_.add_up_weighted(*this->executor_, this->arenas_->memory(Arena::parameters), Base::parameter_floats,
                             {"parameters", -1, this->step_});
    if constexpr (Program::writes_buffers) share("running statistics", Arena::buffers, Base::buffer_floats);
    devices_.await(*this->executor_);
  }
  /// What rank 0 has, for all.
  void share(const char* what, Arena arena, long floats) {
    if (floats > 0)
      devices_.broadcast(*this->executor_, 0, this->arenas_->memory(arena), floats, {what, -1, this->step_});
  }

  std::unique_ptr<T> transport_;
  DeviceCommunicator<typename Base::Executor, T> devices_;
  WorkerShards shards_of_rank_;
};

}  // namespace tenet
