#pragma once

#include <tenet/core/tensor_type.hpp>

/// Where the values of a program lie.
namespace tenet {

/// The memories of a program.
enum class Arena : unsigned char {
  per_sample,  ///< values with a batch: offsets and sizes are multiplied by the batch
  fixed,       ///< values without a batch
  parameters,
  gradients,
  buffers,
  states,   ///< of the optimizer, one after the other, each as large as the parameters
  inputs,   ///< the caller's memory; `offset` says which input
  numbers,  ///< constants and numbers that are set before a run
};

/// Where a value lies: arena base + offset (· batch, per sample).
struct Place {
  Arena arena = Arena::fixed;
  DType dtype = DType::float32;  ///< of numbers: `float32` or `bfloat16`
  long offset = 0;

  constexpr Place() = default;
  constexpr Place(Arena in, long at, DType as = DType::float32) : arena(in), dtype(as), offset(at) {}
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

/// Whether what lies in an arena was there before the run, and is given new values by it.
constexpr bool holds_old_values(Arena arena) {
  return arena == Arena::parameters || arena == Arena::buffers || arena == Arena::states;
}

}  // namespace tenet
