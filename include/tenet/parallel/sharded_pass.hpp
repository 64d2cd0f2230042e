#pragma once

#include <memory>
#include <tenet/exec/execution.hpp>
#include <tenet/parallel/shards.hpp>

namespace tenet {

/// What one worker, a replica or a rank, does with its shards of a batch: the program's passes one shard after the
/// other, up to the optimizer's update and behind it. `Cut` is the policy.
///
/// Gradients and results that are one number (the mean over a shard's samples) come out in this way: where the batch is
/// cut, the sum over this worker's shards of samples / all · what the shard gives; else what the one shard gives. Of a
/// program that runs on a part of the batch the latter is a part of a sum, too.
template <class Program, class Cut>
class ShardedPass {
 public:
  using Executor = typename Program::Kernels::Executor;
  using One = Execution<Program, OneSampleNever>;
  static constexpr bool is_cut = detail::is_cut<Cut>;
  static constexpr bool updates = Program::lowered.after_update > Program::lowered.first_update;
  /// The first step behind the update that is the caller's; those before it are run here, for each shard. Steps that
  /// bring an update to its place have to wait for it.
  static constexpr int after_pass =
      updates_in_place<Program>() ? Program::lowered.used.steps : Program::lowered.after_update;
  /// Whether gradients and numbers are terms of the sum over workers; else means over this worker's samples.
  static constexpr bool gives_terms = is_cut || Program::is_on_part;
  static_assert(!is_cut || after_pass == Program::lowered.used.steps,
                "MicroBatches, Reproducible: the optimizer's update does not leave the parameters in their places");

  ShardedPass(Executor& executor, WorkerShards shards) : execution_(std::make_unique<One>(executor)), shards_(shards) {
    if constexpr (is_cut) {
      if constexpr (updates) gradients_.prepare(shards.count, Program::slots.parameter_floats);
      results_.prepare(shards.count, static_cast<long>(numbers_.size()));
    }
    if (has_spare(shards.count)) spare_.grow(Program::slots.buffer_floats);
  }

  /// The program's execution, of the shard at hand.
  One& execution() { return *execution_; }
  const One& execution() const { return *execution_; }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    seed_ = seed;
    execution_->set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* memory) {
    bound_[static_cast<std::size_t>(arena)] = memory;
    execution_->bind(arena, memory);
  }
  /// What has been bound.
  float* memory(Arena arena) const { return bound_[static_cast<std::size_t>(arena)]; }
  /// Where the inputs of a batch's first sample are.
  void give(int index, const void* input) { inputs_[static_cast<std::size_t>(index)] = input; }
  void use_weights(std::uint64_t version) { execution_->use_weights(version); }

  /// Runs this worker's shards of a batch; their weights are shares of `all` samples. Of the last one
  /// backward(execution, prepare) runs the passes. Someone calls prepare(first, floats) with each part of the gradients
  /// when that is there, which makes it a sum, before the next run. `execution` is null where the shard has no samples;
  /// then it leaves zeros. take(execution, shard) is called behind each shard that has samples.
  template <class Backward, class Take>
  void run(int batch, float all, Backward backward, Take take) {
    for (int number = 0; number < shards_.count; ++number) {
      const Shard shard = shards_.of(batch, number);
      const bool is_last = number + 1 == shards_.count;
      const bool has_samples = shard.samples > 0;
      One* const execution = has_samples || Program::is_on_part ? execution_.get() : nullptr;
      const float weight = static_cast<float>(shard.samples) / all;
      execution_->set_seed(seed_of_shard(seed_, shard.number));
      // Running statistics are those that the first of the shards sees where all of them are to be the same for any
      // number of workers; what the others see goes nowhere.
      if (spare_.size() > 0) execution_->bind(Arena::buffers, number == 0 ? memory(Arena::buffers) : spare_.data());
      if (execution != nullptr) {
        give_from(shard.first_sample);
        execution->begin(shard.samples, static_cast<long>(all));
      }
      if (updates && Program::is_on_part && !has_samples)
        std::fill_n(memory(Arena::gradients), Program::slots.parameter_floats, 0.0f);
      if constexpr (is_cut) term_ = {number, is_last, weight};
      const auto add = [this](long first, long floats) { add_gradients(first, floats); };
      if (is_last)
        backward(execution, add);
      else
        run_passes(execution, add);
      numbers_.fill(0);
      if (has_samples) {
        execution->run_steps(Program::lowered.after_update, after_pass);
        numbers_ = numbers_of(*execution);
        take(*execution, shard);
      }
      if constexpr (is_cut)
        results_.add(number, is_last, weight, numbers_.data(), 0, static_cast<long>(numbers_.size()));
    }
  }

  /// Forward and backward pass of a shard, for who has nothing to do in between.
  template <class Add>
  void run_passes(One* execution, Add add) {
    if (execution != nullptr)
      execution->run_steps(Program::lowered.prepared_steps, Program::lowered.first_update);
    else if (updates && is_cut)
      std::fill_n(memory(Arena::gradients), Program::slots.parameter_floats, 0.0f);
    if constexpr (updates) add(0, Program::slots.parameter_floats);
  }
  /// All of `run` for who has nothing to do in between, and the optimizer's update behind it.
  void run_alone(int batch) {
    run(
        batch, static_cast<float>(batch), [this](One* execution, auto add) { this->run_passes(execution, add); },
        [](const One&, const Shard&) {});
    update();
  }
  /// The optimizer's update of all parameters.
  void update() {
    execution_->run_steps(Program::lowered.first_update, Program::lowered.after_update);
    execution_->run_steps(after_pass, Program::lowered.used.steps);
  }

  /// Of a shard with samples: the results that are one number.
  static std::array<float, 4> numbers_of(const One& execution) {
    std::array<float, 4> numbers{};
    for (int r = 0; r < Program::result_count; ++r)
      if (!Program::result_types[static_cast<std::size_t>(r)]->batched)
        numbers[static_cast<std::size_t>(r)] = *execution.result(r);
    return numbers;
  }
  /// Of the last run: the results that are one number.
  std::array<float, 4>& numbers() { return numbers_; }
  const float* result(int index) const { return &numbers_[static_cast<std::size_t>(index)]; }

  long memory_floats() const { return execution_->memory_floats(); }

  /// Makes a part of the gradients of the shard at hand a term of their sum: what `run` gives as `prepare`.
  void add_gradients([[maybe_unused]] long first, [[maybe_unused]] long floats) {
    if constexpr (is_cut && updates)
      gradients_.add(term_.number, term_.is_last, term_.weight, memory(Arena::gradients), first, first + floats);
  }

 private:
  static constexpr bool has_spare(int shards) { return Program::writes_buffers && Cut::in_all > 0 && shards > 1; }

  void give_from(int first_sample) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorInfo* const type = Program::input_types[i];
      if (type == nullptr || inputs_[i] == nullptr) continue;
      const long skipped = type->batched ? type->size() * first_sample : 0;
      execution_->give(static_cast<int>(i), static_cast<const float*>(inputs_[i]) + skipped);
    }
  }

  struct NoSum {};
  struct Term {
    int number = 0;
    bool is_last = false;
    float weight = 0;
  };
  using Sum = std::conditional_t<is_cut, detail::SumOfTerms<(Cut::in_all > 0)>, NoSum>;

  std::unique_ptr<One> execution_;
  WorkerShards shards_;
  Sum gradients_, results_;
  Term term_;  // what the shard at hand adds to them
  Buffer spare_;
  std::array<const void*, 4> inputs_{};
  std::array<float*, 8> bound_{};
  std::array<float, 4> numbers_{};
  std::uint64_t seed_ = 0;
};

}  // namespace tenet
