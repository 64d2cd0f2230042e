// A batch that does not fit: the same training step on all of its images at once, and in micro-batches whose gradients
// are accumulated. Activations take the memory of one micro-batch; losses are the same.
// test: --images 2000 --batch-size 500
#include <tenet/parallel/micro_batches.hpp>

#include "common/classify.hpp"
#include "common/json.hpp"
#include "models/lenet.hpp"

using namespace tenet;

namespace {

template <class... Policies>
EpochReport train(const char* name, Options& options, const auto& images) {
  Trainer<LeNet, CrossEntropy, Sgd, Image<1, 28, 28>, Policies...> trainer{
      {.learning_rate = options.number("learning-rate"), .momentum = 0.9f}};
  const FitReport fit = trainer.fit(
      DataLoader{images, RandomSampler(images.size()), {.batch_size = options.integer("batch-size"), .workers = 1}},
      {.progress = stderr});
  const EpochReport& epoch = fit.epochs.back();
  std::printf("%-18s %7.1f MB of activations   loss %.4f   %.2f s\n", name,
              static_cast<double>(trainer.activation_floats()) * 4e-6, epoch.loss, epoch.seconds);
  return epoch;
}

}  // namespace

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains LeNet for an epoch, with all images of a batch at once and in micro-batches.",
                  {{"images", "0", "training images to use, 0 for all"},
                   {"batch-size", "2000", "images in a step"},
                   {"learning-rate", "0.1", "of SGD with momentum 0.9"}});
  const ExampleImages found = ExampleImages::load();
  const auto images = first(found.train, options.integer("images"));

  const double whole = train<>("the whole batch", options, images).loss;
  const double cut = train<MicroBatches<10>>("10 micro-batches", options, images).loss;
  options.write_json(Json().add("images", images.size()).add("loss_whole", whole).add("loss_cut", cut).text());
}
