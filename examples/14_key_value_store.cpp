// A key-value store alone: several processes look at their share of the images, and add what they have found to the
// mean image of each class, whenever they have found something. No network, no steps, nobody waits for another.
// ranks: 2
// test: --images 3000 --draw 8
#include <algorithm>
#include <tenet/comm/mpi.hpp>
#include <tenet/parallel/key_value_store.hpp>

#include "common/images.hpp"
#include "common/options.hpp"

using namespace tenet;

constexpr std::size_t pixels = 784;
/// Of a class: the sum of its images, and behind that their number.
using Sums = std::vector<float>;

/// An image of numbers from 0 to 1, a letter for 2 x 1 of them.
void draw(const Sums& sums) {
  for (std::size_t row = 0; row < 28; row += 2) {
    for (std::size_t column = 0; column < 28; ++column) {
      const float mean = (sums[28 * row + column] + sums[28 * row + 28 + column]) / (2 * std::max(sums[pixels], 1.0f));
      std::putchar(" .:-=+*#%@"[std::min(9, static_cast<int>(10 * mean))]);
    }
    std::putchar('\n');
  }
}

int main(int argc, char** argv) {
  MpiEnvironment mpi(argc, argv);
  Options options(argc, argv, "Finds the mean image of each class on all ranks that mpirun starts.",
                  {{"images", "0", "training images to look at, 0 for all"},
                   {"block", "500", "images that a rank looks at before it tells the others"},
                   {"draw", "0", "the class to draw"}});
  const ExampleImages images = ExampleImages::load();
  const auto all = first(images.train, options.integer("images"));
  const int block = options.integer("block"), drawn = options.integer("draw");
  if (block < 1 || drawn < 0 || drawn > 9)
    fail("key_value_store", "options", "--block 1 or more, --draw 0 to 9", "others");

  // A key for each class. Every push is added to the value when it comes.
  KeyValueStore store(Mpi::connect(), {.consistency = Consistency::asynchronous(),
                                       .updater = [](const Pushed& pushed, std::span<float> value) {
                                         for (std::size_t i = 0; i < value.size(); ++i) value[i] += pushed.values[i];
                                       }});
  const Sums nothing(pixels + 1);
  if (mpi.rank() == 0)
    for (int label = 0; label < 10; ++label) store.assign(label, nothing).wait();
  store.synchronize();

  std::vector<Sums> found(10, nothing), sent(10, nothing);
  std::vector<PendingRequest> pushes(10);
  const auto tell = [&] {
    for (std::size_t label = 0; label < 10; ++label) {
      pushes[label].wait();  // until then the memory of the last push is the store's
      std::swap(found[label], sent[label]);
      pushes[label] = store.push(static_cast<int>(label), sent[label]);
      std::fill(found[label].begin(), found[label].end(), 0.0f);
    }
  };
  float image[pixels];
  std::int32_t label = 0;
  int looked_at = 0;
  for (long i = mpi.rank(); i < all.size(); i += mpi.size()) {
    all.read(i, image, &label);
    Sums& sums = found[static_cast<std::size_t>(label)];
    for (std::size_t p = 0; p < pixels; ++p) sums[p] += image[p];
    ++sums[pixels];
    if (++looked_at % block == 0) tell();
  }
  tell();
  store.synchronize();
  if (mpi.rank() != 0) return 0;

  long count = 0;
  for (int of = 0; of < 10; ++of) {
    Sums sums(pixels + 1);
    store.pull(of, sums).wait();
    count += static_cast<long>(sums[pixels]);
    double sum = 0;
    for (std::size_t p = 0; p < pixels; ++p) sum += sums[p];
    std::printf("class %d: %5.0f images, mean brightness %.3f\n", of, static_cast<double>(sums[pixels]),
                sum / pixels / std::max(1.0, static_cast<double>(sums[pixels])));
    if (of == drawn) draw(sums);
  }
  std::printf("%d ranks: %ld of %ld images of %s\n", mpi.size(), count, all.size(), images.name);
  options.write_json("{\"images\": " + std::to_string(count) + ", \"ranks\": " + std::to_string(mpi.size()) + "}");
  return count == all.size() ? 0 : 1;
}
