#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/data/batch_queue.hpp"
#include "tenet/data/dataset.hpp"
#include "tenet/data/sampler.hpp"

namespace tenet {

/// How a `DataLoader` reads.
struct DataLoaderOptions {
  int batch_size = 0;       ///< Samples in a batch; must be given.
  bool shuffle = false;     ///< A new order every epoch; without it the data set's order.
  int workers = 0;          ///< Threads which read; 0 reads in the calling thread.
  int prefetch = 2;         ///< Batches each worker may be ahead.
  std::uint64_t seed = 0;   ///< Fixes the order, with the epoch.
  bool drop_last = false;   ///< Leave out the last batch if it is not full.
  BatchMemory memory = {};  ///< Where batches live.
};

/// The loader's own order: shuffled or not.
class DefaultSampler {
 public:
  DefaultSampler(long samples, bool shuffle, std::uint64_t seed) : random_(samples, seed), shuffle_(shuffle) {}

  long size() const { return random_.size(); }
  void order(long epoch, std::span<long> indices) const {
    shuffle_ ? random_.order(epoch, indices) : SequentialSampler(size()).order(epoch, indices);
  }

 private:
  RandomSampler random_;
  bool shuffle_;
};

/// Reads a data set in batches, ahead of the loop which uses them, and in the same order whatever the number of
/// workers.
///
///     DataLoader loader{dataset, {.batch_size = 256, .shuffle = true, .workers = 1}};
///     for (const Batch& batch : loader.epoch(0)) use(batch.inputs(), batch.targets());
///
/// Memory is allocated at the start, for workers x prefetch + 1 batches. What reading a sample throws reaches the loop
/// at that sample's batch and ends the epoch; `Error` and the standard exceptions then say which sample, and
/// `failed_sample()` does for every type. The loader stays usable. One epoch can be open at a time.
template <Dataset Data, Sampler Order = DefaultSampler>
class DataLoader : private detail::BatchQueue {
 public:
  class Epoch;

  /// Reads `dataset` in order, or shuffled if the options say so; throws `Error` for options that make no sense.
  DataLoader(Data dataset, DataLoaderOptions options)
    requires std::same_as<Order, DefaultSampler>
      : DataLoader(std::move(dataset), nullptr, options) {}

  /// Reads the samples which `sampler` chooses; `options.shuffle` must be false and `options.seed` has no effect.
  DataLoader(Data dataset, Order sampler, DataLoaderOptions options)
    requires(!std::same_as<Order, DefaultSampler>)
      : DataLoader(std::move(dataset), &sampler, options) {}

  ~DataLoader() { join(); }

  /// Batches in an epoch.
  long size() const { return batches_; }
  /// Samples in an epoch.
  long samples() const {
    return options_.drop_last ? batches_ * options_.batch_size : static_cast<long>(order_.size());
  }
  /// What one sample looks like.
  const SampleLayout& layout() const { return layout_; }
  /// The options given.
  const DataLoaderOptions& options() const { return options_; }
  /// The data set.
  const Data& dataset() const { return dataset_; }
  /// The index of the sample whose reading threw last, -1 if none did.
  long failed_sample() const { return failed_sample_; }

  /// Begins epoch `number`, which fixes order and augmentation together with the seeds, and starts the workers; throws
  /// `Error` while another epoch is open.
  Epoch epoch(long number) { return Epoch(*this, number, true); }

  /// The same epoch for whoever makes the batches elsewhere (`Resident`): no sample is read, batches only say which
  /// samples they have.
  Epoch choices(long number) { return Epoch(*this, number, false); }

 private:
  [[gnu::noinline]] DataLoader(Data dataset, Order* sampler, const DataLoaderOptions& options)
      : BatchQueue(checked(dataset, sampler != nullptr, options), options.batch_size, options.workers, options.prefetch,
                   options.memory),
        dataset_(std::move(dataset)),
        options_(options),
        layout_(dataset_.layout()),
        sampler_(sampler ? std::move(*sampler) : default_sampler()),
        order_(static_cast<std::size_t>(sampler_.size())) {
    const long count = static_cast<long>(order_.size());
    batches_ = count / options.batch_size + (!options.drop_last && count % options.batch_size != 0);
    if (batches_ == 0) {
      fail("DataLoader", "samples in an epoch",
           options.drop_last ? Message("at least one batch of ", options.batch_size, " with drop_last") : "at least 1",
           count);
    }
  }

  Order default_sampler() const {
    if constexpr (std::same_as<Order, DefaultSampler>) {
      return DefaultSampler(static_cast<long>(dataset_.size()), options_.shuffle, options_.seed);
    } else {
      throw Error("DataLoader: no sampler");  // not reached: the public constructors pass one
    }
  }

  // Before anything is allocated.
  [[gnu::noinline]] static const SampleLayout& checked(const Data& dataset, bool own_sampler,
                                                       const DataLoaderOptions& options) {
    const auto require = [](bool condition, const char* what, const char* expected, long found) {
      if (!condition) fail("DataLoader", what, expected, found);
    };
    require(static_cast<long>(dataset.size()) > 0, "samples in the data set", "at least 1",
            static_cast<long>(dataset.size()));
    require(options.batch_size > 0, "batch_size", "at least 1", options.batch_size);
    require(options.workers >= 0 && options.workers <= 1024, "workers", "0 to 1024", options.workers);
    require(options.prefetch > 0 && options.prefetch <= 1024, "prefetch", "1 to 1024", options.prefetch);
    require(!own_sampler || !options.shuffle, "shuffle", "false, as a sampler is given", options.shuffle);
    const SampleLayout& layout = dataset.layout();
    layout.check("DataLoader");
    return layout;
  }

  void read(long index, long epoch, void* input, void* target) const override {
    read_sample(dataset_, index, epoch, input, target);
  }

  Data dataset_;
  DataLoaderOptions options_;
  SampleLayout layout_;
  Order sampler_;
  std::vector<long> order_;
  long batches_ = 0;
  bool open_ = false;
};

template <class Data>
DataLoader(Data, DataLoaderOptions) -> DataLoader<Data>;
template <class Data, class Order>
DataLoader(Data, Order, DataLoaderOptions) -> DataLoader<Data, Order>;

/// One pass over a loader's batches, to be used in a range-based `for`, once; leaving the loop early is fine.
template <Dataset Data, Sampler Order>
class DataLoader<Data, Order>::Epoch {
 public:
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = Batch;

    const Batch& operator*() const { return epoch_->batch_; }
    const Batch* operator->() const { return &epoch_->batch_; }
    Iterator& operator++() {
      epoch_->advance();
      return *this;
    }
    void operator++(int) { epoch_->advance(); }
    bool operator==(std::default_sentinel_t) const { return epoch_->next_ > epoch_->loader_->size(); }

   private:
    friend Epoch;
    explicit Iterator(Epoch* epoch) : epoch_(epoch) {}
    Epoch* epoch_;
  };

  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;
  ~Epoch() {
    loader_->stop();
    loader_->open_ = false;
  }

  /// Waits for the first batch.
  Iterator begin() {
    if (next_ == 0) advance();
    return Iterator(this);
  }
  std::default_sentinel_t end() const { return {}; }

 private:
  friend DataLoader;
  [[gnu::noinline]] Epoch(DataLoader& loader, long number, bool reads) : loader_(&loader), reads_(reads) {
    if (loader.open_) throw Error("DataLoader::epoch: another epoch of this loader is open; expected it to have ended");
    loader.sampler_.order(number, loader.order_);
    for (long index : loader.order_)
      detail::check_index("DataLoader: sampler", index, static_cast<long>(loader.dataset_.size()));
    batch_.layout = &loader.layout_;
    if (reads)
      loader.start(number, loader.order_, loader.batches_);
    else
      loader.choose(number, loader.order_);
    loader.open_ = true;
  }

  // next_ counts the batches asked for; one more than there are means the end.
  void advance() {
    if (next_++ >= loader_->batches_) return;
    reads_ ? loader_->next(next_ - 1, batch_) : loader_->describe(next_ - 1, batch_);
  }

  DataLoader* loader_;
  bool reads_;
  Batch batch_;
  long next_ = 0;
};

}  // namespace tenet
