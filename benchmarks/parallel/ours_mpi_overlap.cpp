// How much of the communication of ranks under mpirun hides behind what they compute: the share of the time in which
// gradients move that rank 0's device computes, as its timeline has it. Rank 0 prints {"network, samples": share, …}.
#include <cstdio>
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/train/timeline.hpp>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"

using namespace tenet;

namespace {

template <class Net, class... Policies>
double hidden_share(int batch, int steps) {
  using Images = Image<1, 28, 28>;
  Trainer<Net, CrossEntropy, Sgd, Images, Cpu<0, 1>, Distributed<Mpi>, Timeline<>, Policies...> trainer{
      {.learning_rate = 0.001f, .momentum = 0.9f}};
  std::vector<float> images(static_cast<std::size_t>(Images::size * batch));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 7919 % 1000) * 1e-3f;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  for (int step = 0; step < steps; ++step) trainer.step(images.data(), labels.data(), batch);
  return trainer.timeline().overlap().hidden_share();
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  const double resnet18 = hidden_share<ResNet18<>>(32, 12), lenet = hidden_share<LeNet, BucketBytes<32768>>(256, 200);
  if (mpi.rank() == 0)
    std::printf("{\"ResNet-18, 32 samples\": %.4f, \"LeNet, 256 samples, buckets of 32 KB\": %.4f}\n", resnet18, lenet);
}
