#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tenet/data/data_loader.hpp"
#include "tenet/data/generated_images.hpp"
#include "tenet/data/resident.hpp"

/// The law of data that stays on a device: its epochs have the bits that a loader on the host has.
namespace resident_data {

using namespace tenet;

/// An epoch's batches one after the other, with their sizes.
struct Epoch {
  std::vector<int> sizes;
  std::vector<long> samples;
  std::vector<std::uint32_t> inputs, targets;  // bits
  bool operator==(const Epoch&) const = default;

  void add(const Batch& batch, const void* more_inputs, const void* more_targets, const SampleLayout& layout) {
    sizes.push_back(batch.size);
    samples.insert(samples.end(), batch.samples, batch.samples + batch.size);
    append(inputs, more_inputs, batch.size * layout.input_bytes());
    append(targets, more_targets, batch.size * layout.target_bytes());
  }

 private:
  static void append(std::vector<std::uint32_t>& to, const void* from, long bytes) {
    const std::size_t before = to.size();
    to.resize(before + static_cast<std::size_t>(bytes) / 4);
    std::memcpy(to.data() + before, from, static_cast<std::size_t>(bytes));
  }
};

template <class Loader>
Epoch read(Loader& loader, long epoch) {
  Epoch result;
  for (const Batch& batch : loader.epoch(epoch)) result.add(batch, batch.input, batch.target, loader.layout());
  return result;
}

/// What a device makes of an epoch: batches that lie at the same place, as those of a trainer do.
template <class Executor, class Loader>
Epoch make(Executor& executor, Loader& loader, long epoch) {
  const auto& data = loader.dataset().on(executor);
  const SampleLayout& layout = loader.layout();
  struct Memory {
    Executor* executor;
    std::vector<std::byte> host;
    void* there;
    Memory(Executor& given, long bytes)
        : executor(&given), host(static_cast<std::size_t>(bytes)), there(given.allocate(bytes, "a test")) {}
    ~Memory() { Executor::free(there); }
    const void* copied_out() {
      executor->copy_out(host.data(), there, static_cast<long>(host.size()));
      executor->synchronize();
      return host.data();
    }
  };
  const int most = loader.options().batch_size;
  Memory inputs(executor, most * layout.input_bytes()), targets(executor, most * layout.target_bytes());
  Memory words(executor, data.words(most) * 4);
  std::vector<std::uint32_t> described(static_cast<std::size_t>(data.words(most)));
  Epoch result;
  for (const Batch& batch : loader.choices(epoch)) {
    CHECK((batch.input == nullptr && batch.target == nullptr));
    data.describe(epoch, {batch.samples, static_cast<std::size_t>(batch.size)}, described.data());
    executor.copy_in(words.there, described.data(), data.words(batch.size) * 4);
    data.make(executor, static_cast<const std::uint32_t*>(words.there), batch.size, inputs.there, targets.there);
    result.add(batch, inputs.copied_out(), targets.copied_out(), layout);
  }
  return result;
}

/// Some epochs, not in their order.
template <class Executor, class Data, class... Sampler>
void check_epochs(Executor& executor, const Data& dataset, DataLoaderOptions options, const Sampler&... sampler) {
  DataLoader here{dataset, sampler..., options};
  DataLoader there{Resident{dataset}, sampler..., options};
  for (const long epoch : {0L, 7L, 1L}) {
    const Epoch expected = read(here, epoch), found = make(executor, there, epoch);
    CAPTURE(epoch, options.batch_size, options.seed);
    REQUIRE(expected.sizes.size() == static_cast<std::size_t>(here.size()));
    CHECK(found == expected);
  }
}

inline ByteImages byte_images(int rows, int columns, int count) {
  std::vector<unsigned char> pixels(static_cast<std::size_t>(2 * rows * columns * count));
  std::vector<unsigned char> labels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<unsigned char>(i * 7919 % 251);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<unsigned char>(i * 5 % 9);
  return {"bytes", pixels, labels, {2, rows, columns}, 9, 0.2860f, 0.3530f};
}

inline const Normalize scaled{{0.1f, -0.7f}, {0.37f, 1.7f}};
inline const std::uint64_t seeds[] = {0, 1, 0x123456789abcdef0};

/// A data set in batches of one, of some, of all and of more, in its order and shuffled.
template <class Executor, class Data>
void check(Executor& executor, const Data& dataset, std::uint64_t seed) {
  for (const int batch : {1, 5, 23, 40})
    check_epochs(executor, dataset, {.batch_size = batch, .shuffle = batch != 23, .seed = seed});
}

/// Each transform alone.
template <class Executor, class Data>
void check_transforms(Executor& executor, const Data& dataset) {
  for (const std::uint64_t seed : seeds) {
    check(executor, dataset, seed);
    check(executor, Map(dataset, scaled), seed);
    check(executor, Map(dataset, Normalize{{0.3f}, {0.45f}}), seed);
    check(executor, Map(dataset, RandomFlip{}, seed), seed);
    check(executor, Map(dataset, RandomFlip{0.2f}, seed), seed);
    check(executor, Map(dataset, RandomCrop{1, 0.25f}, seed), seed);
    check(executor, Map(dataset, RandomCrop{9, -1}, seed), seed);
  }
}

/// All transforms on each other, with parts of data sets between.
template <class Executor>
void check_together(Executor& executor, const ByteImages& images) {
  for (const std::uint64_t seed : seeds) {
    const Map shifted(Subset(images, std::vector<long>{22, 3, 3, 7, 0, 19, 12, 4}), RandomCrop{2, 0.5f}, seed);
    const Map flipped(Subset(shifted, 1, 7), RandomFlip{0.5f}, seed + 1);
    const Map normal(Subset(flipped, std::vector<long>{5, 0, 1, 1, 4}), scaled);
    const Map shifted_again(normal, RandomCrop{1, 3}, seed);
    check(executor, Subset(shifted_again, std::vector<long>{4, 1, 2, 0, 4, 3}), seed);
  }
}

}  // namespace resident_data
