// What a training step costs the host: from its call until all is started, with another learning rate and other samples
// each time; these lie on the GPU. Waiting for the GPU is not counted.
#include <chrono>

#include "../../examples/models/lenet.hpp"
#include "gpu.hpp"

using namespace tenet;

struct Mlp : Sequential<Linear<784, 256>, ReLU, Linear<256, 10>> {};

/// A training program as a trainer runs it, without the loss that it waits for.
template <class Net, class Input>
class Steps {
  using Learner = Trainer<Net, CrossEntropy, Sgd, Input, Gpu, TensorFloat32>;
  using Program = typename Learner::Training;
  using Executor = typename Program::Kernels::Executor;
  static constexpr int batch = 256;

 public:
  double seconds(long calls) {
    using Clock = std::chrono::steady_clock;
    if (execution_ == nullptr) prepare();
    Clock::duration sum{};
    for (long i = 0; i < calls; ++i) {
      const auto begin = Clock::now();
      const auto scalars = Sgd{.learning_rate = 1e-6f * static_cast<float>(i % 7)}.scalars(i);
      execution_->set_scalars(scalars.data(), static_cast<std::uint64_t>(i));
      execution_->give_there(0, inputs_.data() + i % 2 * batch * Input::size);
      execution_->run(batch);
      sum += Clock::now() - begin;
      loss_ = *execution_->result(0);
    }
    return std::chrono::duration<double>(sum).count();
  }
  double loss() {
    seconds(4);
    return static_cast<double>(loss_);
  }

 private:
  void prepare() {
    Executor& executor = devices_.executor();
    inputs_.grow(executor, 2 * batch * Input::size, "inputs");  // zeros
    targets_.grow(executor, batch, "labels");
    execution_ = std::make_unique<ResidentExecution<Program>>(devices_);
    execution_->bind(Arena::parameters, weights_.parameters());
    execution_->bind(Arena::buffers, weights_.buffers());
    execution_->bind(Arena::gradients, gradients_.data());
    execution_->bind(Arena::states, nullptr);
    execution_->use_weights(1);
    execution_->give_there(1, targets_.data());
  }

  ResidentDevice<Gpu, typename Program::Kernels> devices_;
  Weights<Net> weights_;
  Buffer gradients_{Program::slots.parameter_floats};
  DeviceBuffer<Executor> inputs_, targets_;
  std::unique_ptr<ResidentExecution<Program>> execution_;
  float loss_ = 0;
};

int main() {
  Steps<Mlp, Features<784>> mlp;
  Steps<LeNet, Image<1, 28, 28>> lenet;
  return serve(
      {{"MLP 784-256-10", [&] { return std::vector<double>{mlp.loss()}; },
        [&](long calls) { return mlp.seconds(calls); }},
       {"LeNet", [&] { return std::vector<double>{lenet.loss()}; }, [&](long calls) { return lenet.seconds(calls); }}});
}
