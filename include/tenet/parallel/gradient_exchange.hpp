#pragma once

#include <array>
#include <atomic>
#include <tenet/core/function.hpp>
#include <tenet/core/timeline.hpp>
#include <tenet/exec/bucket_order.hpp>
#include <tenet/exec/device_queue.hpp>
#include <tenet/parallel/synchronisation.hpp>

namespace tenet {

/// One rank's forward and backward pass, during which a communication thread adds up its gradients with those of all
/// other ranks: bucket by bucket, each as soon as the steps that compute it have run. What the ranks tell each other
/// besides, results and running statistics, goes before the first bucket that is ready later. A single bucket is sent
/// by the thread that computes, which has nothing else to do then; of several, those that have come are updated while
/// the last one is on its way.
///
/// `is_late`: a step ends when its results have come, and buckets are awaited in the next pass; see `plan_exchange`.
template <class Program, class Synchronisation, long bucket_bytes, Transport T, bool is_late = false>
class GradientExchange {
 public:
  static constexpr auto plan = [] {
    if constexpr (is_late)
      return plan_exchange<Program, false>(bucket_bytes / 4);
    else
      return plan_buckets(Program::lowered, Program::slots, bucket_bytes / 4);
  }();
  /// The buckets with which results and running statistics leave; `plan.count`: they leave in `end`. Parts of gradients
  /// that others read are free when all ranks' results are there, where nothing else waits for that.
  static constexpr int results_leave =
      detail::ScattersGradients<Synchronisation> ? plan.count : plan.first_ready_behind(results_ready<Program>);
  static constexpr int statistics_leave = plan.first_ready_behind(statistics_ready<Program>);

  explicit GradientExchange(T transport) : transport_(std::move(transport)) {}

  T& transport() { return transport_; }

  /// Begins a step, behind all buckets of the one before. `weight` is this rank's in the mean over all of them: its
  /// share of the samples.
  void begin(float weight) {
    begin();
    weight_ = weight;
  }

  long step() const { return step_; }

  /// Runs the program until all buckets have left: `execution` has begun with this rank's samples. Null: it has none;
  /// its weight is 0. A bucket that has been awaited is the sum over all ranks of weight · gradient. prepare(b,
  /// bucket), of which a copy lives until then, is called before bucket b is sent; wait(b) before the step that needs
  /// its parameters; results(), of which a copy lives so long, too, is called when bucket `results_leave` is ready, and
  /// gives this rank's results.
  template <class Execution, class Prepare, class Wait = NothingAwaited>
  void run(Execution* execution, float* gradients, Prepare prepare, Wait wait = {},
           Function<std::array<float, 4>()> results = {}) {
    try {
      const auto leave = [&](int b) {
        if (b == 0) {  // those of the step before have come
          gradients_ = gradients;
          prepare_ = prepare;
        }
        if (b == results_leave) {
          own_results_ = results;
          has_results_ = static_cast<bool>(results);
        }
        if constexpr (plan.count == 1) {
          const auto send = [this] {
            tell(0);
            reduce(0, step_);
          };
          if (!communicate_here("gradients", send)) queue_.submit(send);
          told_ = arrived_[0] = queue_.submitted();
        } else {
          if (b == results_leave || b == statistics_leave) {
            queue_.append([this, b] { tell(b); });
            told_ = queue_.submitted();
          }
          plan.for_each_leaving(b, [this](int bucket) {
            queue_.append([this, bucket, step = static_cast<int>(step_)] { reduce(bucket, step); });
            arrived_[static_cast<std::size_t>(bucket)] = queue_.submitted();
          });
          queue_.wake();  // once for all of it: see Doorbell::ring
        }
      };
      run_by_buckets<Program>(execution, plan, gradients, leave, wait);
    } catch (...) {  // what has been submitted uses this call's memory
      try {
        queue_.synchronize();
      } catch (...) {
      }
      throw;
    }
  }

  /// Waits for what bucket b brings: the sums of gradients, or parameters.
  void await(int b, const char* what = "gradients") {
    const unsigned task = arrived_[static_cast<std::size_t>(b)];
    if (queue_.has_run(task)) return queue_.synchronize(task);  // throws what has failed
    const auto span = open_wait(what);
    queue_.synchronize(task);
  }
  /// Whether there would be nothing to wait for.
  bool has_come(int b) const { return queue_.has_run(arrived_[static_cast<std::size_t>(b)]); }
  /// Waits for all of it.
  void complete(const char* what = "gradients") {
    const auto span = open_wait(what);
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
      gather(b);
    }
  }
  /// Within `run`: makes of numbers the sum of all ranks'.
  void add_up_in_pass(float* numbers, long floats) {
    in_pass_ = {numbers, floats, plan.count + sums_++};
    const auto sum = [this] {
      add_up(in_pass_.numbers, in_pass_.floats, {"sum over the batch", in_pass_.number, step_}, 1);
    };
    if (communicate_here("sum over the batch", sum)) return;
    queue_.submit(sum);
    complete("sum over the batch");
  }

  /// Before a rank's `passes`: all ranks begin with the parameters of rank 0, and are to know each other's number of
  /// samples. Returns of how many samples the weights of shards are shares: of all ranks', where they are to be the
  /// same bits for any number of ranks, or the ranks share the batch while they run. `gives_results`: whether `run`
  /// will be given them; where they leave before all gradients, which samples weigh, the number of samples leaves with
  /// them.
  template <class Cut, class Passes>
  float begin(Passes& passes, int batch, bool gives_results) {
    if (step_ == 0) share_at_once(passes.memory(Arena::parameters), parameters);
    float samples = static_cast<float>(batch);
    if constexpr (Cut::in_all > 0 || Program::is_on_part)
      samples = begin_and_count(batch);
    else
      begin_with(batch, gives_results && results_leave == 0);
    statistics_ = Program::writes_buffers ? passes.memory(Arena::buffers) : nullptr;
    return samples;
  }
  /// Behind them, when all buckets have come, or are left to the next pass: results that are one number become means
  /// over all ranks, running statistics those of rank 0.
  template <class Passes>
  void end(Passes& passes) {
    if constexpr (is_late) {
      const auto span = open_wait("other ranks");
      queue_.synchronize(told_);
    } else {
      complete("other ranks");
    }
    if (has_results_) {
      passes.numbers() = results_;
    } else {
      const auto span = open_wait("other ranks");
      add_up_results(passes.numbers().data());
    }
    if constexpr (statistics_leave == plan.count)
      if (statistics_ != nullptr) share_at_once(statistics_, statistics);
  }

 private:
  void gather(int b) {
    queue_.submit([this, b] {
      const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
      const MessageLabel label{gathered_.what, b, gathered_.step};
      const auto span = open_collective(bucket.floats, label);
      all_gather(transport_, gathered_.memory + bucket.first, bucket.floats, label);
      if (b == plan.by_need[static_cast<std::size_t>(plan.count - 1)]) transport_.finish();
    });
    arrived_[static_cast<std::size_t>(b)] = queue_.submitted();
  }

  void begin() {
    ++step_;
    sums_ = 0;
    statistics_ = nullptr;
    has_results_ = false;
    counts_with_results_ = false;
  }
  MessageLabel samples_label() const { return {"number of samples", -1, step_}; }

  /// Begins a step where no rank knows how many samples the others have: they tell each other while the forward pass
  /// runs, or, `with_results`, behind it.
  void begin_with(int samples, bool with_results) {
    begin();
    sum_ = static_cast<float>(samples);
    counts_with_results_ = with_results;
    if (with_results) return;
    queue_.submit([this] {
      const float own = sum_;
      add_up(&sum_, 1, samples_label(), 1);
      weight_ = own / sum_;
    });
  }
  /// The same for who has to know it at once: the number of samples of all ranks. This rank's numbers are weighted by
  /// then.
  float begin_and_count(int samples) {
    complete("other ranks");
    begin(1);
    sum_ = static_cast<float>(samples);
    const auto span = open_wait("other ranks");
    add_up(&sum_, 1, samples_label(), 1);
    return sum_;
  }

  /// What rank 0 has in an arena, for all ranks.
  struct SharedArena {
    const char* what;
    int number;
    long floats;
  };
  static constexpr SharedArena parameters{"parameters", -3, Program::slots.parameter_floats},
      statistics{"running statistics", -4, Program::slots.buffer_floats};
  void share(float* memory, const SharedArena& arena) {
    if (arena.floats <= 0) return;
    const MessageLabel label{arena.what, arena.number, step_};
    const auto span = open_collective(arena.floats, label);
    broadcast(transport_, 0, memory, arena.floats, label);
  }
  void share_at_once(float* memory, const SharedArena& arena) {
    const auto waiting = open_wait("other ranks");
    share(memory, arena);
  }

  MessageLabel results_label() const { return {"results", -2, step_}; }
  void add_up_results(float* numbers) { add_up(numbers, Program::result_count, results_label(), weight_); }
  /// With them the number of samples, of which they are means: one message less, which a step of few samples over a
  /// network has to wait for.
  void add_up_results_and_samples() {
    const float own = sum_;
    std::array<float, 1 + std::tuple_size_v<decltype(results_)>> sums{own};
    for (std::size_t i = 0; i < results_.size(); ++i) sums[1 + i] = own * results_[i];
    add_up(sums.data(), 1 + Program::result_count, results_label(), 1);
    weight_ = own / sums[0];
    for (std::size_t i = 0; i < results_.size(); ++i) results_[i] = sums[1 + i] / sums[0];
  }

  /// Does what nothing is computed beside, without waking another thread, which takes longer than adding up a few
  /// numbers. Not while buckets are under way, as the ranks' messages come in one order: false.
  template <class Task>
  bool communicate_here(const char* what, Task task) {
    if (queue_.waiting() > 0) return false;
    queue_.synchronize();  // throws what a bucket may have thrown
    const auto span = open_wait(what);
    task();
    return true;
  }

  /// What leaves before bucket b.
  void tell(int b) {
    if (b == results_leave && has_results_) {
      results_ = own_results_();
      if (counts_with_results_)
        add_up_results_and_samples();
      else
        add_up_results(results_.data());
    }
    if (b == statistics_leave && statistics_ != nullptr) share(statistics_, statistics);
  }
  void reduce(int b, long step) {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(b)];
    prepare_(b, bucket);
    const MessageLabel label{"bucket", b, step};
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
    const auto open = [&] {
      if constexpr (HasTimelineRow<T>)
        return open_span(transport_.device(), {.name = what, .step = step_, .kind = SpanKind::wait});
      else
        return NoSpan{};
    };
    return Wait<decltype(open())>(computes_, open);
  }
  /// The time in which the thread that computes does not.
  template <class Span>
  class Wait {
   public:
    template <class Open>
    Wait(std::atomic<bool>& computes, Open open) : computes_(computes), span_(open()) {
      computes_.store(false, std::memory_order_relaxed);
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() { computes_.store(true, std::memory_order_relaxed); }

   private:
    std::atomic<bool>& computes_;
    Span span_;
  };

  T transport_;
  float *gradients_ = nullptr, *statistics_ = nullptr;
  Function<void(int, const Bucket&)> prepare_;
  Function<std::array<float, 4>()> own_results_;
  std::array<float, 4> results_{};
  bool has_results_ = false, counts_with_results_ = false;  // of this step: they leave with a bucket
  float weight_ = 0, sum_ = 0;
  struct {
    float* memory;
    const char* what;
    long step;
  } gathered_{};  // the next step begins before all of it is there
  std::array<unsigned, static_cast<std::size_t>(plan.count)> arrived_{};  // of each bucket: the task that brings it
  unsigned told_ = 0;  // the last task that brings results or running statistics
  long step_ = 0;
  int sums_ = 0;  // within this step's passes
  struct {
    float* numbers;
    long floats;
    int number;
  } in_pass_{};
  std::atomic<bool> computes_{true};  // the thread that calls this, unless it waits
  // Its thread shares a processor with the one that computes, as a rule: whoever waits sleeps at once. Two ranks of a
  // small network wait 7 us a step so, and 200 us where each spins for its usual moment. When it is woken it is to
  // get the processor at once: of LeNet's communication over MPI 58 % hides behind its backward pass then, else 46 %.
  // Where it waits for another rank itself, in memory that they share, it soon lets the one that computes through.
  // Last: it ends before what its tasks use.
  DeviceQueue queue_{{.tasks = plan.count + 4, .spins = 0}, [this] {
                       ask_for_short_turns();
                       computes_beside = &computes_;
                     }};
};

}  // namespace tenet
