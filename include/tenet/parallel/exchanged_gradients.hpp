#pragma once

#include <memory>
#include <tenet/exec/buckets.hpp>
#include <tenet/exec/sequence.hpp>
#include <tenet/parallel/device_levels.hpp>
#include <tenet/parallel/synchronisation.hpp>

namespace tenet {

namespace detail {

template <class Synchronisation, class Executor, DeviceGroup Group>
struct CommunicatorFor {
  using type = DeviceCommunicator<Executor, Group>;
};
template <HasLevels Synchronisation, class Executor, DeviceGroup Group>
struct CommunicatorFor<Synchronisation, Executor, Group> {
  using type = DeviceLevels<Executor, Group>;
};

}  // namespace detail

/// What the devices of a training step do together: each bucket of gradients is added up as soon as it is there, while
/// backward goes on; and running statistics are those of the first device, as in PyTorch's.
///
/// With `AllReduce` and `Ring` each device has all sums then, and updates all parameters. With `ShardedOptimizer`, and
/// with a bulk-synchronous `ParameterServer`, the sum of each bucket's part comes to the device that owns it, which has
/// the optimizer's state of it alone, and updates it; behind that its parameters go to all.
template <class Program, class Synchronisation, long bucket_bytes, DeviceGroup Group>
class ExchangedGradients {
 public:
  using Executor = typename Program::Kernels::Executor;
  static constexpr bool updates_parts = detail::UpdatesParts<Synchronisation>;

  static constexpr auto plan = plan_buckets(Program::lowered, Program::slots, bucket_bytes / 4);
  static constexpr auto all = [] {
    constexpr auto buckets = static_cast<std::size_t>(plan.count), count = updates_parts ? 2 * buckets : buckets;
    std::array<Exchange, count + Program::writes_buffers> exchanges{};
    for (std::size_t b = 0; b < buckets; ++b) {
      const Bucket& bucket = plan.buckets[b];
      exchanges[b] = {"gradients of all devices", Arena::gradients, bucket.first, bucket.floats, bucket.ready};
      if constexpr (updates_parts)
        exchanges[buckets + b] = {"parameters of all devices", Arena::parameters, bucket.first, bucket.floats,
                                  Program::lowered.after_update};
    }
    if constexpr (Program::writes_buffers)
      exchanges[count] = {"running statistics", Arena::buffers, 0, Program::slots.buffer_floats,
                          Program::lowered.used.steps};
    return exchanges;
  }();

  /// To be called by all devices, before they run.
  void connect(Executor& executor, Group group) {
    group_ = std::make_unique<Group>(std::move(group));
    communicator_ = std::make_unique<Communicator>(executor, *group_);
    if constexpr (updates_parts) {
      static_assert(
          updates_by_elements<Program>(),
          "ShardedOptimizer, ParameterServer: the optimizer's update is not element-wise over all parameters, "
          "so that nobody can do a part of it");
      if constexpr (requires { Synchronisation::Place::least_replicas; })
        if (const int least = Synchronisation::Place::least_replicas; group_->size() < least)
          fail("ParameterServer", "no such server", "a rank from 0 to " + std::to_string(group_->size() - 1),
               std::to_string(least - 1));
      for (int b = 0; b < plan.count; ++b) {
        state_at_[static_cast<std::size_t>(b)] = state_floats_;
        state_floats_ += rounded_up(own_part(b).count);
      }
      states_.grow(executor, Program::state_count * state_floats_, "the optimizer's states of a part");
    }
  }
  /// What the devices tell each other besides.
  Group& group() { return *group_; }
  /// In the next run the device's gradients count so much: its share of the samples. Of a program that runs on a part
  /// of the batch they are terms of the sum already.
  void begin(float weight) { communicator_->weigh(Program::is_on_part ? 1 : weight); }

  void give(Executor& lane, int number, float* memory) {
    const Exchange& exchange = all[static_cast<std::size_t>(number)];
    const MessageLabel label{exchange.name, number, -1};  // what is recorded knows no step
    if (exchange.arena == Arena::buffers) {
      communicator_->broadcast(lane, 0, memory, exchange.floats, label);
    } else if constexpr (updates_parts) {
      using Owners = typename Synchronisation::Place;
      if (exchange.arena == Arena::gradients)
        communicator_->reduce_to_owners(lane, memory + exchange.first, exchange.floats, label, Owners());
      else
        communicator_->gather_from_owners(lane, memory + exchange.first, exchange.floats, label, Owners());
    } else {
      communicator_->template add_up_weighted<Synchronisation>(lane, memory + exchange.first, exchange.floats, label);
    }
  }
  /// Of the parameters that this device owns: a step of the update.
  template <class Execution>
  void update(Executor& lane, const Execution& execution, int step, float* parameters, float* gradients) {
    for (int b = 0; b < plan.count; ++b) {
      const FloatRange own = own_part(b);
      if (own.count > 0)
        execution.update(lane, step, parameters + own.first, gradients + own.first,
                         states_.data() + state_at_[static_cast<std::size_t>(b)], own.count, state_floats_);
    }
  }
  /// Brings the sums of gradients together that each device has a part of.
  void gather(Executor& executor, float* gradients) {
    for (const Bucket& bucket : plan)
      communicator_->gather_from_owners(executor, gradients + bucket.first, bucket.floats, {"gradients", -1, -1},
                                        typename Synchronisation::Place());
    await(executor);
  }
  void add_up(Executor& lane, const float* from, float* to, long floats) {
    communicator_->add_up(lane, from, to, floats, {"sum over the batch", -1, -1});
  }
  /// All devices begin with what the first one has.
  void share(Executor& executor, float* memory, long floats) {
    if (floats > 0) communicator_->broadcast(executor, 0, memory, floats, {"parameters", -1, -1});
  }
  void await(Executor& executor) { communicator_->await(executor); }
  void abandon() noexcept {
    if (communicator_ != nullptr) communicator_->abandon();
  }

 private:
  using Communicator = typename detail::CommunicatorFor<Synchronisation, Executor, Group>::type;

  FloatRange own_part(int b) const {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
    const FloatRange part = Synchronisation::Place::part(bucket.floats, group_->rank(), group_->size());
    return {bucket.first + part.first, part.count};
  }

  std::unique_ptr<Group> group_;
  std::unique_ptr<Communicator> communicator_;
  DeviceBuffer<Executor> states_;                                      // one behind the other, each of `state_floats_`
  long state_floats_ = 0;                                              // of the parameters that this device owns
  std::array<long, static_cast<std::size_t>(plan.count)> state_at_{};  // of each bucket's part
};

}  // namespace tenet
