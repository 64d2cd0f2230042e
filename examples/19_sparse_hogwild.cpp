// A sparse model without locks: which of two offers does a reader click? A table has a row for each of 1,250,000 words,
// of which an update touches some hundreds. First one thread trains it, then two that do not wait for each other.
// test: --readers 4000 --epochs 2
#include <tenet/parallel/data_parallel.hpp>
#include <tenet/parallel/hogwild.hpp>
#include <tenet/tenet.hpp>

#include "common/json.hpp"
#include "common/options.hpp"

using namespace tenet;

constexpr int vocabulary = 1'250'000, width = 8, words = 24, of_update = 64;

struct Clicks {
  Embedding<vocabulary, width, Sparse> table;  // 10^7 parameters: without `Sparse` every update would read all of them
  Linear<width, 2> scores;
  constexpr auto forward(auto tokens) const { return scores(mean<1>(table(tokens))); }
};
using Serial = Trainer<Clicks, CrossEntropy, PlainSgd, Tokens<words>, Cpu<0, 1>>;
using Wild = Trainer<Clicks, CrossEntropy, PlainSgd, Tokens<words>, Cpu<0, 1>, DataParallel<2>, Hogwild<of_update>>;

/// Readers, each with the words that they have read, low ones more often. A word belongs to one of the offers, and more
/// of a reader's words than by chance belong to the one that is clicked.
TensorDataset<std::int32_t, std::int32_t> readers(int count, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::int32_t> read, clicked;
  for (int i = 0; i < count; ++i) {
    clicked.push_back(static_cast<std::int32_t>(random.below(2)));
    for (int k = 0; k < words; ++k) {
      const float x = random.uniform(), square = x * x;
      const bool telling = random.uniform() < 0.3f;
      const auto offer = telling ? clicked.back() : static_cast<std::int32_t>(random.below(2));
      read.push_back(2 * static_cast<std::int32_t>(square * square * square * (vocabulary / 2)) + offer);
    }
  }
  return {read, {words}, clicked};
}

/// Trains, says what came of it, and gives the loss on other readers.
Evaluation train(const char* name, auto trainer, Options& options, int batch_size) {
  const FitReport fit =
      trainer.fit(DataLoader{readers(options.integer("readers"), 1), {.batch_size = batch_size, .shuffle = true}},
                  {.epochs = options.integer("epochs"), .progress = nullptr});
  double seconds = 0;
  for (const EpochReport& epoch : fit.epochs) seconds += epoch.seconds;
  const Evaluation test = trainer.evaluate(DataLoader{readers(8000, 2), {.batch_size = 500}});
  std::printf("%-24s %6.2f s, loss %.4f, on other readers %.4f with %.1f %% right\n", name, seconds,
              fit.epochs.back().loss, test.loss, 100 * test.accuracy);
  return test;
}

int main(int argc, char** argv) {
  Options options(argc, argv, "Trains a model of 10^7 parameters by one thread, and by two without locks.",
                  {{"readers", "100000", "samples to train on"},
                   {"epochs", "4", "passes over them"},
                   {"learning-rate", "1", "of plain SGD"}});
  const PlainSgd sgd{.learning_rate = options.number("learning-rate")};
  const Evaluation one = train("one thread", Serial{sgd, 1}, options, of_update);
  // A step is a batch of many updates, which the two take in turns; they meet at its end.
  const Evaluation two = train("two threads, no locks", Wild{sgd, 1}, options, 128 * of_update);
  std::printf("loss of two over loss of one: %.4f\n", two.loss / one.loss);
  options.write_json(Json().add("one_loss", one.loss).add("two_loss", two.loss).text());
}
