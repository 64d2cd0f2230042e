#pragma once

#include <tenet/parallel/gradient_exchange.hpp>
#include <tenet/parallel/sharded_pass.hpp>

namespace tenet {

/// A training step of one rank among several that know of each other by a `Transport` only. Each has its own samples,
/// of any number, and its own parameters, which stay the same on all ranks to the bit: they begin with what rank 0 has,
/// and are updated by the same mean gradient. Results are means over the samples of all ranks; running statistics are
/// those of rank 0.
///
/// A rank may cut its samples into shards. Where that is to give the same bits for any number of ranks, what rank r has
/// is shards r · s to (r + 1) · s of all; so it is for one process if the ranks have equal parts of its batch, in
/// order.
///
/// The same interface as `Execution`. All ranks make one and run it together.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut = WholeBatch>
class DistributedExecution : public ShardedPass<Program, Cut> {
 public:
  using Pass = ShardedPass<Program, Cut>;
  using Exchange = GradientExchange<Program, Synchronisation, bucket_bytes, T>;

  DistributedExecution(typename Pass::Executor& executor, T transport)
      : Pass(executor, detail::shards_of_rank<Cut>(transport.rank(), transport.size())),
        exchange_(std::move(transport)) {
    static_assert(Pass::updates, "a training step");
    if constexpr (Program::is_on_part) executor.worker_sum = {&add_up_in_pass, &exchange_};
  }

  void run(int batch) {
    exchange_gradients(batch);
    this->update();
    exchange_.end(*this);
  }

 protected:
  /// Forward and backward pass, behind which the gradients are those of all ranks.
  void exchange_gradients(int batch) {
    const float all = exchange_.template begin<Cut>(*this, batch);
    Pass::run(
        batch, all,
        [this](auto* execution, auto prepare) { exchange_.run(execution, this->memory(Arena::gradients), prepare); },
        [](const auto&, const Shard&) {});
  }

  Exchange exchange_;

 private:
  static void add_up_in_pass(void* exchange, float* numbers, long floats) {
    static_cast<Exchange*>(exchange)->add_up_in_pass(numbers, floats);
  }
};

}  // namespace tenet
