#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"

namespace tenet {

/// The element type of a sample's input or target.
enum class DataKind { float32, int32 };

/// The kind which stores `T`: `float` or `std::int32_t`.
template <class T>
  requires std::same_as<T, float> || std::same_as<T, std::int32_t>
inline constexpr DataKind data_kind = std::same_as<T, float> ? DataKind::float32 : DataKind::int32;

/// The name of a kind, for messages.
constexpr const char* name_of(DataKind kind) { return kind == DataKind::float32 ? "float32" : "int32"; }

/// What one sample looks like; both parts are row-major, and no extents at all means a single number.
struct SampleLayout {
  std::vector<int> input_extents;
  DataKind input_kind = DataKind::float32;
  std::vector<int> target_extents = {};
  DataKind target_kind = DataKind::int32;

  /// Elements in one input: the product of `input_extents`.
  long input_size() const { return product(input_extents); }
  /// Elements in one target: the product of `target_extents`, 1 for a single label.
  long target_size() const { return product(target_extents); }
  /// Bytes in one input.
  long input_bytes() const { return input_size() * 4; }  // both kinds have four bytes
  /// Bytes in one target.
  long target_bytes() const { return target_size() * 4; }

  bool operator==(const SampleLayout&) const = default;

  /// Throws `Error` unless every extent is positive and the sizes can be counted; `where` begins the message.
  [[gnu::noinline]] void check(const std::string& where) const {
    for (const auto* extents : {&input_extents, &target_extents}) {
      long size = 1;
      for (int extent : *extents) {
        if (extent <= 0 || size > (1L << 40) / extent) {
          fail(where, extents == &input_extents ? "input extents" : "target extents",
               "positive, with at most 2^40 elements in a sample", {extent, " after ", size});
        }
        size *= extent;
      }
    }
  }

 private:
  static long product(const std::vector<int>& extents) {
    long size = 1;
    for (int extent : extents) size *= extent;
    return size;
  }
};

/// The least and the largest of a data set's integer targets, and the numbers of samples that have them.
struct TargetRange {
  std::int32_t least = 0, largest = 0;
  long least_at = 0, largest_at = 0;
};

/// A data set whose samples have numbers ("map-style"): `read` writes sample `index`, 0 <= index < size(), to memory of
/// the caller.
///
/// `read` is const, safe to call from several threads at once, and gives the same sample for the same index. It writes
/// exactly `layout().input_bytes()` and `layout().target_bytes()` bytes and should not allocate. Data sets hold their
/// data through a shared pointer, so that they are passed and kept by value.
///
/// A data set may also have `read(index, epoch, input, target)`, for samples which differ from epoch to epoch
/// (augmentation); `read_sample` prefers it.
///
/// A data set may say its element types, `using Input = float` and `using Target = std::int32_t`; then one that does
/// not fit a network is refused at compile time.
///
/// A stream without a size is a second concept beside this one: `layout()` and `bool next(void* input, void* target)`,
/// false at the end, split over workers by `shard(worker, workers)`. The loader's queue asks only for "fill this slot
/// with batch b", so a stream needs another source for it, and no change to the queue nor to `Batch`.
template <class D>
concept Dataset = requires(const D& dataset, long index, void* memory) {
  { dataset.size() } -> std::convertible_to<long>;
  { dataset.layout() } -> std::convertible_to<const SampleLayout&>;
  dataset.read(index, memory, memory);
};

/// Reads sample `index` as it is in `epoch`; data sets which do not change with the epoch ignore it.
template <Dataset D>
void read_sample(const D& dataset, long index, long epoch, void* input, void* target) {
  if constexpr (requires { dataset.read(index, epoch, input, target); }) {
    dataset.read(index, epoch, input, target);
  } else {
    dataset.read(index, input, target);
  }
}

/// A seed for one epoch: distinct epochs and seeds give unrelated numbers (the finaliser of SplitMix64).
constexpr std::uint64_t epoch_seed(std::uint64_t seed, long epoch) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15u * (static_cast<std::uint64_t>(epoch) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

namespace detail {

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_index(const char* where, long index, long size) {
  fail(where, "sample index", {"0 <= index < ", size}, index);
}
inline void check_index(const char* where, long index, long size) {
  if (index < 0 || index >= size) fail_index(where, index, size);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void fail_inputs(long unit, long found) {
  fail("TensorDataset", "number of input elements", {"a multiple of ", unit}, found);
}
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_targets(long samples, long each, long found) {
  fail("TensorDataset", "number of target elements", {samples, " samples x ", each}, found);
}

// Whether a data set must be the last of those that wrap each other: around it, what it does would not be seen.
template <class D>
concept Outermost = requires { requires D::is_outermost; };

template <class D>
inline constexpr int map_depth = 0;
template <class D>
  requires requires { D::map_depth; }
inline constexpr int map_depth<D> = D::map_depth;

// The element types of another data set, if it says them.
template <class D>
struct ElementsOf {};
template <class D>
  requires requires {
    typename D::Input;
    typename D::Target;
  }
struct ElementsOf<D> {
  using Input = typename D::Input;
  using Target = typename D::Target;
};

}  // namespace detail

/// A data set held in memory; copies share the memory.
///
/// `inputs` has n x input_extents elements and `targets` n x target_extents, for the same n; throws `Error` otherwise.
template <class Input_ = float, class Target_ = std::int32_t>
class TensorDataset {
 public:
  using Input = Input_;
  using Target = Target_;

  [[gnu::noinline]] TensorDataset(std::vector<Input> inputs, std::vector<int> input_extents,
                                  std::vector<Target> targets, std::vector<int> target_extents = {})
      : layout_{std::move(input_extents), data_kind<Input>, std::move(target_extents), data_kind<Target>} {
    layout_.check("TensorDataset");
    const long count = static_cast<long>(inputs.size());
    size_ = count / layout_.input_size();
    if (count % layout_.input_size() != 0) detail::fail_inputs(layout_.input_size(), count);
    const long found = static_cast<long>(targets.size());
    if (found != size_ * layout_.target_size()) detail::fail_targets(size_, layout_.target_size(), found);
    data_ = std::make_shared<const Data>(Data{std::move(inputs), std::move(targets)});
  }

  /// Number of samples.
  long size() const { return size_; }
  /// What one sample looks like.
  const SampleLayout& layout() const { return layout_; }

  /// Copies sample `index`; throws `Error` if there is none.
  void read(long index, void* input, void* target) const {
    detail::check_index("TensorDataset::read", index, size_);
    std::memcpy(input, data_->inputs.data() + index * layout_.input_size(),
                static_cast<std::size_t>(layout_.input_bytes()));
    std::memcpy(target, data_->targets.data() + index * layout_.target_size(),
                static_cast<std::size_t>(layout_.target_bytes()));
  }

 private:
  struct Data {
    std::vector<Input> inputs;
    std::vector<Target> targets;
  };
  SampleLayout layout_;
  long size_ = 0;
  std::shared_ptr<const Data> data_;
};

/// Some samples of a data set: a range, or those of a list in its order.
template <Dataset D>
class Subset : public detail::ElementsOf<D> {
  static_assert(!detail::Outermost<D>, "Subset: Resident is the outermost data set: Resident{Subset{dataset, ...}}");

 public:
  /// Samples `begin` to `end - 1`; `Subset(dataset, 0, n)` are the first n. Throws `Error` if the range does not fit.
  Subset(D dataset, long begin, long end) : dataset_(std::move(dataset)), begin_(begin), size_(end - begin) {
    if (begin < 0 || end < begin || end > static_cast<long>(dataset_.size())) {
      fail("Subset", "range", {"0 <= begin <= end <= ", dataset_.size()}, {begin, " to ", end});
    }
  }

  /// The samples whose indices are listed; throws `Error` if one does not exist.
  Subset(D dataset, std::vector<long> indices)
      : dataset_(std::move(dataset)),
        indices_(std::make_shared<const std::vector<long>>(std::move(indices))),
        size_(static_cast<long>(indices_->size())) {
    for (long index : *indices_) detail::check_index("Subset", index, static_cast<long>(dataset_.size()));
  }

  /// How many `Map`s lie below; see there.
  static constexpr int map_depth = detail::map_depth<D>;

  /// Number of samples.
  long size() const { return size_; }
  /// The layout of the whole data set.
  const SampleLayout& layout() const { return dataset_.layout(); }
  /// The whole data set.
  const D& dataset() const { return dataset_; }
  /// The number of sample `index` there; throws `Error` if the subset has none.
  long index_of(long index) const {
    detail::check_index("Subset", index, size_);
    return indices_ ? (*indices_)[static_cast<std::size_t>(index)] : begin_ + index;
  }

  /// Reads sample `index` of the subset; throws `Error` if there is none.
  void read(long index, void* input, void* target) const { read(index, 0, input, target); }
  /// The same, as it is in `epoch`.
  void read(long index, long epoch, void* input, void* target) const {
    read_sample(dataset_, index_of(index), epoch, input, target);
  }

 private:
  D dataset_;
  long begin_ = 0;
  std::shared_ptr<const std::vector<long>> indices_;  // empty: a range
  long size_;
};

}  // namespace tenet
