// Imperative mode: the same forward on real tensors, line by line; each line may print, branch, or hold a breakpoint.
#include <cmath>
#include <iostream>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"

using namespace tenet;

struct Net {
  Linear<784, 64> hidden;
  Linear<64, 10> scores;
  constexpr auto forward(auto x) const { return scores(relu(hidden(flatten(x)))); }
};

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains one network in both modes side by side.",
                  {{"steps", "50", "training steps"}, {"batch-size", "32", "images in a step"}});
  const int batch_size = options.integer("batch-size"), steps = options.integer("steps");
  DataLoader loader{GeneratedImages::train(long{batch_size} * steps), {.batch_size = batch_size, .shuffle = true}};

  const Sgd sgd{.learning_rate = 0.05f, .momentum = 0.9f};
  Imperative<Net> net(1);                                             // the seed fixes the first weights,
  Trainer<Net, CrossEntropy, Sgd, Image<1, 28, 28>> trainer(sgd, 1);  // so both begin with the same

  float largest_difference = 0, first_loss = 0, last_loss = 0;
  for (const Batch& batch : loader.epoch(0)) {
    const auto x = net.tensor<Image<1, 28, 28>>(batch.inputs().data(), batch.size);
    const auto labels = net.tensor<BatchedInt<>>(batch.targets().data(), batch.size);

    if (batch.index == 0) {  // any part of the network may be called on its own
      const auto hidden = relu(net.network().hidden(flatten(x)));
      std::cout << "hidden " << hidden << "\nmean   " << mean(hidden) << '\n';
    }
    const auto loss = cross_entropy(net(x), labels);
    last_loss = loss.item();
    if (batch.index == 0) first_loss = last_loss;
    if (std::isnan(last_loss)) break;  // a decision that depends on values
    net.backward(loss);
    net.step(sgd);

    const float compiled = trainer.step(batch.inputs().data(), batch.targets().data(), batch.size).loss;
    largest_difference = std::fmax(largest_difference, std::fabs(compiled - last_loss));
  }
  std::printf("loss %.4f, after %d steps %.4f; largest difference from the compiled step %.2g\n", first_loss, steps,
              last_loss, largest_difference);
  options.write_json(Json()
                         .add("first_loss", first_loss)
                         .add("last_loss", last_loss)
                         .add("largest_difference", largest_difference)
                         .text());
  return last_loss < first_loss && largest_difference < 1e-4f ? 0 : 1;
}
