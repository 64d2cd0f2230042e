// Parts of a network that do not depend on each other run at once, on two logical devices: the tag `InterOpParallel<2>`
// is all that says so. Which parts these are, the compiler reads from the graph; the bits are those of one device.
// test: --steps 5
#include <algorithm>
#include <chrono>
#include <cstring>
#include <tenet/parallel/inter_op_parallel.hpp>
#include <tenet/tenet.hpp>

#include "common/images.hpp"
#include "common/json.hpp"
#include "common/options.hpp"

using namespace tenet;

/// What a tower makes of an image: `kernel` x `kernel` windows, then 3 x 3 ones.
template <int kernel>
struct Tower : Sequential<Conv2d<1, 32, kernel, Padding<kernel / 2>>, ReLU, MaxPool2d<2>, Conv2d<32, 64, 3, Padding<1>>,
                          ReLU, Conv2d<64, 64, 3, Padding<1>>, ReLU, GlobalAvgPool2d> {};

/// Two towers look at the image, one finely and one coarsely; a linear layer reads what both have found.
struct TwoTowers {
  Tower<3> fine;
  Tower<5> coarse;
  Linear<128, 10> head;
  constexpr auto forward(auto x) const { return head(concatenate<1>(fine(x), coarse(x))); }
};

constexpr int batch = 32;

template <class... Strategy>
using Learner = Trainer<TwoTowers, CrossEntropy, Sgd, Image<1, 28, 28>, Cpu<0, 1>, Strategy...>;

/// The quickest of some training steps, in seconds, on the first images.
double train(auto& trainer, const ByteImages& images, int steps) {
  std::vector<float> inputs(784 * batch);
  std::vector<std::int32_t> labels(batch);
  double best = 1e9;
  for (int step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < batch; ++i)
      images.read(static_cast<std::uint32_t>((batch * step + static_cast<int>(i)) % images.size()), &inputs[784 * i],
                  &labels[i]);
    const auto begin = std::chrono::steady_clock::now();
    trainer.step(inputs.data(), labels.data(), batch);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains a network of two towers on one device and on two.",
                  {{"steps", "60", "training steps"}});
  const ExampleImages images = ExampleImages::load();
  Learner<> one{{.learning_rate = 0.05f, .momentum = 0.9f}};
  Learner<InterOpParallel<2>> two{{.learning_rate = 0.05f, .momentum = 0.9f}};
  std::fputs(two.summary().c_str(), stderr);

  const double alone = train(one, images.train, options.integer("steps"));
  const double together = train(two, images.train, options.integer("steps"));
  const bool same = std::memcmp(one.weights().parameters(), two.weights().parameters(),
                                sizeof(float) * one.weights().table.parameter_floats) == 0;
  std::printf("a step on one device: %.2f ms, on two: %.2f ms, %.2f of it; the same bits: %s\n", 1e3 * alone,
              1e3 * together, together / alone, same ? "yes" : "NO");
  options.write_json(Json().add("same", same).add("one_seconds", alone).add("two_seconds", together).text());
  return same ? 0 : 1;
}
