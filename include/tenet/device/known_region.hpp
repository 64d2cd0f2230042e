#pragma once

#include <tenet/core/tensor_type.hpp>
#include <tenet/ops/region.hpp>

/// Element-wise regions whose extents are constants: what the programs of small networks are made of, see
/// exec/one_sample.hpp.
namespace tenet {

/// One region over a known number of elements: a template argument.
struct KnownRegion {
  long total = 0;
  Access inputs[max_region_inputs]{};
  bool padded_input[max_region_inputs]{};    ///< the memory goes on to a whole number of vectors, and may be read there
  bool padded_output[max_region_outputs]{};  ///< may be written there

  /// Input k is one number throughout the region.
  constexpr bool is_number(int k) const {
    return inputs[k].count == 1 || (!inputs[k].full && inputs[k].inner >= total);
  }
  /// Lane l of the vector at element i reads data[index(k, i) + l] of input k.
  constexpr long index(int k, long i) const { return inputs[k].count >= total ? i : i % inputs[k].count; }
  /// Whether each aligned vector of `width` elements of each input is contiguous, or the input one number.
  constexpr bool in_vectors(int input_count, int width) const {
    for (int k = 0; k < input_count; ++k) {
      const bool row = inputs[k].inner == 1 && (inputs[k].count >= total || inputs[k].count % width == 0);
      if (!inputs[k].regular || !(inputs[k].full || is_number(k) || row)) return false;
    }
    return true;
  }
};

}  // namespace tenet
