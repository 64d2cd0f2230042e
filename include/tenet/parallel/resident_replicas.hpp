#pragma once

#include <tenet/comm/thread_transport.hpp>
#include <tenet/parallel/exchanged_gradients.hpp>
#include <tenet/parallel/replicas.hpp>
#include <tenet/parallel/resident_shards.hpp>

/// `DataParallel` on devices with memories of their own, as several GPUs: each has all parameters and takes its part of
/// every batch; gradients are added up between the devices, and each updates its own parameters, which stay the same on
/// all of them to the bit. The same where each of several ranks has such devices.
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

/// What a program's execution on such devices consists of: a `Part` for each, which runs the device's shards of a
/// batch.
template <class Part, class Device, class Kernels>
class PartsOfReplicas {
 public:
  using Group = ResidentReplicas<Device, Kernels>;

  void set_scalars(const float* scalars, std::uint64_t seed) {
    for (const auto& part : parts_) part->set_scalars(scalars, seed);
  }
  void bind(Arena arena, float* host) {
    for (const auto& part : parts_) part->bind(arena, host);
  }
  void give(int i, const void* input) {
    for (const auto& part : parts_) part->give(i, input, false);
  }
  /// Of an input that lies in the memory of one of the devices.
  void give_there(int i, const void* input) {
    for (const auto& part : parts_) part->give(i, input, true);
  }
  template <class Dataset>
  void give_made(const Dataset& dataset, long epoch, std::span<const long> samples) {
    for (const auto& part : parts_) part->give_made(dataset, epoch, samples);
  }
  void use_weights(std::uint64_t version) {
    for (const auto& part : parts_) part->use_weights(version);
  }
  long memory_floats() const {
    long sum = 0;
    for (const auto& part : parts_) sum += part->memory_floats();
    return sum;
  }

 protected:
  explicit PartsOfReplicas(Group& replicas)
      : replicas_(&replicas),
        network_(replicas.size(), replicas.limit()),
        parts_(static_cast<std::size_t>(replicas.size())) {}

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Group& replicas() { return *replicas_; }
  /// What connects a device with the others of the process.
  ThreadTransport transport_inside(int replica) { return {network_, replica}; }

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
    for (const auto& part : parts_)
      if (part != nullptr) part->abandon();
  }

 private:
  Group* replicas_;
  mutable ThreadNetwork network_;

 protected:
  std::vector<std::unique_ptr<Part>> parts_;
};

namespace detail {

template <class Program>
inline constexpr bool is_training_step = Program::lowered.after_update > Program::lowered.first_update;
template <class Program, int count, class Synchronisation, long bucket_bytes, class OtherRanks>
using ExchangesOfReplica =
    std::conditional_t<is_training_step<Program> &&
                           (count > 1 || OtherRanks::several || UpdatesParts<Synchronisation> || Program::is_on_part),
                       ExchangedGradients<Program, Synchronisation, bucket_bytes, typename OtherRanks::Group>,
                       NoExchanges>;
template <class Program, int count, class Synchronisation, long bucket_bytes, class Cut, class OtherRanks>
using PartOfReplica =
    ResidentShards<Program, ExchangesOfReplica<Program, count, Synchronisation, bucket_bytes, OtherRanks>,
                   std::conditional_t<is_training_step<Program>, Cut, WholeBatch>>;

}  // namespace detail

/// The same interface as `ResidentExecution`. Between ranks `run` waits for the step, as `ResidentRankStep` does: each
/// has its own samples, at least one, and all make one and run it together.
template <class Program, class Device, int count, class Synchronisation, long bucket_bytes, class Cut, class OtherRanks>
class ReplicatedResidentExecution
    : public PartsOfReplicas<detail::PartOfReplica<Program, count, Synchronisation, bucket_bytes, Cut, OtherRanks>,
                             Device, typename Program::Kernels> {
  using Part = detail::PartOfReplica<Program, count, Synchronisation, bucket_bytes, Cut, OtherRanks>;
  using Base = PartsOfReplicas<Part, Device, typename Program::Kernels>;
  static constexpr bool updates = detail::is_training_step<Program>;
  static constexpr bool updates_parts = updates && detail::UpdatesParts<Synchronisation>;
  static constexpr int shards_of_replica = updates ? Cut::of_worker : 1;

 public:
  using Group = typename Base::Group;

  /// `transport`: nothing, or what connects the ranks.
  template <class... T>
  explicit ReplicatedResidentExecution(Group& replicas, T... transport)
      : Base(replicas), ranks_(std::move(transport)...) {
    run_each([&](int r) {
      parts_[index(r)] = std::make_unique<Part>(replicas.executor(r), replicas.arenas(r));
      if constexpr (Part::has_exchanges)
        parts_[index(r)]->exchanges().connect(replicas.executor(r), ranks_.group(this->transport_inside(r)));
    });
  }
  ~ReplicatedResidentExecution() { parts_.clear(); }  // before what connects the ranks

  /// They are those of the whole batch, on each device.
  void collect_gradients() {
    if constexpr (updates_parts) run_each([&](int r) { parts_[index(r)]->gather_gradients(); });
    parts_[0]->collect_gradients();
  }

  /// Of one process alone it returns when all devices have been told what to do.
  void run(int batch) {
    if constexpr (OtherRanks::several) {
      try {
        run_of_all(batch, begin_with_others(batch));
        end_with_others();
      } catch (...) {
        abandon();
        throw;
      }
    } else {
      run_of_all(batch, batch);
    }
  }
  /// Results of a sample one after the other; those of a batch are means over its samples.
  const float* result(int i) const {
    gather_once();
    return results_[index(i)].data();
  }

 protected:
  using Base::run_each, Base::abandon;

 private:
  using Base::index, Base::parts_;

  /// This process's samples, of `of_all`.
  void run_of_all(int batch, long of_all) {
    batch_ = batch;
    is_gathered_ = false;
    const int first = ranks_.rank() * count * shards_of_replica;
    run_each([&](int r) { parts_[index(r)]->run({shards_of_replica, r, count, first}, batch, of_all); });
  }
  /// All devices begin with what the first one of rank 0 has. Returns how many samples the ranks have.
  long begin_with_others(int batch) {
    if (++step_ == 1)
      run_each([&](int r) {
        parts_[index(r)]->exchanges().share(this->replicas().executor(r),
                                            this->replicas().arenas(r).memory(Arena::parameters),
                                            Program::slots.parameter_floats);
      });
    float samples = static_cast<float>(batch);
    ranks_.add_up(&samples, 1, {"number of samples", -1, step_});
    return static_cast<long>(samples);
  }
  /// Results become means over the samples of all ranks.
  void end_with_others() {
    gather_once();
    std::array<float, 4> numbers{};
    for (int k = 0; k < Program::result_count; ++k) numbers[index(k)] = *results_[index(k)].data();
    ranks_.add_up(numbers.data(), Program::result_count, {"results", -1, step_});
    for (int k = 0; k < Program::result_count; ++k) *results_[index(k)].data() = numbers[index(k)];
  }

  void gather_once() const {
    if (std::exchange(is_gathered_, true)) return;
    try {
      gather();
    } catch (...) {
      abandon();
      throw;
    }
  }
  void gather() const {
    for (int k = 0; k < Program::result_count; ++k) {
      const TensorInfo& type = *Program::result_types[index(k)];
      results_[index(k)].grow(type.size(batch_));
      if (!type.batched) *results_[index(k)].data() = 0;
    }
    for (const auto& part : parts_) {
      const std::array<float, 4>& numbers = part->numbers();
      for (int k = 0; k < Program::result_count; ++k) {
        const TensorInfo& type = *Program::result_types[index(k)];
        float* const to = results_[index(k)].data();
        if (!type.batched)
          *to += numbers[index(k)];
        else if (part->shard().samples > 0)
          std::copy_n(part->result(k), type.size() * part->shard().samples,
                      to + type.size() * part->shard().first_sample);
      }
    }
  }

  OtherRanks ranks_;
  int batch_ = 0;
  long step_ = 0;  ///< of several ranks
  mutable bool is_gathered_ = true;
  mutable std::array<Buffer, 4> results_;
};

namespace detail {

/// As a list, which is there before and behind all that uses it.
struct OwnRank {
  std::vector<int> own_rank;
};

/// A rank with several devices that trains by itself between two meetings of all ranks: a `Worker` of
/// `ResidentLocalSgdStep`. `by_machine`: all ranks of its machine train with it. Gradients are added up as `Inner`
/// says.
template <class Program, class Device, int count, class Inner, bool by_machine, long bucket_bytes, class Cut,
          Transport T>
class ResidentReplicasByThemselves : OwnRank,
                                     public OwnTransport<T>,
                                     public ReplicatedResidentExecution<Program, Device, count, Inner, bucket_bytes,
                                                                        Cut, RanksOfDevices<Subgroup<T>>> {
  using Replicas =
      ReplicatedResidentExecution<Program, Device, count, Inner, bucket_bytes, Cut, RanksOfDevices<Subgroup<T>>>;

 public:
  using Group = DeviceOfRank<T>;

  ResidentReplicasByThemselves(typename Replicas::Group& replicas, T all)
      : OwnRank{{all.rank()}},
        OwnTransport<T>(std::move(all)),
        Replicas(replicas, those_of_worker(), transport().rank()) {}

  using OwnTransport<T>::transport;
  void run_alone(int batch) { Replicas::run(batch); }
  bool is_only() { return those_of_worker().size() == transport().size(); }

  static constexpr int devices() { return count; }
  template <class Task>
  void on_devices(const Task& task) {
    this->run_each([&](int r) { task(r, this->replicas().executor(r), this->replicas().arenas(r)); });
  }
  Group group(int device) { return {this->transport_inside(device), transport()}; }

 private:
  /// The ranks that train together.
  Subgroup<T> those_of_worker() {
    if constexpr (by_machine)
      return Subgroup<T>::of_machine(transport());
    else
      return {transport(), this->own_rank, 0, transport().link()};
  }
};

}  // namespace detail

}  // namespace tenet
