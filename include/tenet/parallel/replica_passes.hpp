#pragma once

#include <tenet/parallel/replica_sums.hpp>
#include <tenet/parallel/replica_team.hpp>
#include <tenet/parallel/sharded_pass.hpp>

namespace tenet {

/// The passes of a process's replicas over their parts of a batch, and the sums over replicas of what these give. The
/// first replica's gradients and running statistics are the caller's memory; the others have their own, and what they
/// write to the latter goes nowhere.
template <class Program, class Device, class Cut>
class ReplicaPasses {
 public:
  using Group = Replicas<Device, typename Program::Kernels>;
  using Pass = ShardedPass<Program, Cut>;
  using One = typename Pass::One;

  /// `shards` are those of each replica, from the process's first one on. `waits`: nobody reads a replica's gradients
  /// before the passes of all have ended, and then by `add_up_gradients`.
  ReplicaPasses(Group& replicas, WorkerShards shards, bool waits = false)
      : replicas_(&replicas),
        waits_(waits && Pass::updates && !Pass::is_cut),
        sums_(replicas),
        team_(replicas),
        parts_(static_cast<std::size_t>(replicas.size())) {
    replicas.run([&](int r) {  // its memory is touched first by the thread that works with it
      Part& part = parts_[index(r)];
      part.pass =
          std::make_unique<Pass>(replicas.executor(r), WorkerShards{shards.count, r, replicas.size(), shards.first});
      if (r == 0) return;
      const auto bind_own = [&](Arena arena, Buffer& memory, long floats) {
        memory.grow(floats);
        part.pass->bind(arena, memory.data());
      };
      if constexpr (Program::writes_buffers) bind_own(Arena::buffers, part.buffers, Program::slots.buffer_floats);
      if constexpr (Pass::updates) bind_own(Arena::gradients, part.gradients, Program::slots.parameter_floats);
    });
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    for (Part& part : parts_) part.pass->set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* memory) {
    const bool own =
        (arena == Arena::gradients && Pass::updates) || (arena == Arena::buffers && Program::writes_buffers);
    for (std::size_t r = 0; r < (own ? 1 : parts_.size()); ++r) parts_[r].pass->bind(arena, memory);
  }
  void give(int index, const void* input) {
    for (Part& part : parts_) part.pass->give(index, input);
  }
  void use_weights(std::uint64_t version) {
    for (Part& part : parts_) part.pass->use_weights(version);
  }

  Group& replicas() { return *replicas_; }
  int size() const { return replicas_->size(); }
  Pass& pass(int replica) { return *parts_[index(replica)].pass; }
  float* gradients(int replica) { return pass(replica).memory(Arena::gradients); }
  float* memory(Arena arena) { return pass(0).memory(arena); }

  /// Before `run`: how many samples the replicas share, and what weight each has in the sums over them.
  void begin(int batch) {
    batch_ = batch;
    ++step_;
    sums_.begin(step_);
    for (int r = 0; r < size(); ++r) {
      const auto samples = static_cast<float>(shard_of(batch, r, size()).samples);
      weights(step_)[index(r)] = Pass::gives_terms ? 1 : samples / static_cast<float>(std::max(batch, 1));
    }
    team_.begin(
        waits_ && batch % size() == 0, [this](int r) { return gradients(r); }, step_);
  }
  /// The number of this run, from 1: of training programs, the step.
  long step() const { return step_; }
  float weight(int replica) { return weights(step_)[index(replica)]; }

  /// Of a program that runs on a part of the batch: see `ReplicaSums`.
  auto& sums() { return sums_; }
  /// Whoever ends a replica's task by what it throws has the others stop waiting for it.
  void abandon() noexcept {
    sums_.abandon();
    team_.abandon();
  }

  /// The passes of one replica, by its thread; see `ShardedPass::run`.
  template <class Backward, class Take>
  void run(int replica, float all, Backward backward, Take take) {
    team_.run(replica, [&] { pass(replica).run(batch_, all, backward, take); });
  }

  /// to = the sum of all replicas' gradients, of `count` from number `first` on; those of the last run, or, by its
  /// number, of the one before it.
  void add_up_gradients(float* to, long first, long count) { add_up_gradients(step_, to, first, count); }
  void add_up_gradients(long step, float* to, long first, long count) {
    const auto add_up_part = [&](long at, long floats, bool is_sum) {
      std::array<const float*, Group::most> from;
      for (int r = 0; r < size(); ++r) from[index(r)] = gradients(r) + at;
      add_up(step, from.data(), is_sum ? 1 : size(), to + (at - first), floats);
    };
    if (waits_)
      team_.for_each_part({first, count}, add_up_part);
    else
      add_up_part(first, count, false);
  }
  /// The same for results that are one number: what `numbers` gives then.
  void add_up_numbers() {
    numbers() = sum_of_numbers([this](int r) { return pass(r).numbers(); });
  }
  /// Of the last run; numbers_of(r) gives those of a replica that has samples.
  template <class NumbersOf>
  std::array<float, 4> sum_of_numbers(NumbersOf numbers_of) {
    std::array<std::array<float, 4>, Group::most> all{};
    std::array<const float*, Group::most> from;
    std::array<float, 4> sum;
    for (int r = 0; r < size(); ++r) {
      if (Pass::is_cut || shard_of(batch_, r, size()).samples > 0) all[index(r)] = numbers_of(r);
      from[index(r)] = all[index(r)].data();
    }
    add_up(step_, from.data(), size(), sum.data(), static_cast<long>(sum.size()));
    return sum;
  }
  std::array<float, 4>& numbers() { return pass(0).numbers(); }
  const float* result(int index) const { return parts_[0].pass->result(index); }

  /// Whether each replica can update its part; else the first one updates all, with the gradients that it has.
  static constexpr bool shares_update = updates_by_elements<Program>();
  /// Updates a replica's parameters, shared among its workers, by blocks that stay in cache: with what
  /// gradients_of(first, count, room) gives, which may put the gradients of a block into `room`.
  template <class GradientsOf>
  void update(int replica, FloatRange parameters, GradientsOf gradients_of) {
    float* const states = Program::state_count > 0 ? memory(Arena::states) + parameters.first : nullptr;
    pass(replica).execution().update_by_blocks(
        memory(Arena::parameters) + parameters.first,
        [&](long first, long count, float* room) { return gradients_of(parameters.first + first, count, room); },
        states, parameters.count);
  }

  long memory_floats() const {
    long sum = team_.memory_floats();
    for (const Part& part : parts_) sum += part.pass->memory_floats();
    return sum;
  }

 private:
  struct Part {
    std::unique_ptr<Pass> pass;
    Buffer gradients, buffers;
  };
  struct NoSums {
    explicit NoSums(Group&) {}
    void begin(long) noexcept {}
    void abandon() noexcept {}
  };
  static constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

  /// The replicas' weights in a run; those of the one before it are kept.
  auto& weights(long step) { return weights_[static_cast<std::size_t>(step % 2)]; }

  void add_up(long step, const float* const* from, int count, float* to, long floats) {
    if constexpr (Cut::in_all > 0)
      detail::tree_sum(from, count, to, 0, floats);
    else
      detail::weighted_sum(from, weights(step).data(), count, to, 0, floats);
  }

  Group* replicas_;
  bool waits_;
  std::conditional_t<Program::is_on_part, ReplicaSums<Group>, NoSums> sums_;
  ReplicaTeam<Program, Group> team_;
  int batch_ = 0;
  long step_ = 0;
  std::vector<Part> parts_;
  std::array<std::array<float, Group::most>, 2> weights_{};
};

}  // namespace tenet
