#pragma once

#include <memory>
#include <tenet/parallel/exchanged_gradients.hpp>
#include <tenet/parallel/resident_shards.hpp>
#include <vector>

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

  static constexpr int devices() { return 1; }
  template <class Task>
  void on_devices(const Task& task) {
    task(0, *executor_, *arenas_);
  }

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
  ResidentRankStep(Devices& devices, T transport)
      : ResidentRankStep(devices, std::move(transport), transport.rank(), transport.size()) {}
  /// `rank` of `ranks`: those that train, where the transport is between some of them.
  template <class Devices>
  ResidentRankStep(Devices& devices, T&& transport, int rank, int ranks)
      : Base(devices), shards_of_rank_(detail::shards_of_rank<Cut>(rank, ranks)) {
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
    this->shards_.run(shards_of_rank_, batch, static_cast<long>(samples));
    this->numbers_ = this->shards_.numbers();
    add_up(this->numbers_.data(), Program::result_count, "results");
  }
  void add_up(float* numbers, long count, const char* what) {
    all_reduce(transport(), numbers, count, {what, -1, this->step_});
  }

  WorkerShards shards_of_rank_;
};

/// What `LocalSgdExecution` is on the host: a `Worker` trains, and after so many steps the devices' parameters become
/// their mean, and their running statistics those of rank 0's. Results are means over a worker's own samples.
///
///     void run_alone(int batch);  T& transport();  bool is_only();      as on the host
///     int devices();  void on_devices(task)         how many the rank has; task(device, executor, arenas) for each, at
///                                                   the same time
///     Group group(int device)                       what one of them is among those of all ranks
template <class Program, class Worker, int steps_alone>
class ResidentLocalSgdStep : public Worker {
  using Executor = typename Program::Kernels::Executor;

 public:
  template <class Devices, Transport T>
  ResidentLocalSgdStep(Devices& devices, T transport)
      : Worker(devices, std::move(transport)), all_(static_cast<std::size_t>(this->devices())) {
    this->on_devices([this](int device, Executor& executor, auto&) {
      auto& one = all_[static_cast<std::size_t>(device)];
      one = std::make_unique<OneOfAll>(executor, this->group(device));
      one->communicator.weigh(1.0f / static_cast<float>(one->group.size()));
    });
  }

  void run(int batch) {
    abandoning_if_failed([&] {
      if (steps_ == 0) share_parameters();
      ++steps_;
      this->run_alone(batch);
      if (steps_ % steps_alone == 0) average();
    });
  }

  /// The parameters become the mean of all ranks'.
  void synchronize() {
    abandoning_if_failed([&] { average(); });
  }

 private:
  /// Calls task(); if it fails, nothing that runs on the rank's devices waits for others.
  template <class Task>
  void abandoning_if_failed(const Task& task) {
    try {
      task();
    } catch (...) {
      this->abandon();
      for (auto& one : all_) one->communicator.abandon();
      throw;
    }
  }
  void average() {
    if (this->is_only()) return;
    this->on_devices([this](int device, Executor& executor, auto& arenas) {
      auto& communicator = all_[static_cast<std::size_t>(device)]->communicator;
      communicator.add_up_weighted(executor, arenas.memory(Arena::parameters), Program::slots.parameter_floats,
                                   {"parameters", -1, steps_});
      if constexpr (Program::writes_buffers)
        communicator.broadcast(executor, 0, arenas.memory(Arena::buffers), Program::slots.buffer_floats,
                               {"running statistics", -1, steps_});
      communicator.await(executor);
    });
  }
  /// All begin with what the first device of rank 0 has.
  void share_parameters() {
    this->on_devices([this](int device, Executor& executor, auto& arenas) {
      auto& communicator = all_[static_cast<std::size_t>(device)]->communicator;
      communicator.broadcast(executor, 0, arenas.memory(Arena::parameters), Program::slots.parameter_floats,
                             {"parameters", -1, steps_});
      communicator.await(executor);  // the worker uses the transport
    });
  }

  using OneOfAll = GroupedDevice<Executor, typename Worker::Group>;
  std::vector<std::unique_ptr<OneOfAll>> all_;  // of each of the rank's devices
  long steps_ = 0;
};

namespace detail {

/// What `RankByItself` is on the host.
template <class Program, Transport T, class Cut>
class ResidentRankByItself : public OwnTransport<T>, public ResidentRank<Program, NoExchanges, Cut> {
 public:
  using Group = Subgroup<T>;

  template <class Devices>
  ResidentRankByItself(Devices& devices, T transport)
      : OwnTransport<T>(std::move(transport)), ResidentRank<Program, NoExchanges, Cut>(devices) {}

  void run_alone(int batch) {
    this->shards_.run(shards_of_rank<Cut>(this->transport().rank(), this->transport().size()), batch, batch);
    this->numbers_ = this->shards_.numbers();
  }
  bool is_only() { return this->transport().size() == 1; }
  Group group(int) { return Group::of_all(this->transport()); }
};

/// What `MachineByItself` is on the host.
template <class Program, class Inner, long bucket_bytes, Transport T, class Cut>
class ResidentMachineByItself : public OwnTransport<T>,
                                public ResidentRankStep<Program, Inner, bucket_bytes, Subgroup<T>, Cut> {
  using Machine = ResidentRankStep<Program, Inner, bucket_bytes, Subgroup<T>, Cut>;

 public:
  using Group = Subgroup<T>;

  template <class Devices>
  ResidentMachineByItself(Devices& devices, T all)
      : OwnTransport<T>(std::move(all)),
        Machine(devices, Subgroup<T>::of_machine(transport()), transport().rank(), transport().size()) {}

  using OwnTransport<T>::transport;
  void run_alone(int batch) { Machine::run(batch); }
  bool is_only() { return this->shards_.exchanges().group().size() == transport().size(); }
  Group group(int) { return Group::of_all(transport()); }
};

}  // namespace detail

}  // namespace tenet
