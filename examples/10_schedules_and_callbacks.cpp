// What happens beside the training steps: a learning-rate schedule, and callbacks after each step and each epoch.
// test: --images 640 --epochs 2
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"
#include "models/lenet.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet on drawn shapes with a schedule of one's own, and keeps the best epoch.",
                  {{"images", "4000", "training images"},
                   {"epochs", "6", "passes over them"},
                   {"file", "best.safetensors", "where the best epoch's parameters go"}});
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{{.learning_rate = 0.1f, .momentum = 0.9f}};
  DataLoader training{GeneratedImages::train(options.integer("images")),
                      {.batch_size = 32, .shuffle = true, .workers = 1}};
  DataLoader validation{GeneratedImages::test(1000), {.batch_size = 100}};
  std::vector<double> factors, accuracies;
  double smoothed_loss = -1, best = -1;

  FitOptions fit;
  fit.epochs = options.integer("epochs");
  // Any callable that takes a TrainingPosition and gives the factor of the learning rate. This one joins two that
  // exist.
  fit.schedule = [&](const TrainingPosition& at) {
    const float factor =
        LinearLR{.start = 0.1f, .end = 1.0f, .steps = 20}(at)*StepLR{.step_size = 3, .gamma = 0.2f}(at);
    factors.push_back(factor);
    return factor;
  };
  fit.on_step = [&](long, const StepResult& result) {
    smoothed_loss = smoothed_loss < 0 ? result.loss : 0.95 * smoothed_loss + 0.05 * result.loss;
  };
  fit.on_epoch = [&](const EpochReport& epoch) {
    const Evaluation found = trainer.evaluate(validation);
    accuracies.push_back(found.accuracy);
    const bool better = found.accuracy > best;
    if (better) {
      best = found.accuracy;
      trainer.save(options.text("file"));
    }
    std::printf("epoch %d: smoothed loss %.4f, rate %.4f, validation accuracy %.3f%s\n", epoch.epoch, smoothed_loss,
                0.1 * factors.back(), found.accuracy, better ? ", saved" : "");
  };
  fit.progress = nullptr;  // the callbacks print instead
  trainer.fit(training, fit);

  trainer.load(options.text("file"));
  const double kept = trainer.evaluate(validation).accuracy;
  std::printf("the best epoch's parameters again: %.3f\n", kept);
  options.write_json(Json().add("factors", factors).add("accuracies", accuracies).add("kept", kept).text());
  return kept == best ? 0 : 1;
}
