#pragma once

#include <memory>
#include <tenet/exec/buckets.hpp>
#include <tenet/exec/sequence.hpp>
#include <tenet/parallel/device_communicator.hpp>

namespace tenet {

/// What the devices of a training step do together: each bucket of gradients is added up as soon as it is there, while
/// backward goes on; and running statistics are those of the first device, as in PyTorch's.
template <class Program, long bucket_bytes, Transport T>
class ExchangedGradients {
 public:
  using Executor = typename Program::Kernels::Executor;

  static constexpr auto plan = plan_buckets(Program::lowered, Program::slots, bucket_bytes / 4);
  static constexpr auto all = [] {
    constexpr auto count = static_cast<std::size_t>(plan.count);
    std::array<Exchange, count + Program::writes_buffers> exchanges{};
    for (std::size_t b = 0; b < count; ++b)
      exchanges[b] = {"gradients of all devices", Arena::gradients, plan.buckets[b].first, plan.buckets[b].floats,
                      plan.buckets[b].ready};
    if constexpr (Program::writes_buffers)
      exchanges[count] = {"running statistics", Arena::buffers, 0, Program::slots.buffer_floats,
                          Program::lowered.used.steps};
    return exchanges;
  }();

  /// To be called by all devices, before they run.
  void connect(Executor& executor, T transport) {
    transport_ = std::make_unique<T>(std::move(transport));
    communicator_ = std::make_unique<Communicator>(executor, *transport_);
  }
  /// What the devices tell each other besides.
  T& transport() { return *transport_; }
  /// In the next run the device's gradients count so much: its share of the samples. Of a program that runs on a part
  /// of the batch they are terms of the sum already.
  void begin(float weight) { communicator_->weigh(Program::is_on_part ? 1 : weight); }

  void give(Executor& lane, int number, float* memory) {
    const Exchange& exchange = all[static_cast<std::size_t>(number)];
    const MessageLabel label{exchange.name, number, -1};  // what is recorded knows no step
    if (exchange.arena == Arena::gradients)
      communicator_->add_up_weighted(lane, memory + exchange.first, exchange.floats, label);
    else
      communicator_->broadcast(lane, 0, memory, exchange.floats, label);
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
  using Communicator = DeviceCommunicator<Executor, T>;
  std::unique_ptr<T> transport_;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace tenet
