#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <tenet/tenet.hpp>

#include "serve.hpp"

/// What programs are given, (train|infer) BATCH FOLDER [bf16], and what the folder holds: weights.safetensors,
/// inputs.bin (float, for tokens int32), targets.bin (int32) and learning_rate.bin. Nothing is read before the first
/// request, so that the memory of the program alone can be measured. The number of threads is that of
/// TENET_NUM_THREADS.
struct Arguments {
  std::string kind, folder;
  int batch = 0;
  bool mixed = false;  ///< in mixed precision

  Arguments(int argc, char** argv) {
    mixed = argc == 5 && std::string(argv[4]) == "bf16";
    if (argc != 4 && !mixed) throw std::runtime_error("usage: program (train|infer) BATCH FOLDER [bf16]");
    kind = argv[1];
    batch = std::atoi(argv[2]);
    folder = std::string(argv[3]) + "/";
  }
};

/// Numbers from a file in memory that a loader would use, for steps that are to find them there.
template <class T>
class BatchNumbers {
 public:
  BatchNumbers() = default;
  BatchNumbers(const std::string& path, const tenet::BatchMemory& memory) {
    const std::vector<T> numbers = numbers_of<T>(path);
    memory_ = {static_cast<T*>(memory.allocate(numbers.size() * sizeof(T))), memory.release};
    std::copy(numbers.begin(), numbers.end(), memory_.get());
  }
  const T* data() const { return memory_.get(); }

 private:
  std::unique_ptr<T, void (*)(void*)> memory_{nullptr, nullptr};
};

/// A loader that gives one batch again and again, as it lies: for trainers that start a step before the last one's
/// result is there.
template <class Trainer>
struct SameBatch {
  const typename Trainer::InputElement* inputs;
  const typename Trainer::TargetElement* targets;
  int batch;
  long count;

  long size() const { return count; }
  int dataset() const { return 0; }
  static tenet::SampleLayout layout() {
    const auto extents = [](const tenet::TensorInfo& type) {
      return std::vector<int>(type.extents, type.extents + type.rank);
    };
    const auto kind = [](const tenet::TensorInfo& type) {
      return type.dtype == tenet::DType::int32 ? tenet::DataKind::int32 : tenet::DataKind::float32;
    };
    const tenet::TensorInfo &input = Trainer::Input::info, &target = Trainer::Target::info;
    return {extents(input), kind(input), extents(target), kind(target)};
  }
  std::vector<tenet::Batch> epoch(long) const {
    tenet::Batch one;
    one.input = inputs;
    one.target = targets;
    one.size = batch;
    return std::vector<tenet::Batch>(static_cast<std::size_t>(count), one);
  }
};

/// Serves training steps; checked are the losses of three. Without momentum, as the peers.
template <class Net, class Input, class Optimizer = tenet::PlainSgd, class... Policies>
int serve_training(const Arguments& given, const tenet::BatchMemory& memory = {}) {
  using Trainer = tenet::Trainer<Net, tenet::CrossEntropy, Optimizer, Input, tenet::UpdateInBackward, Policies...>;
  BatchNumbers<typename Input::Element> inputs;
  BatchNumbers<std::int32_t> targets;
  std::unique_ptr<Trainer> trainer;
  const auto step = [&] { return trainer->step(inputs.data(), targets.data(), given.batch).loss; };
  const auto check = [&] {
    inputs = {given.folder + "inputs.bin", memory};
    targets = {given.folder + "targets.bin", memory};
    const float rate = numbers_of<float>(given.folder + "learning_rate.bin").at(0);
    trainer = std::make_unique<Trainer>();
    trainer->load(given.folder + "weights.safetensors");
    trainer->optimizer().learning_rate = rate;
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(static_cast<double>(step()));
    trainer->optimizer().learning_rate = rate * 1e-3f;  // timing is not to wear the batch out
    return losses;
  };
  return serve(
      {{"ours", check, [&](long calls) {
          if constexpr (Trainer::runs_ahead) {
            const auto begin = std::chrono::steady_clock::now();
            trainer->fit(SameBatch<Trainer>{inputs.data(), targets.data(), given.batch, calls}, {.progress = nullptr});
            return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
          } else {
            return seconds_of(step, calls);
          }
        }}});
}

/// Serves inference; checked are the first outputs.
template <class Net, class Input, class... Policies>
int serve_inference(const Arguments& given, const tenet::BatchMemory& memory = {}) {
  using Model = tenet::Model<Net, Input, Policies...>;
  BatchNumbers<typename Input::Element> inputs;
  std::unique_ptr<Model> model;
  [[maybe_unused]] volatile float sink = 0;
  const auto run = [&] { sink = (*model)(inputs.data(), given.batch)[0]; };
  const auto check = [&] {
    inputs = {given.folder + "inputs.bin", memory};
    model = std::make_unique<Model>(given.folder + "weights.safetensors");
    const std::span<const float> outputs = (*model)(inputs.data(), given.batch);
    return std::vector<double>(outputs.begin(), outputs.begin() + std::min<long>(std::ssize(outputs), 640));
  };
  return serve({{"ours", check, [&](long calls) { return seconds_of(run, calls); }}});
}

/// Serves a network in one precision, or in the one that is asked for. `Policies` are those of training steps.
template <class Net, class Input, class Optimizer = tenet::PlainSgd, class Precision = tenet::Float32,
          class... Policies>
int serve_network(const Arguments& given) {
  return given.kind == "train" ? serve_training<Net, Input, Optimizer, Precision, Policies...>(given)
                               : serve_inference<Net, Input, Precision>(given);
}
template <class Net, class Input, class Optimizer = tenet::PlainSgd, class... Policies>
int serve_precisions(int argc, char** argv) {
  const Arguments given(argc, argv);
  return given.mixed ? serve_network<Net, Input, Optimizer, tenet::BFloat16, Policies...>(given)
                     : serve_network<Net, Input, Optimizer, tenet::Float32, Policies...>(given);
}
