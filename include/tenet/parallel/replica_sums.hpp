#pragma once

#include <tenet/comm/thread_transport.hpp>
#include <tenet/core/function.hpp>
#include <tenet/parallel/replicas.hpp>

namespace tenet {

/// The sums over a batch that replicas share, in the midst of their passes: what `SumOverWorkers` calls on each of
/// them. They have a network of their own, as communication threads may use another one meanwhile.
template <class Group>
class ReplicaSums {
 public:
  explicit ReplicaSums(Group& replicas) : network_(replicas.size(), replicas.limit()) {
    parts_.reserve(static_cast<std::size_t>(replicas.size()));
    for (int r = 0; r < replicas.size(); ++r) {
      parts_.push_back({this, ThreadTransport(network_, r)});
      replicas.executor(r).worker_sum = {&ReplicaSums::add_up, &parts_.back()};
    }
  }
  ReplicaSums(const ReplicaSums&) = delete;
  ReplicaSums& operator=(const ReplicaSums&) = delete;

  /// The replicas are one worker among others: add_up(numbers, floats) makes of their sum that of all workers. The
  /// first one calls it.
  void go_on_with(Function<void(float*, long)> add_up) { others_ = std::move(add_up); }

  /// Before a run, which is so many steps into the training.
  void begin(long step) {
    step_ = step;
    for (Part& part : parts_) part.count = 0;
  }
  /// Ends all waiting: a replica has failed.
  void abandon() noexcept { network_.abandon(); }

 private:
  struct Part {
    ReplicaSums* all;
    ThreadTransport transport;
    long count = 0;
  };

  static void add_up(void* context, float* numbers, long floats) {
    Part& part = *static_cast<Part*>(context);
    const MessageLabel label{"sum over the batch", part.count++, part.all->step_};
    all_reduce(part.transport, numbers, floats, label);
    if (!part.all->others_) return;
    if (part.transport.rank() == 0) part.all->others_(numbers, floats);
    broadcast(part.transport, 0, numbers, floats, label);
  }

  ThreadNetwork network_;
  std::vector<Part> parts_;
  long step_ = 0;
  Function<void(float*, long)> others_;
};

}  // namespace tenet
