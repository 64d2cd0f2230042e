#pragma once

#include <memory>
#include <tenet/exec/sequence.hpp>
#include <tenet/parallel/resident_ranks.hpp>

/// Parameter servers that nobody waits for, of ranks whose devices have memories of their own: the servers are in the
/// hosts' memory.
namespace tenet {

// parallel/served_parameters.hpp, a part of parallel/parameter_server.hpp: for those who name that policy.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class ServedParameters;

/// What such a device does beside its steps: each bucket of gradients is copied to the host as soon as it is there,
/// while backward goes on, from where it is sent to the servers; and its parameters are asked for. The update is the
/// servers'.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class GradientsForServers {
 public:
  using Executor = typename Program::Kernels::Executor;
  using Served = ServedParameters<Program, Synchronisation, bucket_bytes, T>;
  static constexpr bool updates_parts = true;  // none at all

  static constexpr auto all = [] {
    std::array<Exchange, static_cast<std::size_t>(Served::plan.count)> exchanges{};
    for (std::size_t b = 0; b < exchanges.size(); ++b) {
      const Bucket& bucket = Served::plan.buckets[b];
      exchanges[b] = {"gradients for the servers", Arena::gradients, bucket.first, bucket.floats, bucket.ready};
    }
    return exchanges;
  }();

  /// To be called before it runs.
  void connect(Executor& executor, T transport) {
    parameters_.grow(Program::slots.parameter_floats);
    gradients_.grow(Program::slots.parameter_floats);
    served_ = std::make_unique<Served>(executor, std::move(transport));
    served_->use(parameters_.data(), gradients_.data());
    for (int b = 0; b < Served::plan.count; ++b) sends_[static_cast<std::size_t>(b)] = {this, b};
  }
  Served& served() { return *served_; }
  /// The host's copy of all parameters: where they come to.
  float* parameters() { return parameters_.data(); }
  /// In the next run the rank's gradients are means over so many samples.
  void set_samples(int samples) { samples_ = static_cast<float>(samples); }

  void begin(float) {}
  void give(Executor& lane, int b, float* memory) {
    const Bucket& bucket = Served::plan.buckets[static_cast<std::size_t>(b)];
    lane.copy_out(gradients_.data() + bucket.first, memory + bucket.first, 4 * bucket.floats);
    lane.call_on_host(&Send::run, &sends_[static_cast<std::size_t>(b)]);
  }
  template <class Execution>
  void update(Executor&, const Execution&, int, float*, float*) {}
  void gather(Executor&, float*) {}  // a rank has all of its own gradients
  void await(Executor& executor) {
    executor.synchronize();
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void abandon() noexcept {}

 private:
  /// What the host does when a bucket's gradients are in its memory, on a thread of the device's.
  struct Send {
    GradientsForServers* self;
    int bucket;

    static void run(void* of) {
      const auto [self, bucket] = *static_cast<const Send*>(of);
      try {
        self->served_->push(bucket, self->samples_);
        self->served_->pull(bucket);
      } catch (...) {
        self->failure_ = std::current_exception();
      }
    }
  };

  PinnedBuffer<Executor> parameters_, gradients_;
  std::array<Send, static_cast<std::size_t>(Served::plan.count)> sends_{};
  float samples_ = 0;
  std::exception_ptr failure_;
  std::unique_ptr<Served> served_;  // last: its thread uses the buffers
};

/// What `ParameterServerExecution` is on the host where nobody waits for all. Losses are those of the rank's own
/// samples, and running statistics are its own.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentServedStep
    : public ResidentRank<Program, GradientsForServers<Program, Synchronisation, bucket_bytes, T>, Cut> {
  using Base = ResidentRank<Program, GradientsForServers<Program, Synchronisation, bucket_bytes, T>, Cut>;

 public:
  template <class Devices>
  ResidentServedStep(Devices& devices, T transport)
      : Base(devices), shards_of_rank_(detail::shards_of_rank<Cut>(transport.rank(), transport.size())) {
    exchanges().connect(devices.executor(), std::move(transport));
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    served().set_scalars(scalars);
    Base::set_scalars(scalars, seed);
  }
  /// The new parameters are still to come when it returns.
  void run(int batch) {
    complete();
    begin_once();
    served().begin_step();
    exchanges().set_samples(batch);
    this->shards_.run(shards_of_rank_, batch, batch);
    this->numbers_ = this->shards_.numbers();
    have_changed_ = true;
    served().end_step();
  }
  /// Waits for all parameters that are under way, and has them copied to the device.
  void complete() {
    if (!std::exchange(have_changed_, false)) return;
    served().complete();
    copy_in();
  }
  /// Waits until all ranks have come here; from then on all have the same parameters.
  void synchronize() {
    complete();
    begin_once();
    this->executor_->synchronize();  // what has come lies where more is to come to
    served().synchronize();
    copy_in();
  }

 private:
  auto& exchanges() { return this->shards_.exchanges(); }
  auto& served() { return exchanges().served(); }

  void begin_once() {
    if (served().has_begun()) return;
    this->executor_->copy_out(exchanges().parameters(), this->arenas_->memory(Arena::parameters), bytes);
    this->executor_->synchronize();
    served().begin();
    served().complete();
    copy_in();
  }
  void copy_in() {
    this->executor_->copy_in(this->arenas_->memory(Arena::parameters), exchanges().parameters(), bytes);
  }

  static constexpr long bytes = 4 * Base::parameter_floats;
  WorkerShards shards_of_rank_;
  bool have_changed_ = false;  ///< whether parameters have been asked for that the device has not
};

}  // namespace tenet
