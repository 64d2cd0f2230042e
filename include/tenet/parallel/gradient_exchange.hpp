#pragma once

#include <tenet/core/timeline.hpp>
#include <tenet/exec/buckets.hpp>
#include <tenet/exec/device_queue.hpp>
#include <tenet/parallel/synchronisation.hpp>

namespace tenet {

/// One rank's forward and backward pass, during which a communication thread adds up its gradients with those of all
/// other ranks: bucket by bucket, each as soon as the steps that compute it have run.
template <class Program, class Synchronisation, long bucket_bytes, Transport T>
class GradientExchange {
 public:
  static constexpr auto plan = plan_buckets(Program::lowered, Program::slots, bucket_bytes / 4);

  explicit GradientExchange(T transport) : transport_(std::move(transport)) {}

  T& transport() { return transport_; }

  /// Begins a step. `weight` is this rank's in the mean over all of them: its share of the samples.
  void begin(float weight) {
    ++step_;
    sums_ = 0;
    weight_ = weight;
  }

  /// Runs the program until its gradients are the sum over all ranks of weight · gradient: `execution` has begun with
  /// this rank's samples. Null: it has none; its weight is 0. prepare(first, floats) is called with a part of the
  /// gradients before it is sent.
  template <class Execution, class Prepare>
  void run(Execution* execution, float* gradients, Prepare prepare) {
    gradients_ = gradients;
    prepare_ = [](void* context, long first, long floats) { (*static_cast<Prepare*>(context))(first, floats); };
    prepare_context_ = &prepare;
    try {
      const auto leave = [this](int b) { queue_.submit([this, b] { reduce(b); }); };
      if constexpr (detail::ScattersGradients<Synchronisation>)
        run_by_buckets<Program>(execution, plan, gradients, leave, [this](int b) { await(b); });
      else
        run_by_buckets<Program>(execution, plan, gradients, leave);
    } catch (...) {  // what has been submitted uses this call's memory
      try {
        queue_.synchronize();
      } catch (...) {
      }
      throw;
    }
    const auto span = open_wait("gradients");
    queue_.synchronize();
  }

  /// The part of bucket b that is this rank's, where gradients are scattered.
  FloatRange own_part(int b) const {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
    const FloatRange part = part_of(bucket.floats, transport_.rank(), transport_.size());
    return {bucket.first + part.first, part.count};
  }
  /// Begins to bring all ranks' parts of an arena of parameters together, bucket by bucket: those that the next forward
  /// pass needs first are first, and it waits for each bucket when it needs it. make(b) is called before this rank's
  /// part of bucket b is sent, while others are.
  template <class Make>
  void begin_gather(float* memory, const char* what, Make make) {
    gathered_ = {memory, what, step_};
    for (int i = 0; i < plan.count; ++i) {
      const int b = plan.by_need[static_cast<std::size_t>(i)];
      make(b);
      queue_.submit([this, b] {
        const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
        const MessageLabel label{gathered_.what, b, gathered_.step};
        const auto span = open_collective(bucket.floats, label);
        all_gather(transport_, gathered_.memory + bucket.first, bucket.floats, label);
        if (b == plan.by_need[static_cast<std::size_t>(plan.count - 1)]) transport_.finish();
      });
      arrived_[static_cast<std::size_t>(b)] = queue_.submitted();
    }
  }
  /// Waits for all of it.
  void complete() { queue_.synchronize(); }

  /// Within `run`: makes of numbers the sum of all ranks'. The communication thread does it, when it has sent the
  /// buckets before: the ranks' messages come in one order.
  void add_up_in_pass(float* numbers, long floats) {
    in_pass_ = {numbers, floats, plan.count + sums_++};
    queue_.submit([this] {
      add_up(in_pass_.numbers, in_pass_.floats, {"sum over the batch", in_pass_.number, step_}, 1);
    });
    const auto span = open_wait("sum over the batch");
    queue_.synchronize();
  }

  /// Before a rank's `passes`: all ranks begin with the parameters of rank 0, and know each other's number of samples.
  /// Returns of how many samples the weights of shards are shares: of all ranks', where they are to be the same bits
  /// for any number of ranks, or the ranks share the batch while they run.
  template <class Cut, class Passes>
  float begin(Passes& passes, int batch) {
    if (step_ == 0) share_arena(passes, Arena::parameters, Program::slots.parameter_floats, "parameters");
    if constexpr (Cut::in_all > 0 || Program::is_on_part) {
      return begin_and_count(batch);
    } else {
      begin_with(batch);
      return static_cast<float>(batch);
    }
  }
  /// Behind them: results that are one number become means over all ranks, running statistics those of rank 0.
  template <class Passes>
  void end(Passes& passes) {
    {
      const auto span = open_wait("other ranks");
      add_up(passes.numbers().data(), Program::result_count, {"results", -2, step_}, weight_);
    }
    if constexpr (Program::writes_buffers)
      share_arena(passes, Arena::buffers, Program::slots.buffer_floats, "running statistics");
  }

 private:
  /// Waits for the parameters of bucket b.
  void await(int b) {
    const unsigned task = arrived_[static_cast<std::size_t>(b)];
    if (queue_.has_run(task)) return;
    const auto span = open_wait("parameters");
    queue_.synchronize(task);
  }

  MessageLabel samples_label() const { return {"number of samples", -1, step_}; }

  /// Begins a step where no rank knows how many samples the others have: they tell each other, while the forward pass
  /// runs.
  void begin_with(int samples) {
    ++step_;
    sum_ = static_cast<float>(samples);
    queue_.submit([this] {
      const float own = sum_;
      add_up(&sum_, 1, samples_label(), 1);
      weight_ = own / sum_;
    });
  }
  /// The same for who has to know it at once: the number of samples of all ranks. This rank's numbers are weighted by
  /// then.
  float begin_and_count(int samples) {
    complete();
    begin(1);
    sum_ = static_cast<float>(samples);
    const auto span = open_wait("other ranks");
    add_up(&sum_, 1, samples_label(), 1);
    return sum_;
  }

  /// What rank 0 has in an arena, for all ranks.
  template <class Passes>
  void share_arena(Passes& passes, Arena arena, long floats, const char* what) {
    if (floats <= 0) return;
    const MessageLabel label{what, -3 - static_cast<int>(arena), step_};
    const auto waiting = open_wait("other ranks");
    const auto span = open_collective(floats, label);
    broadcast(transport_, 0, passes.memory(arena), floats, label);
  }

  void reduce(int b) {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
    prepare_(prepare_context_, bucket.first, bucket.floats);
    const MessageLabel label{"bucket", b, step_};
    if constexpr (detail::ScattersGradients<Synchronisation>) {
      const auto span = open_collective(bucket.floats, label);
      reduce_scatter(transport_, gradients_ + bucket.first, bucket.floats, label, weight_);
    } else {
      add_up(gradients_ + bucket.first, bucket.floats, label, weight_);
    }
  }
  void add_up(float* numbers, long count, MessageLabel label, float weight) {
    const auto span = open_collective(count, label);
    Synchronisation::reduce(transport_, numbers, count, label, weight);
  }

  // In a timeline: what the ranks do together in the row of the transport, waiting for it in that of the device.
  auto open_collective(long floats, const MessageLabel& label) {
    return open_span(transport_, {.name = label.what,
                                  .number = label.number,
                                  .step = label.step,
                                  .bytes = 4 * floats,
                                  .kind = SpanKind::collective});
  }
  auto open_wait(const char* what) {
    if constexpr (HasTimelineRow<T>)
      return open_span(transport_.device(), {.name = what, .step = step_, .kind = SpanKind::wait});
    else
      return NoSpan{};
  }

  T transport_;
  float* gradients_ = nullptr;
  void (*prepare_)(void*, long, long) = nullptr;
  void* prepare_context_ = nullptr;
  float weight_ = 0, sum_ = 0;
  struct {
    float* memory;
    const char* what;
    long step;
  } gathered_{};  // the next step begins before all of it is there
  std::array<unsigned, static_cast<std::size_t>(plan.count)> arrived_{};  // of each bucket: the task that brings it
  long step_ = 0;
  int sums_ = 0;  // within this step's passes
  struct {
    float* numbers;
    long floats;
    int number;
  } in_pass_{};
  // Its thread shares a processor with the one that computes, as a rule: whoever waits sleeps at once. Two ranks of a
  // small network wait 7 us a step so, and 200 us where each spins for its usual moment. When it is woken it is to
  // get the processor at once: of LeNet's communication over MPI 58 % hides behind its backward pass then, else 46 %.
  // Last: it ends before what its tasks use.
  DeviceQueue queue_{{.tasks = plan.count + 2, .spins = 0}, [] { ask_for_short_turns(); }};
};

}  // namespace tenet
