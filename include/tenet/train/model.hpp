#pragma once

#include <memory>
#include <span>
#include <string>
#include <tenet/train/given.hpp>
#include <tenet/train/policies.hpp>
#include <tenet/train/programs.hpp>
#include <tenet/train/weights.hpp>

namespace tenet {

/// What `Model`, an alias, names.
template <class Net, class... Tags>
class ModelOf {
 public:
  using Chosen = Policies<Tags...>;
  using Input = typename Chosen::Input;
  using Device = typename Chosen::Device;
  using Kernels = typename Chosen::Kernels;
  using Inference = typename Chosen::template ProgramOf<InferenceProgram<Net, Input, Kernels>>;
  using Running = typename Chosen::template ExecutionOf<Inference>;
  using Output = typename InferenceProgram<Net, Input, Kernels>::Output;

  /// Parameters as their layers initialise them, for this seed.
  explicit ModelOf(std::uint64_t seed = 0) : weights_(seed), execution_(devices_) {
    execution_.bind(Arena::parameters, weights_.parameters());
    execution_.bind(Arena::buffers, weights_.buffers());
  }
  /// Parameters from a safetensors file, under PyTorch's names.
  explicit ModelOf(const std::string& path) : ModelOf() { weights_.load(path); }

  /// The output for a batch of inputs that lie one after the other: batch x Output::size numbers, valid until the next
  /// call. Nothing is allocated after the first call with the largest batch.
  std::span<const float> operator()(const typename Input::Element* inputs, int batch = 1) {
    execution_.use_weights(weights_.version());
    execution_.give(0, inputs);
    execution_.run(batch);
    return {execution_.result(0), static_cast<std::size_t>(Output::size * (Output::batched ? batch : 1))};
  }

  /// The same in the memory of the model's device, where the output stays: there, until the next call. What writes the
  /// inputs has ended, or was given to `executor()`, or, of a `DeviceArray`, was queued.
  template <class Inputs>
    requires detail::TakenThere<ModelOf, Inputs>
  OnDevice<float, Device> operator()(const Inputs& inputs, int batch = 1) {
    static_assert(std::is_same_v<typename Chosen::Strategy, Single>, "OnDevice: of a model with one device");
    detail::check_size("inputs", inputs, Input::size, batch);
    detail::await_queued(inputs);
    execution_.use_weights(weights_.version());
    return detail::run_there<Output, Device>(execution_, detail::given_part_of<Chosen>(inputs), batch);
  }
  template <class Inputs>
    requires detail::NotTaken<ModelOf, Inputs>
  detail::Explained<OnDevice<float>, ModelOf, Inputs> operator()(const Inputs&, int = 1);

  Weights<Net>& weights() { return weights_; }
  /// The device's; of several, the first one's.
  typename Kernels::Executor& executor() { return devices_.executor(); }

 private:
  typename Chosen::Devices devices_;
  Weights<Net> weights_;
  Running execution_;
};

namespace detail {

/// Stands in for the model of a network that has a mistake: it takes all calls, so that nothing follows the message.
template <class Net>
struct BrokenModel {
  explicit BrokenModel(std::uint64_t = 0) {}
  explicit BrokenModel(const std::string&) {}
  std::span<const float> operator()(const auto&, int = 1) { return {}; }
  Weights<Net>& weights();
};

}  // namespace detail

/// A network for inference: its parameters and one compiled program, without gradients, optimizer or trainer.
///
///     Model<LeNet, Image<1, 28, 28>> model("lenet.safetensors");
///     std::span<const float> scores = model(pixels, batch);
template <class Net, class... Tags>
using Model =
    typename decltype(detail::unless_broken<ModelOf<Net, Tags...>, detail::BrokenModel<Net>, Net, Tags...>())::type;

}  // namespace tenet
