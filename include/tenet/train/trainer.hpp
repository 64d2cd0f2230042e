#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include <tenet/data/data_loader.hpp>
#include <tenet/optim/schedule.hpp>
#include <tenet/train/interrupt.hpp>
#include <tenet/train/policies.hpp>
#include <tenet/train/programs.hpp>
#include <tenet/train/progress.hpp>
#include <tenet/train/summary.hpp>
#include <tenet/train/weights.hpp>

namespace tenet {

/// What one training step found: the mean loss of its batch, and the share of right answers (-1 if the loss has none).
struct StepResult {
  float loss = 0;
  float accuracy = -1;
};

/// What an evaluation found, over all samples.
struct Evaluation {
  double loss = 0;
  double accuracy = -1;
  long samples = 0;
};

/// What one epoch of training found.
struct EpochReport {
  int epoch = 0;  ///< from 1
  double loss = 0, accuracy = -1;
  double seconds = 0;
  long samples = 0;
};

/// What a whole training found.
struct FitReport {
  std::vector<EpochReport> epochs;
  bool interrupted = false;  ///< Ctrl-C ended it; the last epoch is not whole
};

struct FitOptions {
  int epochs = 1;
  /// Factor of the learning rate before each step; none: 1.
  std::function<float(const TrainingPosition&)> schedule = {};
  /// Called after each step and each epoch.
  std::function<void(long step, const StepResult&)> on_step = {};
  std::function<void(const EpochReport&)> on_epoch = {};
  std::FILE* progress = stderr;  ///< where progress is shown; null: nowhere
};

/// Trains a network of type Net: Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<>>.
///
/// The tags behind the optimizer come in any order: the input's shape, which must be given, and policies, which have
/// defaults. The whole training step is planned at compile time; after the first step nothing is allocated.
template <class Net, class Loss, class Optimizer, class... Tags>
class Trainer {
  using Chosen = Policies<Tags...>;

 public:
  using Input = typename Chosen::Input;
  using Device = typename Chosen::Device;
  using Kernels = typename Device::Kernels;
  using Training = Program<TrainingProgram<Net, Loss, Optimizer, Input, Kernels>>;
  using Evaluating = Program<EvaluationProgram<Net, Loss, Input, Kernels>>;
  using Predicting = Program<InferenceProgram<Net, Input, Kernels>>;
  using Output = typename InferenceProgram<Net, Input, Kernels>::Output;
  using Target = typename Loss::template Target<Output>;
  using InputElement = typename Input::Element;
  using TargetElement = typename Target::Element;

  explicit Trainer(Optimizer optimizer = {}, std::uint64_t seed = 0)
      : optimizer_(optimizer),
        seed_(seed),
        executor_(make_executor<Device>()),
        weights_(seed),
        gradients_(Weights<Net>::table.parameter_floats),
        states_(Optimizer::state_count * Weights<Net>::table.parameter_floats) {}

  /// One step on a batch: inputs of `batch` samples one after the other, targets likewise.
  StepResult step(const InputElement* inputs, const TargetElement* targets, int batch) {
    check(targets, batch);
    auto& execution = prepared(training_);
    weights_.count_step();
    Optimizer now = optimizer_;
    now.learning_rate *= factor_;
    const auto scalars = now.scalars(weights_.steps());
    execution.set_scalars(scalars.data(), seed_ * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(weights_.steps()));
    give(execution, inputs, targets);
    execution.run(batch);
    return result_of(execution);
  }

  /// Trains for some epochs; each reads the loader once. Ctrl-C ends it after the step that is under way.
  template <class Data, class Order>
  FitReport fit(DataLoader<Data, Order>& loader, FitOptions options = {}) {
    check(loader);
    FitReport report;
    const InterruptGuard guard;
    Progress progress(options.progress, options.epochs, loader.size());
    long step = 0;
    for (int epoch = 0; epoch < options.epochs && !report.interrupted; ++epoch) {
      const auto begin = std::chrono::steady_clock::now();
      EpochReport done{epoch + 1, 0, 0, 0, 0};
      for (const Batch& batch : loader.epoch(epoch)) {
        factor_ = options.schedule ? options.schedule({step, options.epochs * loader.size(), epoch}) : 1.0f;
        const StepResult result = this->step(static_cast<const InputElement*>(batch.input),
                                             static_cast<const TargetElement*>(batch.target), batch.size);
        done.loss += result.loss * batch.size;
        done.accuracy += result.accuracy * batch.size;
        done.samples += batch.size;
        progress.step(result.loss, result.accuracy, batch.size);
        if (options.on_step) options.on_step(step + 1, result);
        ++step;
        if (InterruptGuard::requested()) {
          report.interrupted = true;
          break;
        }
      }
      done.loss /= static_cast<double>(done.samples);
      done.accuracy /= static_cast<double>(done.samples);
      done.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      report.epochs.push_back(done);
      if (!report.interrupted) progress.finish_epoch();
      if (options.on_epoch) options.on_epoch(done);
    }
    factor_ = 1.0f;
    return report;
  }
  template <class Data, class Order>
  FitReport fit(DataLoader<Data, Order>&& loader, FitOptions options = {}) {
    return fit(loader, std::move(options));
  }

  /// Loss and accuracy over a whole loader, in evaluation mode; nothing is changed.
  template <class Data, class Order>
  Evaluation evaluate(DataLoader<Data, Order>& loader) {
    check(loader);
    Evaluation total{0, 0, 0};
    auto& execution = prepared(evaluating_);
    for (const Batch& batch : loader.epoch(0)) {
      const auto* const targets = static_cast<const TargetElement*>(batch.target);
      check(targets, batch.size);
      give(execution, batch.input, targets);
    execution.run(batch.size);
      const StepResult result = result_of(execution);
      total.loss += static_cast<double>(result.loss) * batch.size;
      total.accuracy += static_cast<double>(result.accuracy) * batch.size;
      total.samples += batch.size;
    }
    total.loss /= static_cast<double>(total.samples);
    total.accuracy /= static_cast<double>(total.samples);
    return total;
  }
  template <class Data, class Order>
  Evaluation evaluate(DataLoader<Data, Order>&& loader) {
    return evaluate(loader);
  }

  /// The network's output for a batch, in evaluation mode; valid until the next run.
  std::span<const float> predict(const InputElement* inputs, int batch) {
    auto& execution = prepared(predicting_);
    give(execution, inputs, nullptr);
    execution.run(batch);
    return {execution.result(0), static_cast<std::size_t>(Output::size * batch)};
  }

  /// Parameters and buffers to and from a safetensors file, under PyTorch's names.
  void save(const std::string& path) { weights_.save(path); }
  void load(const std::string& path) { weights_.load(path); }

  Weights<Net>& weights() { return weights_; }
  Optimizer& optimizer() { return optimizer_; }
  const float* gradients() const { return gradients_.data(); }
  typename Kernels::Executor& executor() { return *executor_; }

  /// The network's layers, and the plans of training step and evaluation; memory for a batch of one.
  std::string summary() const {
    return detail::layer_table<Net, Predicting>() + "parameters: " + detail::with_commas(Training::slots.parameter_count) +
           " (" + detail::megabytes(Training::slots.parameter_floats) + ", with gradients and " + Optimizer::name + " " +
           detail::megabytes((2 + Optimizer::state_count) * Training::slots.parameter_floats) + ")\n" +
           detail::plan_text<Training>("training step") + detail::plan_text<Evaluating>("evaluation") +
           detail::device_text<Device>(*executor_);
  }

  /// The graph of the training step in Graphviz' language.
  static std::string graph() { return dot_of<Net, Training>(); }

  /// Floats held for activations and values without a batch by the training program: its plan, times the batch.
  long activation_floats() const { return training_ ? training_->memory_floats() : 0; }

 private:
  template <class P>
  Execution<P>& prepared(std::optional<Execution<P>>& execution) {
    if (!execution) {
      Arenas& arenas = execution.emplace(*executor_).arenas();
      arenas[Arena::parameters] = weights_.parameters();
      arenas[Arena::gradients] = gradients_.data();
      arenas[Arena::buffers] = weights_.buffers();
      arenas[Arena::states] = states_.data();
    }
    return *execution;
  }

  template <class P>
  static void give(Execution<P>& execution, const void* inputs, const void* targets) {
    execution.arenas().inputs[0] = inputs;
    execution.arenas().inputs[1] = targets;
  }

  template <class P>
  static StepResult result_of(const Execution<P>& execution) {
    StepResult result{*execution.result(0), -1};
    if constexpr (Loss::has_accuracy) result.accuracy = *execution.result(1);
    return result;
  }

  /// Integer targets are classes: each must be one.
  static void check(const TargetElement* targets, int batch) {
    if (batch <= 0) fail("Trainer", "batch", "at least one sample", std::to_string(batch));
    if constexpr (std::is_same_v<TargetElement, std::int32_t>) {
      constexpr int classes = Output::info.extents[Output::rank - 1];
      for (long i = 0; i < Target::size * batch; ++i)
        if (targets[i] < 0 || targets[i] >= classes)
          fail("Trainer", "label of sample " + std::to_string(i / Target::size) + " of the batch",
               "0 to " + std::to_string(classes - 1), std::to_string(targets[i]));
    }
  }

  template <class Data, class Order>
  static void check(const DataLoader<Data, Order>& loader) {
    const SampleLayout& layout = loader.layout();
    const auto compare = [](const char* what, const TensorInfo& expected, DataKind kind, const std::vector<int>& extents) {
      const std::vector<int> wanted(expected.extents, expected.extents + expected.rank);
      const DataKind wanted_kind = expected.dtype == DType::float32 ? DataKind::float32 : DataKind::int32;
      const auto text = [](DataKind k, const std::vector<int>& e) {
        std::string result = name_of(k);
        for (const int extent : e) result += " x " + std::to_string(extent);
        return result;
      };
      if (kind != wanted_kind || extents != wanted)
        fail("Trainer", std::string("the data set's ") + what + " do not fit the network", text(wanted_kind, wanted),
             text(kind, extents));
    };
    compare("inputs", Input::info, layout.input_kind, layout.input_extents);
    compare("targets", Target::info, layout.target_kind, layout.target_extents);
  }

  Optimizer optimizer_;
  std::uint64_t seed_;
  float factor_ = 1.0f;
  std::unique_ptr<typename Kernels::Executor> executor_;
  Weights<Net> weights_;
  Buffer gradients_, states_;
  std::optional<Execution<Training>> training_;
  std::optional<Execution<Evaluating>> evaluating_;
  std::optional<Execution<Predicting>> predicting_;
};

}  // namespace tenet
