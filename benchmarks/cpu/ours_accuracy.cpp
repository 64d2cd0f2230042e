// ResNet-18 on the first IMAGES (0: all) of Fashion-MNIST, evaluated after every epoch: program IMAGES EPOCHS ACCURACY,
// where ACCURACY is the one whose time is wanted. The last line of the output is JSON; seconds are those of training,
// without evaluation.
#include "../../examples/common/images.hpp"
#include "../../examples/models/resnet18.hpp"

using namespace tenet;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const long images = std::atol(argv[1]);
  const int epochs = std::atoi(argv[2]);
  const double wanted = std::atof(argv[3]);
  const ByteImages train = FashionMnist::train({}, {.normalize = true}),
                   test = FashionMnist::test({}, {.normalize = true});
  Trainer<ResNet18<>, CrossEntropy, Sgd, Image<1, 28, 28>> trainer{
      {.learning_rate = 0.02f, .momentum = 0.9f, .weight_decay = 5e-4f}};
  DataLoader batches{first(train, images), {.batch_size = 32, .shuffle = true, .workers = 1, .drop_last = true}};

  std::string list;
  double seconds = 0, reached = -1;
  FitOptions fit;
  fit.epochs = epochs;
  fit.schedule = CosineAnnealingLR{};
  fit.progress = nullptr;
  fit.on_epoch = [&](const EpochReport& epoch) {
    seconds += epoch.seconds;
    const double accuracy = trainer.evaluate(DataLoader{first(test, images), {.batch_size = 256}}).accuracy;
    if (accuracy >= wanted && reached < 0) reached = seconds;
    std::fprintf(stderr, "epoch %d: %.1f s, loss %.4f, test accuracy %.4f\n", epoch.epoch, epoch.seconds, epoch.loss,
                 accuracy);
    char line[128];
    std::snprintf(line, sizeof line, "%s{\"seconds\": %.3f, \"accuracy\": %.4f}", list.empty() ? "" : ", ",
                  epoch.seconds, accuracy);
    list += line;
  };
  trainer.fit(batches, fit);
  std::printf("{\"epochs\": [%s], \"reached\": %.3f}\n", list.c_str(), reached);
}
