#pragma once

#include <memory>
#include <tenet/exec/sequence.hpp>
#include <tenet/parallel/device_communicator.hpp>
#include <tenet/parallel/resident_ranks.hpp>

/// Parameter servers in the hosts' memory, of ranks whose devices have memories of their own: those that nobody waits
/// for, and `OnCpu`.
namespace tenet {

// parallel/served_parameters.hpp, a part of parallel/parameter_server.hpp: for those who name that policy.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class ServedParameters;

/// What such a device does beside its steps: each bucket of gradients is copied to the host as soon as it is there,
/// while backward goes on, from where it is sent to the servers; and its parameters are asked for. The update is the
/// servers'. In rounds its running statistics come to the host, too, for all ranks to have those of rank 0.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class GradientsForServers {
 public:
  using Executor = typename Program::Kernels::Executor;
  using Served = ServedParameters<Program, Synchronisation, bucket_bytes, T>;
  static constexpr bool updates_parts = true;  // none at all
  static constexpr bool shares_statistics = Synchronisation::in_rounds && Program::writes_buffers;

  static constexpr auto all = [] {
    std::array<Exchange, static_cast<std::size_t>(Served::plan.count + shares_statistics)> exchanges{};
    for (std::size_t b = 0; b < static_cast<std::size_t>(Served::plan.count); ++b) {
      const Bucket& bucket = Served::plan.buckets[b];
      exchanges[b] = {"gradients for the servers", Arena::gradients, bucket.first, bucket.floats, bucket.ready};
    }
    if constexpr (shares_statistics)
      exchanges.back() = {"running statistics", Arena::buffers, 0, Program::slots.buffer_floats,
                          Program::lowered.used.steps};
    return exchanges;
  }();

  /// To be called before it runs. `among`: for the sums over all ranks that a program on a part of the batch has in its
  /// passes, by the devices themselves.
  void connect(Executor& executor, T transport, [[maybe_unused]] std::unique_ptr<T> among = nullptr) {
    if constexpr (Program::is_on_part) {
      among_ = std::move(among);
      communicator_ = std::make_unique<DeviceCommunicator<Executor, T>>(executor, *among_);
    }
    parameters_.grow(Program::slots.parameter_floats);
    gradients_.grow(Program::slots.parameter_floats);
    if constexpr (shares_statistics) statistics_.grow(Program::slots.buffer_floats);
    served_ = std::make_unique<Served>(executor, std::move(transport));
    served_->use(parameters_.data(), gradients_.data());
    for (int b = 0; b < Served::plan.count; ++b) sends_[static_cast<std::size_t>(b)] = {this, b};
  }
  Served& served() { return *served_; }
  /// The host's copies: of all parameters, where these come to; of the last run's gradients; of running statistics.
  float* parameters() { return parameters_.data(); }
  const float* gradients() const { return gradients_.data(); }
  std::span<float> statistics() {
    return {statistics_.data(), shares_statistics ? static_cast<std::size_t>(Program::slots.buffer_floats) : 0};
  }
  /// In the next run the rank's gradients count so much: they are means over so many samples.
  void set_weight(float weight) { weight_ = weight; }

  void begin(float) {}
  void give(Executor& lane, int number, float* memory) {
    if (number == Served::plan.count)
      return lane.copy_out(statistics_.data(), memory, 4 * Program::slots.buffer_floats);
    const Bucket& bucket = Served::plan.buckets[static_cast<std::size_t>(number)];
    lane.copy_out(gradients_.data() + bucket.first, memory + bucket.first, 4 * bucket.floats);
    lane.call_on_host(&Send::run, &sends_[static_cast<std::size_t>(number)]);
  }
  template <class Execution>
  void update(Executor&, const Execution&, int, float*, float*) {}
  void gather(Executor&, float*) {}  // a rank has all of its own gradients
  void add_up(Executor& lane, const float* from, float* to, long floats) {
    communicator_->add_up(lane, from, to, floats, {"sum over the batch", -1, -1});
  }
  void await(Executor& executor) {
    if constexpr (Program::is_on_part)
      communicator_->await(executor);
    else
      executor.synchronize();
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }
  void abandon() noexcept {
    if constexpr (Program::is_on_part) {
      among_->abandon();
      communicator_->abandon();
    }
  }

 private:
  /// What the host does when a bucket's gradients are in its memory, on a thread of the device's.
  struct Send {
    GradientsForServers* self;
    int bucket;

    static void run(void* of) {
      const auto [self, bucket] = *static_cast<const Send*>(of);
      try {
        self->served_->push(bucket, self->weight_);
        self->served_->pull(bucket);
      } catch (...) {
        self->failure_ = std::current_exception();
      }
    }
  };

  std::unique_ptr<T> among_;
  std::unique_ptr<std::conditional_t<Program::is_on_part, DeviceCommunicator<Executor, T>, int>> communicator_;
  PinnedBuffer<Executor> parameters_, gradients_, statistics_;
  std::array<Send, static_cast<std::size_t>(Served::plan.count)> sends_{};
  float weight_ = 0;
  std::exception_ptr failure_;
  std::unique_ptr<Served> served_;  // last: its thread uses the buffers
};

/// What `ParameterServerExecution` is on the host: in rounds results are means over the samples of all ranks, and
/// running statistics are those of rank 0; else both are the rank's own.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, class Cut>
class ResidentServedStep
    : public ResidentRank<Program, GradientsForServers<Program, Synchronisation, bucket_bytes, T>, Cut> {
  using Base = ResidentRank<Program, GradientsForServers<Program, Synchronisation, bucket_bytes, T>, Cut>;

 public:
  using Executor = typename Base::Executor;

  template <class Devices>
  ResidentServedStep(Devices& devices, T transport)
      : ResidentServedStep(devices.executor(), devices.arenas(), std::move(transport)) {}
  ResidentServedStep(Executor& executor, ResidentArenas<Executor>& arenas, T transport,
                     std::unique_ptr<T> among = nullptr)
      : Base(executor, arenas), shards_of_rank_(detail::shards_of_rank<Cut>(transport.rank(), transport.size())) {
    exchanges().connect(executor, std::move(transport), std::move(among));
  }

  void set_scalars(const float* scalars, std::uint64_t seed) {
    served().set_scalars(scalars);
    Base::set_scalars(scalars, seed);
  }
  /// As those of `ParameterServerExecution` do.
  void use_weights(std::uint64_t version) {
    if (Synchronisation::in_rounds && version != version_ + 1) served().restart();
    version_ = version;
    Base::use_weights(version);
  }
  /// The new parameters are still to come when it returns.
  void run(int batch) { run(shards_of_rank_, batch, batch); }
  /// The same for a worker with these shards of a batch that it shares with others; `samples` of it are its own.
  void run(const WorkerShards& shards, int batch, int samples) {
    const float weight = Program::is_on_part ? 1 : static_cast<float>(samples);
    complete();
    begin_once(true);
    served().begin_step();
    exchanges().set_weight(weight);
    this->shards_.run(shards, batch, Program::is_on_part ? batch : std::max(samples, 1));
    this->numbers_ = this->shards_.numbers();
    have_changed_ = true;
    if constexpr (Synchronisation::in_rounds) agree(weight);
    served().end_step();
  }
  /// Waits for all parameters that are under way, and has each bucket copied to the device when it has come: the copies
  /// go on while the next ones come. What a run needs first comes last, as backward finds its gradients last: so nobody
  /// could begin before all are there.
  void complete() {
    if (!std::exchange(have_changed_, false)) return;
    served().complete([this](int b) {
      const Bucket& bucket = Exchanges::Served::plan.buckets[static_cast<std::size_t>(b)];
      copy_in(bucket.first, bucket.floats);
    });
  }
  /// Waits until all ranks have come here; from then on all have the same parameters.
  void synchronize() {
    complete();
    begin_once(false);
    this->executor_->synchronize();  // what has come lies where more is to come to
    served().synchronize();
    copy_in(0, Base::parameter_floats);
  }
  /// Before the first step, or where other parameters are to be the servers': these are those of rank 0's device.
  void begin_once(bool in_step) {
    if (served().has_begun()) return;
    this->executor_->copy_out(exchanges().parameters(), this->arenas_->memory(Arena::parameters),
                              4 * Base::parameter_floats);
    this->executor_->synchronize();
    if constexpr (Synchronisation::in_rounds)
      served().begin(in_step, results(), exchanges().statistics());
    else
      served().begin(in_step);
    served().complete();
    copy_in(0, Base::parameter_floats);
  }
  /// The host's copy of this rank's gradients.
  const float* gradients_here() { return exchanges().gradients(); }

 private:
  using Exchanges = GradientsForServers<Program, Synchronisation, bucket_bytes, T>;
  Exchanges& exchanges() { return this->shards_.exchanges(); }
  auto& served() { return exchanges().served(); }
  std::span<float> results() { return {this->numbers_.data(), static_cast<std::size_t>(Program::result_count)}; }

  void agree(float weight) {
    const std::span<float> statistics = exchanges().statistics();
    served().agree(results(), statistics, weight, true);
    if (!statistics.empty())
      this->executor_->copy_in(this->arenas_->memory(Arena::buffers), statistics.data(), 4 * Base::buffer_floats);
  }
  void copy_in(long first, long floats) {
    this->executor_->copy_in(this->arenas_->memory(Arena::parameters) + first, exchanges().parameters() + first,
                             4 * floats);
  }

  WorkerShards shards_of_rank_;
  bool have_changed_ = false;  ///< whether parameters have been asked for that the device has not
  std::uint64_t version_ = 0;
};

}  // namespace tenet
