#include "tenet/data/data_loader.hpp"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "tenet/data/transform.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

TensorDataset<> numbers(int count) {
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 3; ++k) inputs.push_back(static_cast<float>(i * 3 + k));
    targets.push_back(i);
  }
  return {inputs, {3}, targets};
}

struct Copy {
  std::vector<int> sizes;
  std::vector<float> inputs;
  std::vector<std::int32_t> targets;
  std::vector<long> samples;
  bool operator==(const Copy&) const = default;
};

template <class Loader>
Copy copy_of(Loader& loader, long epoch) {
  Copy copy;
  for (const Batch& batch : loader.epoch(epoch)) {
    CHECK(batch.index == static_cast<long>(copy.sizes.size()));
    CHECK(batch.epoch == epoch);
    copy.sizes.push_back(batch.size);
    copy.inputs.insert(copy.inputs.end(), batch.inputs().begin(), batch.inputs().end());
    copy.targets.insert(copy.targets.end(), batch.targets().begin(), batch.targets().end());
    copy.samples.insert(copy.samples.end(), batch.samples, batch.samples + batch.size);
  }
  return copy;
}

// What a sample throws is chosen by its index.
struct Faulty {
  SampleLayout layout_{{}, DataKind::int32};
  std::shared_ptr<std::atomic<bool>> broken = std::make_shared<std::atomic<bool>>(true);
  long size() const { return 40; }
  const SampleLayout& layout() const { return layout_; }
  void read(long index, void* input, void* target) const {
    if (*broken && index == 17) throw Error("pixel missing");
    if (*broken && index == 30) throw 42;
    *static_cast<std::int32_t*>(input) = static_cast<std::int32_t>(index);
    *static_cast<std::int32_t*>(target) = 0;
  }
};

struct Slow {
  SampleLayout layout_{{}, DataKind::int32};
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
  long size() const { return 10000; }
  const SampleLayout& layout() const { return layout_; }
  void read(long index, void* input, void* target) const {
    usleep(static_cast<unsigned>(200 + index % 7 * 100));
    ++*reads;
    *static_cast<std::int32_t*>(input) = *static_cast<std::int32_t*>(target) = static_cast<std::int32_t>(index);
  }
};

std::atomic<int> allocations = 0, releases = 0;
constexpr BatchMemory counting_memory = {[](std::size_t bytes) {
                                           ++allocations;
                                           return BatchMemory{}.allocate(bytes);
                                         },
                                         [](void* memory) {
                                           ++releases;
                                           BatchMemory{}.release(memory);
                                         }};

}  // namespace

TEST_CASE("a loader in order gives every sample") {
  DataLoader loader{numbers(10), {.batch_size = 4}};
  CHECK(loader.size() == 3);
  CHECK(loader.samples() == 10);
  CHECK(loader.layout() == numbers(1).layout());
  const Copy copy = copy_of(loader, 0);
  CHECK(copy.sizes == std::vector<int>{4, 4, 2});
  CHECK(copy.targets == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (int i = 0; i < 30; ++i) CHECK(copy.inputs[static_cast<std::size_t>(i)] == static_cast<float>(i));

  DataLoader full{numbers(10), {.batch_size = 4, .drop_last = true}};
  CHECK(full.size() == 2);
  CHECK(full.samples() == 8);
  CHECK(copy_of(full, 0).sizes == std::vector<int>{4, 4});

  DataLoader exact{numbers(8), {.batch_size = 4}};
  CHECK(copy_of(exact, 0).sizes == std::vector<int>{4, 4});
  DataLoader large{numbers(3), {.batch_size = 100}};
  CHECK(copy_of(large, 0).sizes == std::vector<int>{3});
}

TEST_CASE("order and content do not depend on the number of workers") {
  const auto noise = [](const SampleView& sample, Random& random) { sample.input()[0] += random.uniform(); };
  const Map dataset(numbers(103), noise);
  DataLoader alone{dataset, {.batch_size = 8, .shuffle = true, .seed = 3}};
  const Copy first = copy_of(alone, 0), second = copy_of(alone, 1);
  CHECK(first.samples != second.samples);
  CHECK(std::set<long>(first.samples.begin(), first.samples.end()).size() == 103);
  CHECK(first.targets == std::vector<std::int32_t>(first.samples.begin(), first.samples.end()));
  for (int workers : {1, 2, 5}) {
    for (int prefetch : {1, 4}) {
      DataLoader loader{dataset,
                        {.batch_size = 8, .shuffle = true, .workers = workers, .prefetch = prefetch, .seed = 3}};
      CHECK(copy_of(loader, 1) == second);
      CHECK(copy_of(loader, 0) == first);
      CHECK(copy_of(loader, 0) == first);
    }
  }
  DataLoader other{dataset, {.batch_size = 8, .shuffle = true, .seed = 4}};
  CHECK(copy_of(other, 0).samples != first.samples);
}

TEST_CASE("a loader follows a sampler of one's own") {
  DataLoader loader{numbers(4), WeightedSampler({0, 0, 1, 0}, 5), {.batch_size = 2, .workers = 2}};
  CHECK(loader.size() == 3);
  CHECK(copy_of(loader, 0).targets == std::vector<std::int32_t>(5, 2));
  CHECK_THROWS_WITH((DataLoader{numbers(4), SequentialSampler(4), {.batch_size = 2, .shuffle = true}}),
                    Contains("shuffle"));
  // A sampler made for another data set is found out before anything is read.
  DataLoader wrong{numbers(4), SequentialSampler(5), {.batch_size = 2}};
  CHECK_THROWS_WITH(wrong.epoch(0), Contains("sampler") && Contains("found 4"));
}

TEST_CASE("options that make no sense are refused") {
  const auto make = [](int count, DataLoaderOptions options) { DataLoader loader{numbers(count), options}; };
  CHECK_THROWS_WITH(make(3, {}), Contains("DataLoader: batch_size") && Contains("found 0"));
  CHECK_THROWS_WITH(make(3, {.batch_size = -1}), Contains("found -1"));
  CHECK_THROWS_WITH(make(3, {.batch_size = 1, .workers = -1}), Contains("workers"));
  CHECK_THROWS_WITH(make(3, {.batch_size = 1, .prefetch = 0}), Contains("prefetch"));
  CHECK_THROWS_WITH(make(3, {.batch_size = 4, .drop_last = true}), Contains("drop_last") && Contains("found 3"));
  CHECK_THROWS_WITH(make(0, {.batch_size = 4}), Contains("data set") && Contains("found 0"));
  CHECK_NOTHROW(make(3, {.batch_size = 4}));
}

TEST_CASE("what a sample throws reaches the loop at its batch") {
  for (int workers : {0, 1, 2, 5}) {
    const Faulty dataset;
    DataLoader loader{dataset, {.batch_size = 4, .workers = workers}};
    CHECK(loader.failed_sample() == -1);
    for (int round = 0; round < 3; ++round) {
      *dataset.broken = true;
      int batches = 0;
      try {
        for (const Batch& batch : loader.epoch(2)) {
          CHECK(batch.inputs<std::int32_t>()[0] == 4 * batches);
          ++batches;
        }
        FAIL("nothing was thrown");
      } catch (const Error& error) {
        CHECK_THAT(error.what(), Contains("sample 17 (batch 4 of epoch 2)") && Contains("pixel missing"));
      }
      CHECK(batches == 4);
      CHECK(loader.failed_sample() == 17);

      *dataset.broken = false;
      batches = 0;
      for ([[maybe_unused]] const Batch& batch : loader.epoch(0)) ++batches;
      CHECK(batches == 10);
    }
    // Who goes on by hand gets the batches after it.
    *dataset.broken = true;
    auto epoch = loader.epoch(0);
    auto batch = epoch.begin();
    for (int i = 0; i < 3; ++i) ++batch;
    CHECK_THROWS_AS(++batch, Error);
    CHECK_NOTHROW(++batch);
    CHECK(batch->index == 5);
    CHECK(batch->inputs<std::int32_t>()[0] == 20);
    ++batch;
    CHECK_THROWS_AS(++batch, int);
    CHECK(loader.failed_sample() == 30);
  }
}

TEST_CASE("leaving a loop early stops the workers at once") {
  for (int workers : {0, 1, 2, 5}) {
    const Slow dataset;
    DataLoader loader{dataset, {.batch_size = 20, .workers = workers}};
    for (long stop : {0L, 3L}) {
      for (const Batch& batch : loader.epoch(0)) {
        CHECK(batch.targets()[0] == batch.index * 20);
        if (batch.index == stop) break;
      }
      const int reads = *dataset.reads;
      usleep(3000);
      CHECK(*dataset.reads == reads);
    }
    { auto unused = loader.epoch(1); }
    CHECK(*dataset.reads < 10000);
  }
}

TEST_CASE("stopping does not wait for whole batches") {
  const Slow dataset;
  DataLoader loader{dataset, {.batch_size = 2000, .workers = 1}};  // a batch takes a second
  {
    auto unused = loader.epoch(0);
    while (*dataset.reads == 0) usleep(100);
  }
  CHECK(*dataset.reads < 2000);
}

TEST_CASE("one epoch of a loader can be open at a time") {
  DataLoader loader{numbers(4), {.batch_size = 2, .workers = 1}};
  {
    const auto open = loader.epoch(0);
    CHECK_THROWS_WITH(loader.epoch(1), Contains("another epoch"));
  }
  CHECK(copy_of(loader, 1).sizes.size() == 2);
}

TEST_CASE("batches live in memory which is allocated once") {
  allocations = releases = 0;
  for (int workers : {0, 2}) {
    DataLoader loader{numbers(100), {.batch_size = 7, .workers = workers, .prefetch = 2, .memory = counting_memory}};
    CHECK(allocations == releases + 1);
    std::set<const void*> inputs, targets;
    for (long epoch = 0; epoch < 3; ++epoch) {
      for (const Batch& batch : loader.epoch(epoch)) {
        CHECK(reinterpret_cast<std::uintptr_t>(batch.input) % 64 == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(batch.target) % 64 == 0);
        inputs.insert(batch.input);
        targets.insert(batch.target);
      }
    }
    CHECK(inputs.size() == static_cast<std::size_t>(workers * 2 + 1));
    CHECK(targets.size() == inputs.size());
    CHECK(allocations == releases + 1);
  }
  CHECK(allocations == 2);
  CHECK(releases == 2);
}

TEST_CASE("a loader that reads nothing makes the same choices") {
  DataLoader loader{numbers(23), {.batch_size = 5, .shuffle = true, .workers = 1, .seed = 4}};
  const auto check = [&](long epoch) {
    const Copy read = copy_of(loader, epoch);
    Copy chosen;
    for (const Batch& batch : loader.choices(epoch)) {
      CHECK(batch.input == nullptr);
      CHECK(batch.epoch == epoch);
      CHECK(batch.layout == &loader.layout());
      chosen.sizes.push_back(batch.size);
      chosen.samples.insert(chosen.samples.end(), batch.samples, batch.samples + batch.size);
    }
    CHECK(chosen.sizes == read.sizes);
    CHECK(chosen.samples == read.samples);
  };
  check(0);
  check(3);
  for (const Batch& batch : loader.choices(1)) {
    CHECK_THROWS_WITH(loader.epoch(2), Contains("another epoch of this loader is open"));
    if (batch.index == 2) break;
  }
  check(1);
  const Slow slow;
  DataLoader unread{slow, {.batch_size = 2, .workers = 2}};
  for (const Batch& batch : unread.choices(0)) {
    if (batch.index == 3) usleep(5000);  // time for whoever would read ahead
    if (batch.index == 10) break;
  }
  CHECK(*slow.reads == 0);
}
