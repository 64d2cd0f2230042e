#pragma once

#include <tenet/core/function.hpp>
#include <tenet/core/host_device.hpp>
#include <tenet/exec/resident_execution.hpp>
#include <tenet/parallel/shards.hpp>

namespace tenet {

namespace detail {

/// Of element i: sum = weight · gradient, or so much more.
struct AddShare {
  const float* gradients;
  float* sum;
  float weight;
  bool is_first;

  TENET_HOST_DEVICE void operator()(long i) const {
    const float share = weight * gradients[i];
    sum[i] = is_first ? share : sum[i] + share;
  }
};

}  // namespace detail

/// What one worker, a replica or a rank, does with its shards of a batch on a device with a memory of its own:
/// `ShardedPass` there. Where a batch is cut the passes run for each shard, and their gradients become a sum on the
/// device; behind the last one the workers bring these together, and update. Else all of it is one run.
template <class Program, class Exchanges, class Cut>
class ResidentShards {
 public:
  using Executor = typename Program::Kernels::Executor;
  using One = ResidentExecution<Program, Exchanges>;
  static constexpr bool updates = Program::lowered.after_update > Program::lowered.first_update;
  static constexpr bool has_exchanges = !Exchanges::all.empty();
  static constexpr bool is_cut = updates && detail::is_cut<Cut>;
  static_assert(!is_cut || updates_in_place<Program>(),
                "MicroBatches: the optimizer's update does not leave the parameters in their places");

  ResidentShards(Executor& executor, ResidentArenas<Executor>& arenas)
      : executor_(&executor), execution_(executor, arenas, &exchanges_) {}

  Exchanges& exchanges() { return exchanges_; }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    seed_ = seed;
    execution_.set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* host) { execution_.bind(arena, host); }
  void give(int index, const void* input, bool is_there) {
    inputs_[static_cast<std::size_t>(index)] = {static_cast<const float*>(input), is_there};
    make_ = nullptr;
  }
  /// `samples` are those of the batch that this worker has its shards of.
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    make_ = [this, &dataset, epoch, samples](const Shard& shard) {
      execution_.give_made(
          dataset, epoch,
          samples.subspan(static_cast<std::size_t>(shard.first_sample), static_cast<std::size_t>(shard.samples)));
    };
  }
  void use_weights(std::uint64_t version) { execution_.use_weights(version); }
  /// Where devices have parts of the gradients: all of them bring these together.
  void gather_gradients() {
    if constexpr (Exchanges::updates_parts) exchanges_.gather(*executor_, execution_.gradients());
  }
  /// This worker has failed: nobody is to wait for it.
  void abandon() noexcept {
    if constexpr (has_exchanges) exchanges_.abandon();
  }
  void collect_gradients() { execution_.collect_gradients(); }
  long memory_floats() const { return execution_.memory_floats(); }

  /// Starts this worker's shards of a batch; all workers together have `of_all` samples.
  void run(const WorkerShards& shards, int batch, long of_all) {
    numbers_.fill(0);
    for (int i = 0; i < shards.count; ++i) {
      shard_ = shards.of(batch, i);
      weight_ = static_cast<float>(shard_.samples) / static_cast<float>(of_all);
      execution_.set_seed(seed_of_shard(seed_, shard_.number));
      if (shard_.samples > 0) give_shard();
      if constexpr (is_cut) {
        add_passes(i == 0);
      } else {
        if constexpr (has_exchanges) exchanges_.begin(weight_);
        if (updates || shard_.samples > 0) execution_.run(shard_.samples, of_all);
      }
    }
    if constexpr (is_cut) {
      executor_->copy_there(execution_.gradients(), sum_.data(), 4 * Program::slots.parameter_floats);
      if constexpr (has_exchanges) exchanges_.begin(1);  // they are terms of the sum
      execution_.run_update();
    }
  }
  /// This worker's terms of the results that are one number, means over all samples. Waits for it.
  const std::array<float, 4>& numbers() {
    execution_.await();
    if constexpr (!is_cut) add_numbers();
    return numbers_;
  }
  /// Where no batch is cut: result `index` of this worker's samples, and which these are.
  const float* result(int index) const { return execution_.result(index); }
  const Shard& shard() const { return shard_; }

 private:
  struct Input {
    const float* data = nullptr;  // elements of any type: 4 bytes
    bool is_there = false;
  };

  void give_shard() {
    if (make_) return make_(shard_);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorInfo* const type = Program::input_types[i];
      if (type == nullptr || inputs_[i].data == nullptr) continue;
      const float* const from = inputs_[i].data + (type->batched ? type->size() * shard_.first_sample : 0);
      const int number = static_cast<int>(i);
      inputs_[i].is_there ? execution_.give_there(number, from) : execution_.give(number, from);
    }
  }
  void add_passes(bool is_first) {
    sum_.grow(*executor_, Program::slots.parameter_floats, "sums of gradients");
    if (shard_.samples > 0) execution_.run_passes(shard_.samples);
    for_each(*executor_, Program::slots.parameter_floats,
             detail::AddShare{execution_.gradients(), sum_.data(), weight_, is_first});
    add_numbers();
  }
  void add_numbers() {
    if (shard_.samples == 0) return;
    const float weight = Program::is_on_part ? 1 : weight_;
    for (int k = 0; k < Program::result_count; ++k)
      if (!Program::result_types[static_cast<std::size_t>(k)]->batched)
        numbers_[static_cast<std::size_t>(k)] += weight * *execution_.result(k);
  }

  Executor* executor_;
  [[no_unique_address]] Exchanges exchanges_;
  One execution_;
  DeviceBuffer<Executor> sum_;
  std::array<Input, 4> inputs_{};
  Function<void(const Shard&)> make_;
  std::uint64_t seed_ = 0;
  Shard shard_;
  float weight_ = 0;
  std::array<float, 4> numbers_{};
};

}  // namespace tenet
