// How much of the communication of ranks under mpirun hides behind what they compute, by MPI's messages and in memory
// that they share: of the time in which gradients move, or are waited for, the part in which rank 0's device computes,
// as its timeline has it; and of the time in which they move alone. Rank 0 prints {"network, samples": {"messages":
// [share hidden, seconds a step that are not, share hidden of moving, seconds a step that are not], "shared": the
// same}, …}.
#include <cstdio>
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/train/timeline.hpp>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"

using namespace tenet;

namespace {

template <class World, class Net, class... Policies>
std::string overlap(int batch, int steps) {
  using Images = Image<1, 28, 28>;
  Trainer<Net, CrossEntropy, Sgd, Images, Cpu<0, 1>, Distributed<World>, Timeline<>, Policies...> trainer{
      {.learning_rate = 0.001f, .momentum = 0.9f}};
  std::vector<float> images(static_cast<std::size_t>(Images::size * batch));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 7919 % 1000) * 1e-3f;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  for (int step = 0; step < steps; ++step) trainer.step(images.data(), labels.data(), batch);
  const CommunicationOverlap found = trainer.timeline().overlap();
  char text[96];
  std::snprintf(text, sizeof text, "[%.4f, %.7f, %.4f, %.7f]", found.hidden_share(),
                (found.seconds - found.hidden_seconds) / steps, found.hidden_share_of_moving(),
                (found.moving_seconds - found.hidden_moving_seconds) / steps);
  return text;
}

template <class... Policies>
std::string overlaps(int batch, int steps) {
  const std::string messages = overlap<MpiMessages, Policies...>(batch, steps);
  return "{\"messages\": " + messages + ", \"shared\": " + overlap<Mpi, Policies...>(batch, steps) + "}";
}

}  // namespace

int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  const std::string resnet18 = overlaps<ResNet18<>>(32, 12), lenet = overlaps<LeNet, BucketBytes<32768>>(256, 200);
  if (mpi.rank() == 0)
    std::printf("{\"ResNet-18, 32 samples\": %s, \"LeNet, 256 samples, buckets of 32 KB\": %s}\n", resnet18.c_str(),
                lenet.c_str());
}
