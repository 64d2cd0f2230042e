#pragma once

#include <tenet/exec/sparse_tables.hpp>

namespace tenet {

/// Whether a program is a training step.
template <class Program>
constexpr bool updates_parameters() {
  for (const Output& output : Program::graph.outputs)
    if (output.destination == Destination::parameters) return true;
  return false;
}

/// A training step on one device of a network with sparse tables. The same interface as `Execution`.
template <class Program>
class SparseExecution : public Execution<Program, OneSampleNever> {
 public:
  using Base = Execution<Program, OneSampleNever>;
  using Executor = typename Program::Kernels::Executor;

  explicit SparseExecution(Executor& executor) : Base(executor), executor_(&executor) {
    static_assert(updates_by_elements<Program>(),
                  "Embedding<..., Sparse>: the optimizer's update is not element-wise over all parameters");
  }

  void bind(Arena arena, float* memory) {
    Base::bind(arena, memory);
    if (arena == Arena::parameters) parameters_ = memory;
    if (arena == Arena::gradients) gradients_ = memory;
    if (arena == Arena::states) states_ = memory;
  }

  void run(int batch) {
    this->begin(batch);
    tables_.find(*this, batch);
    this->run_steps(Program::lowered.prepared_steps, Program::lowered.first_update);
    this->prepare_update();
    {
      const auto span = open_span(*executor_, update_span<Program>);
      for_each_task(*executor_, static_cast<int>((dense + block - 1) / block),
                    [&](int i) { this->update(i * block, std::min(dense, (i + 1) * block)); });
      tables_.template update<PlainAccess>(*this, *executor_, parameters_, states_);
    }
    this->run_steps(Program::lowered.after_update, Program::lowered.used.steps);
  }

  /// The gradients of sparse tables to where the others are.
  void collect_gradients() { tables_.show_gradients(gradients_); }

 private:
  static constexpr long dense = Program::slots.dense_floats, block = 16384;

  Executor* executor_;
  SparseTables<Program> tables_;
  float *parameters_ = nullptr, *gradients_ = nullptr, *states_ = nullptr;
};

}  // namespace tenet
