// Training steps on one core, whole and in micro-batches, on two logical devices, and of half the batch: on one core,
// and of two trainers that have nothing in common beside each other on two, which is what these cores can do.
// Program NETWORK BATCH FOLDER.
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/micro_batches.hpp>

#include "../../examples/models/resnet18.hpp"
#include "../network.hpp"

using namespace tenet;

struct Mlp : Sequential<Linear<784, 256>, ReLU, Linear<256, 10>> {};
struct Wide
    : Sequential<Linear<784, 2048>, ReLU, Linear<2048, 2048>, ReLU, Linear<2048, 2048>, ReLU, Linear<2048, 10>> {};
struct Small : Sequential<Linear<32, 64>, ReLU, Linear<64, 64>, ReLU, Linear<64, 10>> {};

/// One trainer, and the samples in the folder.
template <class Trainer>
struct Steps {
  std::string folder;
  int batch;
  std::vector<float> inputs{};
  std::vector<std::int32_t> targets{};
  std::unique_ptr<Trainer> trainer{};

  float step() { return trainer->step(inputs.data(), targets.data(), batch).loss; }
  std::vector<double> check() {
    inputs = numbers_of<float>(folder + "inputs.bin");
    targets = numbers_of<std::int32_t>(folder + "targets.bin");
    const float rate = numbers_of<float>(folder + "learning_rate.bin").at(0);
    trainer = std::make_unique<Trainer>();
    trainer->load(folder + "weights.safetensors");
    trainer->optimizer().learning_rate = rate;
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) losses.push_back(static_cast<double>(step()));
    trainer->optimizer().learning_rate = rate * 1e-3f;  // timing is not to wear the batch out
    return losses;
  }
};

/// The same samples for two trainers at once.
template <class One, class Other>
struct StepsApart {
  Steps<One> one;
  Steps<Other> other;

  void step() {
    const auto begin = [](auto& steps) {
      return steps.trainer->step_async(steps.inputs.data(), steps.targets.data(), steps.batch);
    };
    PendingStep first = begin(one), second = begin(other);
    first.get();
    second.get();
  }
  std::vector<double> check() {
    other.check();
    return one.check();
  }
};

template <class Steps>
Case case_of(const char* name, Steps& steps) {
  return {name, [&] { return steps.check(); },
          [&](long calls) {
            auto step = [&] { steps.step(); };
            return seconds_of(step, calls);
          }};
}

using Core = Cpu<0, 1>;

/// Without the other ways to cut a batch and to add up gradients.
template <class Net, class Input>
int serve_two(int batch, const std::string& folder) {
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, UpdateInBackward>> one{folder, batch};
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, DataParallel<2>>> direct{folder, batch};
  return serve({case_of("one", one), case_of("direct", direct)});
}

template <class Net, class Input>
int serve_steps(int batch, const std::string& folder) {
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, UpdateInBackward>> one{folder, batch},
      half{folder, batch / 2};
  StepsApart<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, UpdateInBackward>,
             Trainer<Net, CrossEntropy, PlainSgd, Input, Cpu<1, 1>, UpdateInBackward>>
      apart{{folder, batch / 2}, {folder, batch / 2}};
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, DataParallel<2>>> direct{folder, batch};
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, DataParallel<2>, Ring>> ring{folder, batch};
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, DataParallel<2>, Reproducible>> reproducible{folder, batch};
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, MicroBatches<4>>> micro{folder, batch};
  Steps<Trainer<Net, CrossEntropy, PlainSgd, Input, Core, DataParallel<2>, SyncBatchNorm>> synchronised{folder, batch};
  return serve({case_of("one", one), case_of("half", half), case_of("apart", apart), case_of("direct", direct),
                case_of("ring", ring), case_of("reproducible", reproducible), case_of("micro", micro),
                case_of("synchronised", synchronised)});
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string network = argv[1], folder = std::string(argv[3]) + "/";
  const int batch = std::atoi(argv[2]);
  if (network == "ResNet-18") return serve_steps<ResNet18<>, Image<1, 28, 28>>(batch, folder);
  if (network == "MLP 784-256-10") return serve_steps<Mlp, Features<784>>(batch, folder);
  if (network == "MLP 784-2048-2048-2048-10") return serve_two<Wide, Features<784>>(batch, folder);
  return serve_steps<Small, Features<32>>(batch, folder);
}
