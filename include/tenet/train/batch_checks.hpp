#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tenet/core/error.hpp>
#include <tenet/core/tensor_type.hpp>
#include <tenet/data/dataset.hpp>
#include <type_traits>
#include <utility>

/// What a trainer checks of batches and data sets before it works with them.
namespace tenet::detail {

[[noreturn, gnu::cold]] inline void fail_batch(int batch) { fail("Trainer", "batch", "at least one sample", batch); }
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_label(long sample, int classes, int found) {
  fail("Trainer", {"label of sample ", sample, " of the batch"}, {"0 to ", classes - 1}, found);
}

/// Labels are classes: each must be one of 0 to classes - 1.
inline void check_labels(const std::int32_t* labels, long batch, long labels_of_sample, int classes) {
  for (long i = 0; i < labels_of_sample * batch; ++i)
    if (labels[i] < 0 || labels[i] >= classes) fail_label(i / labels_of_sample, classes, labels[i]);
}

/// The same for a whole data set, of which the range of its labels is known.
inline void check_labels(const TargetRange& found, int classes) {
  const bool low = found.least < 0;
  if (!low && found.largest < classes) return;
  fail("Trainer", {"label of sample ", low ? found.least_at : found.largest_at, " of the data set"},
       {"0 to ", classes - 1}, low ? found.least : found.largest);
}

/// A batch's targets; where they are integers they are labels.
template <class Target, class Output>
void check_targets(const typename Target::Element* targets, int batch) {
  if (batch <= 0) fail_batch(batch);
  if constexpr (std::is_same_v<typename Target::Element, std::int32_t>)
    check_labels(targets, batch, Target::size, Output::info.extents[Output::rank - 1]);
}

/// Those of a data set that stays on a device.
template <class Target, class Output>
void check_targets(const TargetRange& found) {
  if constexpr (std::is_same_v<typename Target::Element, std::int32_t>)
    check_labels(found, Output::info.extents[Output::rank - 1]);
}

/// One number, or tensor, of each sample: what it is of, and its extents.
struct SamplePart {
  DataKind kind;
  const int* extents;
  std::size_t rank;

  bool operator==(const SamplePart& other) const {
    return kind == other.kind && rank == other.rank && std::equal(extents, extents + rank, other.extents);
  }
  std::string text() const {
    std::string result = name_of(kind);
    for (std::size_t i = 0; i < rank; ++i) Message(" x ", extents[i]).append_to(result);
    return result;
  }
};
[[gnu::noinline]] inline void check_part(const char* what, const TensorInfo& info, const SamplePart& found) {
  const SamplePart expected{info.dtype == DType::float32 ? DataKind::float32 : DataKind::int32, info.extents,
                            static_cast<std::size_t>(info.rank)};
  if (!(found == expected))
    fail("Trainer", {"the data set's ", what, " do not fit the network"}, expected.text(), found.text());
}
/// A data set's samples must be a network's inputs and targets.
inline void check_layout(const SampleLayout& layout, const TensorInfo& input, const TensorInfo& target) {
  check_part("inputs", input, {layout.input_kind, layout.input_extents.data(), layout.input_extents.size()});
  check_part("targets", target, {layout.target_kind, layout.target_extents.data(), layout.target_extents.size()});
}

/// The element types of inputs and targets; void where they are not known before the run.
template <class Input, class Target>
struct Elements {
  template <class Wanted, class Found>
  static constexpr bool same = std::is_void_v<Found> || std::is_same_v<Wanted, Found>;
  template <class WantedInput, class WantedTarget>
  static constexpr bool fit = same<WantedInput, Input> && same<WantedTarget, Target>;
};

template <class Data>
constexpr auto elements_of() {
  if constexpr (requires {
                  typename Data::Input;
                  typename Data::Target;
                })
    return Elements<typename Data::Input, typename Data::Target>{};
  else
    return Elements<void, void>{};
}
/// Those of a loader's data set.
template <class Loader>
using ElementsOfLoader = decltype(elements_of<std::remove_cvref_t<decltype(std::declval<Loader&>().dataset())>>());

}  // namespace tenet::detail
