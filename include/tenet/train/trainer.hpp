#pragma once

#include <array>
#include <tenet/data/data_loader.hpp>
#include <tenet/train/batch_checks.hpp>
#include <tenet/train/broken_trainer.hpp>
#include <tenet/train/epochs.hpp>
#include <tenet/train/fit_options.hpp>
#include <tenet/train/given.hpp>
#include <tenet/train/policies.hpp>
#include <tenet/train/programs.hpp>
#include <tenet/train/step_queue.hpp>
#include <tenet/train/summary.hpp>
#include <tenet/train/trainer_state.hpp>
#include <tenet/train/weights.hpp>

namespace tenet {

/// What `Trainer` names. A function that takes any trainer can deduce this class's arguments; those of `Trainer`, which
/// is an alias, it cannot.
template <class Net, class Loss, class Optimizer, class... Tags>
struct TrainerOf {
  using Chosen = Policies<Tags...>;
  using Input = typename Chosen::Input;
  using Device = typename Chosen::Device;
  using Kernels = typename Chosen::Kernels;
  using Training = typename Chosen::template TrainingOf<
      TrainingProgram<Net, Loss, Optimizer, Input, Kernels, typename Chosen::Update, typename Chosen::Memory>>;
  using Evaluating = typename Chosen::template ProgramOf<EvaluationProgram<Net, Loss, Input, Kernels>>;
  using Predicting = typename Chosen::template ProgramOf<InferenceProgram<Net, Input, Kernels, Tracer<Kernels>>>;
  template <class P>
  using ExecutionOf = typename Chosen::template ExecutionOf<P>;
  using Output = detail::OutputOf<Net, Input, Tracer<Kernels>>;
  using Target = typename Loss::template Target<Output>;
  using InputElement = typename Input::Element;
  using TargetElement = typename Target::Element;
  static constexpr bool keeps_gradients = Chosen::Update::keeps_gradients;
  static constexpr bool records = Chosen::records;
  static constexpr bool has_own_memory = Chosen::has_own_memory;
  /// Whether `fit` starts a step before it has the result of the one before.
  static constexpr bool runs_ahead = has_own_memory && std::is_same_v<typename Chosen::Strategy, Single> && !records;

  // An aggregate of the optimizer and the seed, Trainer<…>{{.learning_rate = 0.1f}, 1}: so the compiler names a setting
  // that is misspelt, where a constructor would only not match.
  Optimizer optimizer_{};
  std::uint64_t seed_ = 0;

  using State = TrainerState<Chosen, Net, Optimizer>;
  KeptState<State> state_{seed_};  ///< not to be given; `state()` is the way to it

  /// One step on a batch: inputs of `batch` samples one after the other, targets likewise.
  StepResult step(const InputElement* inputs, const TargetElement* targets, int batch) {
    detail::check_targets<Target, Output>(targets, batch);
    return run_step(state_after_queue(), optimizer_now(), inputs, targets, batch);
  }

  /// The same where inputs, targets or both lie in the memory of the trainer's device: step(OnDevice{images}, labels,
  /// 64), or with a `DeviceArray`. What writes them has ended, or was given to `executor()`, or, of arrays, was queued.
  template <class Inputs, class Targets>
    requires detail::TakenThere<TrainerOf, Inputs, Targets>
  StepResult step(const Inputs& inputs, const Targets& targets, int batch) {
    detail::check_sizes<TrainerOf>(inputs, targets, batch);
    State& now = state_after_queue();
    detail::await_queued(inputs);
    detail::await_queued(targets);
    return run_step(now, optimizer_now(), detail::given_part_of<Chosen>(inputs), detail::given_part_of<Chosen>(targets),
                    batch);
  }

  /// The same step on the thread of the trainer's device, behind what waits there: it returns at once, unless the queue
  /// is full. The batch is copied; the optimizer's settings are those of now. All else that needs the weights waits for
  /// it. It runs behind an `Event`, if one is given.
  PendingStep step_async(const InputElement* inputs, const TargetElement* targets, int batch,
                         detail::Awaited after = {}) {
    detail::check_targets<Target, Output>(targets, batch);
    return submit(inputs, targets, batch, std::move(after));
  }
  /// Of what lies in the memory of the trainer's device, which is not copied. A `DeviceArray` is kept until then, and
  /// may be written again by what is queued behind the step; an `OnDevice` is the caller's to keep.
  template <class Inputs, class Targets>
    requires detail::TakenThere<TrainerOf, Inputs, Targets>
  PendingStep step_async(const Inputs& inputs, const Targets& targets, int batch, detail::Awaited after = {}) {
    detail::check_sizes<TrainerOf>(inputs, targets, batch);
    if constexpr (!detail::lies_on_device<Targets>) detail::check_targets<Target, Output>(targets, batch);
    return submit(inputs, targets, batch, std::move(after));
  }
  /// Other element types, or numbers of another device, do not compile.
  template <class Inputs, class Targets>
    requires detail::NotTaken<TrainerOf, Inputs, Targets>
  detail::Explained<StepResult, TrainerOf, Inputs, Targets> step(const Inputs&, const Targets&, int);
  template <class Inputs, class Targets>
    requires detail::NotTaken<TrainerOf, Inputs, Targets>
  detail::Explained<PendingStep, TrainerOf, Inputs, Targets> step_async(const Inputs&, const Targets&, int,
                                                                        detail::Awaited = {});

  /// Waits for the queued steps. Throws an `Error` for the first that has failed, which says what step it was; those
  /// behind it have been skipped.
  ///
  /// With a parameter server between ranks, or `LocalSgd`, it waits for all of them, too: all ranks have the same
  /// parameters behind it.
  void synchronize() {
    State& now = state();
    if constexpr (Chosen::ranks_differ) {
      prepared<Training>(now, &State::training).synchronize();
      now.weights.changed();
      if constexpr (has_own_memory) now.devices.has_changed(now.weights.version());
    }
  }
  /// How many steps, and bytes of batches, are queued at most before `step_async` waits; from the next one on.
  void queue_limits(QueueLimits limits) {
    if (limits.tasks <= 0) fail("Trainer", "queue_limits: tasks", "at least one", limits.tasks);
    state().queued.reset();
    state_->queue_limits = limits;
  }

  /// Trains for some epochs; each reads the loader once. Ctrl-C ends it after the step that is under way.
  template <class Loader>
  [[gnu::noinline]] FitReport fit(Loader&& loader, typename detail::FitOptionsFor<Loader>::type options = {}) {
    static_assert(detail::ElementsOfLoader<Loader>::template fit<InputElement, TargetElement>,
                  "the data set's element types do not fit: inputs are float, or std::int32_t for Tokens; targets are "
                  "std::int32_t labels for CrossEntropy, float for MeanSquaredError: use another data set or loss");
    detail::check_layout(loader.layout(), Input::info, Target::info);
    const auto batches = [&](long epoch) -> decltype(auto) { return batches_of(loader, epoch); };
    auto& executor = state().devices.executor();
    if constexpr (runs_ahead) {
      // The host starts a step while the GPU runs the one before; who is called after each step sees it ended.
      std::array<long, 2> runs{};
      long started = 0, finished = 0;
      return detail::run_epochs(
          options, loader.size(), executor, state_->factor, options.on_step ? 0 : 1, batches,
          [&](const Batch& batch) { runs[started++ % 2] = step_ahead(loader, batch); },
          [&] {
            auto& execution = state_->training.template as<ExecutionOf<Training>>();
            const long run = runs[finished++ % 2];
            return result_of([&](int k) { return execution.ahead_result(run, k); });
          });
    } else {
      StepResult result;
      return detail::run_epochs(
          options, loader.size(), executor, state_->factor, 0, batches,
          [&](const Batch& batch) { result = step_of(loader, batch); }, [&] { return result; });
    }
  }

  /// Loss and accuracy over a whole loader, in evaluation mode; nothing is changed.
  template <class Loader>
  [[gnu::noinline]] Evaluation evaluate(Loader&& loader) {
    static_assert(detail::ElementsOfLoader<Loader>::template fit<InputElement, TargetElement>,
                  "the data set's element types do not fit: inputs are float, or std::int32_t for Tokens; targets are "
                  "std::int32_t labels for CrossEntropy, float for MeanSquaredError: use another data set or loss");
    detail::check_layout(loader.layout(), Input::info, Target::info);
    auto& execution = prepared<Evaluating>(state(), &State::evaluating);
    return detail::evaluate_all(state_->devices.executor(), batches_of(loader, 0), [&](const Batch& batch) {
      give(execution, loader, batch);
      execution.run(batch.size);
      return result_of([&](int k) { return execution.result(k); });
    });
  }

  /// The network's output for a batch, in evaluation mode; valid until the next run.
  std::span<const float> predict(const InputElement* inputs, int batch) {
    auto& execution = prepared<Predicting>(state(), &State::predicting);
    execution.give(0, inputs);
    execution.give(1, nullptr);
    execution.run(batch);
    return {execution.result(0), static_cast<std::size_t>(Output::size * batch)};
  }

  /// The same in the memory of the trainer's device, where the output stays: there, until the next run.
  template <class Inputs>
    requires detail::TakenThere<TrainerOf, Inputs>
  OnDevice<float, Device> predict(const Inputs& inputs, int batch) {
    static_assert(std::is_same_v<typename Chosen::Strategy, Single>, "predict(OnDevice): of a trainer with one device");
    detail::check_size("inputs", inputs, Input::size, batch);
    detail::await_queued(inputs);
    return detail::run_there<Output, Device>(prepared<Predicting>(state(), &State::predicting),
                                             detail::given_part_of<Chosen>(inputs), batch);
  }
  template <class Inputs>
    requires detail::NotTaken<TrainerOf, Inputs>
  detail::Explained<OnDevice<float>, TrainerOf, Inputs> predict(const Inputs&, int);

  /// Parameters and buffers to and from a safetensors file, under PyTorch's names.
  void save(const std::string& path) { state().weights.save(path); }
  void load(const std::string& path) { state().weights.load(path); }

  /// Good until a queued step, or between ranks any step: these change them at their own time.
  Weights<Net>& weights() { return state().weights; }
  Optimizer& optimizer() { return optimizer_; }
  /// The gradient of one parameter, by its name, as the last step found it. Of a sparse table it is written here, when
  /// it is asked for. With `ShardedOptimizer` ranks ask for it together, as each of them has a part.
  std::span<const float> gradient(const std::string& name) {
    static_assert(keeps_gradients, "gradient(name): UpdateInBackward keeps no gradients: leave that policy out");
    return Weights<Net>::part_of(collected_gradients(), name);
  }
  /// All of them, one after the other as the parameters lie. From the first step on those of a rank lie elsewhere.
  const float* gradients() {
    static_assert(keeps_gradients, "gradients(): UpdateInBackward keeps no gradients: leave that policy out");
    return collected_gradients();
  }
  /// The device's; of several, the first one's.
  typename Kernels::Executor& executor() { return state().devices.executor(); }

  /// The network's layers, and the plans of training step and evaluation; memory for a batch of one.
  std::string summary() {
    return detail::layer_table<Net, Predicting>() + detail::parameters_text<Training, Optimizer, Chosen>() +
           detail::plan_text<Training>("training step") + detail::plan_text<Evaluating>("evaluation") +
           detail::schedule_text<Training>() + detail::synchronisation_text<Chosen, Training>() +
           detail::device_text<Device>(state().devices.executor(),
                                       Chosen::Strategy::replicas * Training::order.devices);
  }

  /// The graph of the training step in Graphviz' language.
  static std::string graph() { return dot_of<Net, Training>(); }

  /// What has run when, and what was planned: to be written as a file for Perfetto, or as a text. It waits for queued
  /// steps; see `Timeline`.
  auto timeline() const {
    static_assert(records, "timeline(): nothing is recorded without the policy Timeline<> (tenet/train/timeline.hpp)");
    if constexpr (records)
      return state().timeline.report();
    else
      return detail::NoReport{};
  }

  /// Floats held for activations and values without a batch by the training program: its plan, times the batch.
  long activation_floats() const {
    const AnyObject& training = state().training;
    return training.has_value() ? training.template as<ExecutionOf<Training>>().memory_floats() : 0;
  }

 private:
  /// What steps change: waits for those that are queued, and for what they have left to come; throws if one has failed.
  State& state() const {
    if constexpr (Chosen::has_late_parameters())
      if (const AnyObject& training = state_after_queue().training; training.has_value())
        training.template as<ExecutionOf<Training>>().complete();
    return state_after_queue();
  }
  State& state_after_queue() const {
    if (state_->queued != nullptr) state_->queued->synchronize();
    return *state_;
  }

  /// The optimizer with the learning rate that a schedule has made of its own.
  Optimizer optimizer_now() const {
    Optimizer now = optimizer_;
    now.learning_rate *= state_->factor;
    return now;
  }

  static StepResult run_step(State& state, const Optimizer& optimizer, const detail::GivenPart& inputs,
                             const detail::GivenPart& targets, int batch) {
    auto& execution = prepared<Training>(state, &State::training);
    if (!targets.is_checked) detail::check_targets_there<Target, Output>(state.devices.executor(), targets, batch);
    detail::give_to(execution, 0, inputs);
    detail::give_to(execution, 1, targets);
    return run_given(state, optimizer, execution, batch);
  }
  static StepResult run_given(State& state, const Optimizer& optimizer, ExecutionOf<Training>& execution, int batch) {
    return run_given(state, optimizer, execution, batch, [&] {
      execution.run(batch);
      if constexpr (has_own_memory) state.devices.has_changed(state.weights.version());
      return result_of([&](int k) { return execution.result(k); });
    });
  }
  template <class Run>
  static auto run_given(State& state, const Optimizer& optimizer, ExecutionOf<Training>& execution, int batch,
                        const Run& run) {
    state.weights.count_step();
    const auto span = open_span(
        state.devices.executor(),
        {.name = "training step", .number = batch, .step = state.weights.steps(), .kind = SpanKind::training_step});
    const auto scalars = optimizer.scalars(state.weights.steps());
    execution.set_scalars(scalars.data(),
                          state.seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(state.weights.steps()));
    return run();
  }

  /// Whether a loader's data stays in the memory of this trainer's device, which then makes the batches.
  template <class Loader>
  static constexpr bool stays_there = requires(Loader& loader) {
    requires StaysOn<std::remove_cvref_t<decltype(loader.dataset())>, typename Kernels::Executor>;
  };
  template <class Loader>
  static decltype(auto) batches_of(Loader& loader, long epoch) {
    if constexpr (stays_there<Loader>)
      return loader.choices(epoch);
    else
      return loader.epoch(epoch);
  }
  template <class Loader>
  StepResult step_of(Loader& loader, const Batch& batch) {
    if constexpr (stays_there<Loader>) {
      State& state = state_after_queue();
      auto& execution = prepared<Training>(state, &State::training);
      give(execution, loader, batch);
      return run_given(state, optimizer_now(), execution, batch.size);
    } else {
      return step(static_cast<const InputElement*>(batch.input), static_cast<const TargetElement*>(batch.target),
                  batch.size);
    }
  }
  /// Starts a step; its number among those that were. The batch may change then.
  template <class Loader>
  long step_ahead(Loader& loader, const Batch& batch) {
    State& state = state_after_queue();
    auto& execution = prepared<Training>(state, &State::training);
    give(execution, loader, batch);
    const long run = run_given(state, optimizer_now(), execution, batch.size, [&] {
      const long number = execution.run_ahead(batch.size);
      state.devices.has_changed(state.weights.version());
      return number;
    });
    execution.await_inputs();
    return run;
  }
  template <class Running, class Loader>
  void give(Running& execution, Loader& loader, const Batch& batch) {
    if constexpr (stays_there<Loader>) {
      detail::check_targets<Target, Output>(loader.dataset().on(state_->devices.executor()).targets());
      execution.give_made(loader.dataset(), batch.epoch,
                          std::span(batch.samples, static_cast<std::size_t>(batch.size)));
    } else {
      const auto* const targets = static_cast<const TargetElement*>(batch.target);
      detail::check_targets<Target, Output>(targets, batch.size);
      execution.give(0, batch.input);
      execution.give(1, targets);
    }
  }

  /// A step on the queue's thread.
  struct QueuedStep {
    State* state;
    StepResult operator()(const Optimizer& optimizer, const QueuedBatch& batch) const {
      const long number = state->weights.steps() + 1;
      try {
        batch.after();
        return run_step(*state, optimizer, batch.inputs, batch.targets, batch.size);
      } catch (...) {
        detail::fail_step(number);
      }
    }
  };

  template <class Inputs, class Targets>
  PendingStep submit(const Inputs& inputs, const Targets& targets, int batch, detail::Awaited after) {
    return queue().submit(optimizer_now(), detail::queued_part_of<Chosen>(inputs, long{Input::size} * batch),
                          detail::queued_part_of<Chosen>(targets, long{Target::size} * batch), batch, std::move(after));
  }
  auto& queue() {
    using Queue = StepQueue<Optimizer, QueuedStep>;
    if (state_->queued == nullptr) {
      prepared<Training>(*state_, &State::training);  // by this thread: ranks meet while it is made
      state_->queued =
          std::make_unique<Queue>(detail::place_of_steps<Chosen>(Chosen::Strategy::replicas * Training::order.devices),
                                  state_->queue_limits, QueuedStep{&*state_});
    }
    return static_cast<Queue&>(*state_->queued);
  }

  template <class P>
  static ExecutionOf<P>& prepared(State& state, AnyObject State::*member) {
    AnyObject& kept = state.*member;
    if (!kept.has_value()) {
      if constexpr (records)
        state.timeline.template add_program<P, Chosen, std::is_same_v<P, Training>>(P::Definition::name);
      AnyObject made;
      auto& execution = made.template emplace<ExecutionOf<P>>(state.devices);
      execution.bind(Arena::parameters, state.weights.parameters());
      if constexpr (std::is_same_v<P, Training>) execution.bind(Arena::gradients, gradients_of(state, &execution));
      execution.bind(Arena::buffers, state.weights.buffers());
      execution.bind(Arena::states, state.states.data());
      if constexpr (has_own_memory)
        state.weights.kept_by(&state.devices,
                              [](void* devices) { static_cast<typename Chosen::Devices*>(devices)->bring_back(); });
      kept = std::move(made);
    }
    auto& execution = kept.template as<ExecutionOf<P>>();
    execution.use_weights(state.weights.version());
    return execution;
  }

  const float* collected_gradients() {
    if constexpr (keeps_gradients) {
      const AnyObject& kept = state().training;
      auto* const training = kept.has_value() ? &kept.template as<ExecutionOf<Training>>() : nullptr;
      if constexpr (has_own_memory || Chosen::has_part_of_gradient || slot_table<Net>.table_count > 0)
        if (training != nullptr) training->collect_gradients();
      return gradients_of(*state_, training);
    } else {
      return nullptr;  // The caller's assertion has failed: no execution is instantiated behind it.
    }
  }
  static float* gradients_of(State& state, const auto* training) {
    return detail::gradients_of(training, state.gradients, keeps_gradients ? Weights<Net>::table.parameter_floats : 0);
  }

  template <class At>
  static StepResult result_of(const At& at) {
    StepResult result{*at(0), -1};
    if constexpr (Loss::has_accuracy) result.accuracy = *at(1);
    return result;
  }
};

namespace detail {

template <class Net, class Loss, class Optimizer, class... Tags>
constexpr auto trainer_of() {
  using Chosen = Policies<Tags...>;
  using Instead = BrokenTrainer<Net, Optimizer>;
  using Wrong = typename decltype(Chosen::template explanation<Instead>())::type;
  if constexpr (!IsLoss<Loss>) {
    return std::type_identity<mistake::NotALoss<Loss, Instead>>{};
  } else if constexpr (!IsOptimizer<Optimizer>) {
    return std::type_identity<mistake::NotAnOptimizer<Optimizer, Instead>>{};
  } else if constexpr (!std::is_void_v<Wrong>) {
    return std::type_identity<Wrong>{};
  } else {
    using Kernels = typename Chosen::Kernels;
    using Broken =
        typename decltype(training_explanation<Net, Loss, Optimizer, typename Chosen::Input, Kernels, Instead>())::type;
    using Made = TrainerOf<Net, Loss, Optimizer, Tags...>;
    if constexpr (!std::is_void_v<Broken>)
      return std::type_identity<Broken>{};
    else if constexpr (NeedsAllGradients<Optimizer> &&
                       !(Chosen::updates_all_at_once && slot_table<Net>.table_count == 0))
      return std::type_identity<mistake::UpdateOfParts<Optimizer, Instead>>{};
    else if constexpr (slot_table<Net>.table_count > 0 && !Chosen::updates_rows)
      return std::type_identity<mistake::SparseTablesWith<typename Chosen::AgainstRows, Instead>>{};
    else if constexpr (Chosen::Memory::memory_bound > 0)
      return bounded<Made, Instead, Chosen::Memory::memory_bound>();
    else
      return std::type_identity<Made>{};
  }
}

}  // namespace detail

/// Trains a network of type Net: Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<>>.
///
/// The tags behind the optimizer come in any order: the input's shape, which must be given, and policies, which have
/// defaults. The whole training step is planned at compile time; after the first step nothing is allocated. Where the
/// network has a mistake, this names the class that explains it (docs/errors.md).
template <class Net, class Loss, class Optimizer, class... Tags>
using Trainer = typename decltype(detail::trainer_of<Net, Loss, Optimizer, Tags...>())::type;

}  // namespace tenet
