#pragma once

#include <tenet/comm/thread_transport.hpp>
#include <tenet/exec/resident_execution.hpp>
#include <tenet/parallel/exchanged_gradients.hpp>
#include <tenet/parallel/replicas.hpp>
#include <tenet/parallel/shards.hpp>

/// `DataParallel` on devices with memories of their own, as several GPUs: each has all parameters and takes its part of
/// every batch; gradients are added up between the devices, and each updates its own parameters, which stay the same on
/// all of them to the bit.
namespace tenet {

/// The devices: those of one process from the policy's number on, with the memory that a trainer's programs share.
template <class Device, class Kernels>
class ResidentReplicas : public Replicas<Device, Kernels> {
 public:
  using Executor = typename Kernels::Executor;

  explicit ResidentReplicas(int count) : Replicas<Device, Kernels>(count) {
    for (int r = 0; r < count; ++r) arenas_.push_back(std::make_unique<ResidentArenas<Executor>>(this->executor(r)));
  }
  ResidentArenas<Executor>& arenas(int replica) { return *arenas_[static_cast<std::size_t>(replica)]; }
  void has_changed(std::uint64_t version) {
    for (auto& arenas : arenas_) arenas->has_changed(version);
  }
  /// They are the same on all devices.
  void bring_back() { arenas_[0]->bring_back(); }

 private:
  std::vector<std::unique_ptr<ResidentArenas<Executor>>> arenas_;
};

/// The same interface as `ResidentExecution`.
template <class Program, class Device, long bucket_bytes>
class ReplicatedResidentExecution {
  using Executor = typename Program::Kernels::Executor;
  static constexpr bool updates = Program::lowered.after_update > Program::lowered.first_update;
  using Exchanges =
      std::conditional_t<updates, ExchangedGradients<Program, bucket_bytes, ThreadTransport>, NoExchanges>;
  using One = ResidentExecution<Program, Exchanges>;

 public:
  using Group = ResidentReplicas<Device, typename Program::Kernels>;

  explicit ReplicatedResidentExecution(Group& replicas)
      : replicas_(&replicas), network_(replicas.size()), parts_(static_cast<std::size_t>(replicas.size())) {
    run_each([&](int r) {
      parts_[index(r)] = std::make_unique<Part>(replicas.executor(r), replicas.arenas(r));
      if constexpr (updates) parts_[index(r)]->exchanges.connect(replicas.executor(r), ThreadTransport(network_, r));
    });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    for (int r = 0; r < size(); ++r) one(r).set_scalars(scalars, seed_of_shard(seed, r));
  }
  void bind(Arena arena, float* host) {
    for (int r = 0; r < size(); ++r) one(r).bind(arena, host);
  }
  void give(int i, const void* input) { give(i, input, false); }
  /// Of an input that lies in the memory of one of the devices.
  void give_there(int i, const void* input) { give(i, input, true); }
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    for (int r = 0; r < size(); ++r) {
      const Shard part = shard_of(static_cast<int>(samples.size()), r, size());
      if (part.samples > 0)
        one(r).give_made(dataset, epoch, samples.subspan(index(part.first_sample), index(part.samples)));
    }
    are_made_there_ = true;
  }
  void use_weights(std::uint64_t version) {
    for (int r = 0; r < size(); ++r) one(r).use_weights(version);
  }
  /// They are those of the whole batch, on each device.
  void collect_gradients() { one(0).collect_gradients(); }

  /// Returns when all devices have been told what to do.
  void run(int batch) {
    batch_ = batch;
    is_gathered_ = false;
    run_each([&](int r) {
      const Shard part = part_of(r);
      if (!updates && part.samples == 0) return;
      if (!are_made_there_) give_part(r, part);
      if constexpr (updates) parts_[index(r)]->exchanges.begin(part.samples, batch);
      one(r).run(part.samples, batch);
    });
  }
  /// Results of a sample one after the other; those of a batch are means over its samples.
  const float* result(int i) const {
    if (!std::exchange(is_gathered_, true)) {
      try {
        for (int k = 0; k < Program::result_count; ++k) gather(k);
      } catch (...) {
        abandon();
        throw;
      }
    }
    return results_[index(i)].data();
  }

  long memory_floats() const {
    long sum = 0;
    for (int r = 0; r < size(); ++r) sum += one(r).memory_floats();
    return sum;
  }

 private:
  struct Part {
    Part(Executor& executor, ResidentArenas<Executor>& arenas) : execution(executor, arenas, &exchanges) {}
    Exchanges exchanges;
    One execution;
  };
  template <class Number>
  static std::size_t index(Number i) {
    return static_cast<std::size_t>(i);
  }
  int size() const { return replicas_->size(); }
  One& one(int r) const { return parts_[index(r)]->execution; }
  Shard part_of(int r) const { return shard_of(batch_, r, size()); }

  void give(int i, const void* input, bool is_there) {
    inputs_[index(i)] = input;
    is_there_[index(i)] = is_there;
    are_made_there_ = false;
  }
  void give_part(int r, const Shard& part) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorInfo* const type = Program::input_types[i];
      if (type == nullptr || inputs_[i] == nullptr) continue;
      const long skipped = type->batched ? type->size() * part.first_sample : 0;  // elements of any type: 4 bytes
      const float* const from = static_cast<const float*>(inputs_[i]) + skipped;
      is_there_[i] ? one(r).give_there(static_cast<int>(i), from) : one(r).give(static_cast<int>(i), from);
    }
  }

  float weight_of(int r) const {
    if constexpr (updates)
      return parts_[index(r)]->exchanges.weight();
    else
      return static_cast<float>(part_of(r).samples) / static_cast<float>(batch_);
  }
  void gather(int k) const {
    const TensorInfo& type = *Program::result_types[index(k)];
    Buffer& to = results_[index(k)];
    to.grow(type.size() * (type.batched ? batch_ : 1));
    if (!type.batched) std::fill_n(to.data(), type.size(), 0.0f);
    for (int r = 0; r < size(); ++r) {
      const Shard part = part_of(r);
      // Waited for where it has no samples, too: its part of the step is over then.
      const float* const from = updates || part.samples > 0 ? one(r).result(k) : nullptr;
      if (part.samples == 0) continue;
      if (type.batched)
        std::copy_n(from, type.size() * part.samples, to.data() + type.size() * part.first_sample);
      else
        for (long j = 0; j < type.size(); ++j) to.data()[j] += from[j] * weight_of(r);
    }
  }

  /// Calls task(replica) on all of them. Where one fails, the others do not wait for it, now or later.
  template <class Task>
  void run_each(const Task& task) {
    try {
      replicas_->run([&](int r) {
        try {
          task(r);
        } catch (...) {
          network_.abandon();
          throw;
        }
      });
    } catch (...) {
      abandon();
      throw;
    }
  }
  void abandon() const noexcept {
    if constexpr (updates)
      for (const auto& part : parts_)
        if (part != nullptr) part->exchanges.abandon();
  }

  Group* replicas_;
  ThreadNetwork network_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::array<const void*, 4> inputs_{};
  std::array<bool, 4> is_there_{};
  bool are_made_there_ = false;
  int batch_ = 0;
  mutable bool is_gathered_ = true;
  mutable std::array<Buffer, 4> results_;
};

}  // namespace tenet
