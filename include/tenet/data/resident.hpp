#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/data/batch_queue.hpp"
#include "tenet/data/byte_images.hpp"
#include "tenet/data/dataset.hpp"
#include "tenet/data/resident_parts.hpp"
#include "tenet/data/transform.hpp"

/// Data sets that stay in the memory of a device, which makes batches of them itself.
namespace tenet {

/// A data set in the memory of one device, and how batches are made there. `Executor` is the device's: see
/// device/own_memory.hpp; besides, `for_each_row(executor, rows, length, work)` is found by its namespace.
template <class Executor, class Data>
class ResidentCopy {
  using Made = detail::MadeOnDevice<Data>;
  using Kept = std::remove_cvref_t<decltype(Made::kept(std::declval<const Data&>()))>;

 public:
  /// Copies the data set there, in pieces; throws `Error` if there is no room, if a sample is larger than 2^31
  /// elements, or if there are more than 2^32 samples.
  ResidentCopy(Executor& executor, const Data& data) : data_(data) {
    const SampleLayout& layout = data.layout();
    layout.check("Resident");
    const Kept& kept = Made::kept(data_);
    const long count = static_cast<long>(kept.size());
    if (count > 0xffffffffL) fail("Resident", "samples", "at most 2^32 - 1", count);
    if (std::max(layout.input_size(), layout.target_size()) > 0x7fffffff)
      fail("Resident", "elements of a sample", "at most 2^31 - 1", std::max(layout.input_size(), layout.target_size()));
    if (Made::maps > 0 && layout.input_kind != DataKind::float32)
      fail("Resident", "element type of inputs that go through a Map", name_of(DataKind::float32),
           name_of(layout.input_kind));
    input_bytes_ = detail::keeps_bytes<Kept> ? layout.input_size() : layout.input_bytes();
    targets_at_ = round_up(count * input_bytes_);
    values_at_ = round_up(targets_at_ + count * layout.target_bytes());
    // One piece of memory: so an error for want of room says how much all of it is.
    block_.memory =
        static_cast<std::byte*>(executor.allocate(values_at_ + 256 * 4, "a data set that stays on the device"));
    static_cast<void>(Made::part(data_, kept_part()));  // transforms that do not fit say so before the copy
    copy_all(executor, kept);
    executor.synchronize();  // the memory copied from ends here, and other streams may read the copy
  }
  ResidentCopy(const ResidentCopy&) = delete;
  ResidentCopy& operator=(const ResidentCopy&) = delete;

  /// 32-bit words that say which samples a batch has.
  static long words(int batch) { return 2 * Made::maps + long{Made::levels} * batch; }
  /// Writes these words: all that has to be copied to the device for a batch.
  void describe(long epoch, std::span<const long> samples, std::uint32_t* words) const {
    Made::seeds(data_, epoch, words);
    words += 2 * Made::maps;
    const long batch = static_cast<long>(samples.size());
    for (long i = 0; i < batch; ++i) Made::indices(data_, samples[static_cast<std::size_t>(i)], words + i, batch);
  }
  /// Starts what writes the batch that such words, which the device's memory holds, describe: inputs and targets as a
  /// loader on the host has them, bit for bit. A null pointer: these are not wanted.
  void make(Executor& executor, const std::uint32_t* words, int batch, void* inputs, void* targets) const {
    const SampleLayout& layout = data_.layout();
    const detail::ChosenSamples chosen{words, words + 2 * Made::maps, batch};
    const auto part = Made::part(data_, kept_part());
    for_each_row(executor, batch, layout.input_size() + layout.target_size(),
                 detail::MakeSample<std::remove_const_t<decltype(part)>>{
                     part, chosen, static_cast<std::uint32_t>(layout.input_size()),
                     static_cast<std::uint32_t>(layout.target_size()),
                     reinterpret_cast<const float*>(block_.memory + targets_at_), static_cast<float*>(inputs),
                     static_cast<float*>(targets)});
  }

  /// Of integer targets; zeros for others.
  const TargetRange& targets() const { return range_; }
  /// What the copy takes of the device's memory.
  long bytes() const { return values_at_ + 256 * 4; }

 private:
  struct Block {
    std::byte* memory = nullptr;
    Block() = default;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() {
      if (memory != nullptr) Executor::free(memory);
    }
  };
  static long round_up(long bytes) { return (bytes + 255) / 256 * 256; }

  auto kept_part() const {
    const auto size = static_cast<std::uint32_t>(data_.layout().input_size());
    if constexpr (detail::keeps_bytes<Kept>)
      return detail::KeptBytes{reinterpret_cast<const unsigned char*>(block_.memory),
                               reinterpret_cast<const float*>(block_.memory + values_at_), size};
    else
      return detail::KeptWords{reinterpret_cast<const float*>(block_.memory), size};
  }

  void copy_all(Executor& executor, const Kept& kept) {
    const SampleLayout& layout = kept.layout();
    const long count = static_cast<long>(kept.size()), target_bytes = layout.target_bytes();
    const long piece = std::clamp((8L << 20) / (input_bytes_ + target_bytes), 1L, std::max(count, 1L));
    std::vector<std::byte> inputs(static_cast<std::size_t>(piece * input_bytes_));
    std::vector<std::byte> targets(static_cast<std::size_t>(piece * target_bytes));
    for (long first = 0; first < count; first += piece) {
      const long samples = std::min(piece, count - first);
      for (long i = 0; i < samples; ++i) {
        std::byte* const target = targets.data() + i * target_bytes;
        try {
          detail::read_kept(kept, first + i, inputs.data() + i * input_bytes_, target);
        } catch (...) {
          detail::rethrow_with("Resident: sample " + std::to_string(first + i) + ": ");
        }
        if (layout.target_kind == DataKind::int32) extend_range(target, layout.target_size(), first + i);
      }
      // The host's memory may be written again behind each call.
      executor.copy_in(block_.memory + first * input_bytes_, inputs.data(), samples * input_bytes_);
      executor.copy_in(block_.memory + targets_at_ + first * target_bytes, targets.data(), samples * target_bytes);
    }
    if constexpr (detail::keeps_bytes<Kept>)
      executor.copy_in(block_.memory + values_at_, detail::images_of(kept).values().data(), 256 * 4);
  }
  void extend_range(const std::byte* target, long size, long sample) {
    for (long i = 0; i < size; ++i) {
      std::int32_t value;
      std::memcpy(&value, target + 4 * i, 4);
      if ((sample == 0 && i == 0) || value < range_.least) range_.least = value, range_.least_at = sample;
      if ((sample == 0 && i == 0) || value > range_.largest) range_.largest = value, range_.largest_at = sample;
    }
  }

  Data data_;
  long input_bytes_ = 0, targets_at_ = 0, values_at_ = 0;
  Block block_;
  TargetRange range_;
};

/// A data set that stays in the memory of the device that trains: it is copied there when a trainer uses it first, once
/// for all loaders and trainers that have a copy of this object. A step then copies in which samples its batch has, a
/// few kB; the device makes the batch, with all maps, and with the bits that a loader on the host gives.
///
///     DataLoader loader{Resident{Map{FashionMnist::train(), RandomCrop{2}}}, {.batch_size = 256, .shuffle = true}};
///     trainer.fit(loader);   // on Cuda<0>; on a device that works in the host's memory the loader reads as ever
///
/// Bytes stay bytes there (`ByteImages`); every other data set is kept as it is read. It is the outermost of data sets,
/// around `Map`, `Subset` and a data set whose samples are the same in each epoch. A map whose transform does not say
/// what it does element by element, as a lambda, must not draw random numbers, and all below it must not either: it is
/// applied before the copy.
template <Dataset Data>
class Resident : public detail::ElementsOf<Data> {
  static_assert(detail::can_be_made<Data>,
                "Resident: samples that differ from epoch to epoch are made on the device, so a transform that draws, "
                "and those above it, must say what they do element by element: RandomFlip, RandomCrop, Normalize, or "
                "one of your own with elements(layout) (docs/data.md)");

 public:
  explicit Resident(Data data) : data_(std::move(data)) {}

  static constexpr bool is_outermost = true;

  /// Number of samples.
  long size() const { return static_cast<long>(data_.size()); }
  /// What one sample looks like.
  const SampleLayout& layout() const { return data_.layout(); }
  /// The data set itself.
  const Data& dataset() const { return data_; }

  /// Reads sample `index` on the host, as it is in epoch 0.
  void read(long index, void* input, void* target) const { read(index, 0, input, target); }
  /// Reads sample `index` on the host, as it is in `epoch`.
  void read(long index, long epoch, void* input, void* target) const {
    read_sample(data_, index, epoch, input, target);
  }

  /// The copy in the memory of an executor's device, made when it is asked for first; it stays as long as a copy of
  /// this object. Throws `Error` if there is no room.
  template <class Executor>
  const ResidentCopy<Executor, Data>& on(Executor& executor) const {
    using Copy = ResidentCopy<Executor, Data>;
    int device = 0;
    if constexpr (requires { executor.device(); }) device = executor.device();
    const std::lock_guard lock(copies_->mutex);
    for (const auto& [kind, number, copy] : copies_->all)
      if (kind == &kind_of<Executor> && number == device) return *static_cast<const Copy*>(copy.get());
    auto made = std::make_shared<Copy>(executor, data_);
    const Copy& result = *made;
    copies_->all.push_back({&kind_of<Executor>, device, std::move(made)});
    return result;
  }

 private:
  template <class Executor>
  inline static char kind_of = 0;  // its address names the type

  struct CopyThere {
    const char* kind;
    int device;
    std::shared_ptr<const void> copy;
  };
  struct Copies {
    std::mutex mutex;
    std::vector<CopyThere> all;
  };

  Data data_;
  std::shared_ptr<Copies> copies_ = std::make_shared<Copies>();
};

}  // namespace tenet
