// How much of the communication of ranks under mpirun hides behind what they compute, by MPI's messages and in memory
// that they share: of the time in which gradients move, or are waited for, the part in which rank 0's device computes,
// as its timeline has it; and of the time in which they move alone. Besides, what it adds to a step: steps of ranks
// that exchange nothing stand beside the others, in turns, as the machine is a tenth quicker or slower from one second
// to the next. Of more ranks than processors that alone tells what is lost: where one waits, another one computes on
// its processor.
//
// Rank 0 prints {"network, samples": {"messages": [share hidden, seconds a step that are not, share hidden of moving,
// seconds a step that are not, seconds a step in which gradients move or are waited for, seconds of a step, by how many
// it is longer than without exchanging], "shared": the same}, …}.
#include <chrono>
#include <cstdio>
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/distributed.hpp>
#include <tenet/parallel/local_sgd.hpp>
#include <tenet/train/timeline.hpp>

#include "../../examples/models/lenet.hpp"
#include "../../examples/models/resnet18.hpp"
#include "median.hpp"

using namespace tenet;

namespace {

/// Turns of `steps` steps each with exchanging and without.
template <class World, class Net, class... Policies>
std::string overlap(int batch, int turns, int steps) {
  using Images = Image<1, 28, 28>;
  Trainer<Net, CrossEntropy, Sgd, Images, Cpu<0, 1>, Distributed<World>, Timeline<>, Policies...> trainer{
      {.learning_rate = 0.001f, .momentum = 0.9f}};
  Trainer<Net, CrossEntropy, Sgd, Images, Cpu<0, 1>, Distributed<World>, LocalSgd<1'000'000>> alone{
      {.learning_rate = 0.001f, .momentum = 0.9f}};
  std::vector<float> images(static_cast<std::size_t>(Images::size * batch));
  std::vector<std::int32_t> labels(static_cast<std::size_t>(batch));
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 7919 % 1000) * 1e-3f;
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 10);
  const boost::mpi::communicator ranks;
  const auto seconds_of_step = [&](auto& trains) {  // until all ranks have made theirs
    ranks.barrier();
    const auto begin = std::chrono::steady_clock::now();
    for (int step = 0; step < steps; ++step) trains.step(images.data(), labels.data(), batch);
    ranks.barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / steps;
  };
  seconds_of_step(alone);
  std::vector<double> seconds, longer;
  for (int turn = 0; turn < turns; ++turn) {
    const double with = seconds_of_step(trainer);
    seconds.push_back(with);
    longer.push_back(with - seconds_of_step(alone));
  }
  const CommunicationOverlap found = trainer.timeline().overlap();
  const int all = turns * steps;
  char text[160];
  std::snprintf(text, sizeof text, "[%.4f, %.7f, %.4f, %.7f, %.7f, %.7f, %.7f]", found.hidden_share(),
                (found.seconds - found.hidden_seconds) / all, found.hidden_share_of_moving(),
                (found.moving_seconds - found.hidden_moving_seconds) / all, found.seconds / all, median(seconds),
                median(longer));
  return text;
}

template <class... Policies>
std::string overlaps(bool shares, int batch, int turns, int steps) {
  std::string text = "{\"messages\": " + overlap<MpiMessages, Policies...>(batch, turns, steps);
  if (shares) text += ", \"shared\": " + overlap<Mpi, Policies...>(batch, turns, steps);
  return text + "}";
}

}  // namespace

/// program [messages]: by messages alone, LeNet alone.
int main(int argc, char** argv) {
  const MpiEnvironment mpi(argc, argv);
  const bool shares = argc == 1;
  std::string found =
      "\"LeNet, 256 samples, buckets of 32 KB\": " + overlaps<LeNet, BucketBytes<32768>>(shares, 256, 20, 10);
  if (shares) found = "\"ResNet-18, 32 samples\": " + overlaps<ResNet18<>>(shares, 32, 6, 2) + ", " + found;
  if (mpi.rank() == 0) std::printf("{%s}\n", found.c_str());
}
