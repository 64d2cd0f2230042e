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

  /// Input k is one number throughout a row, see `row`.
  constexpr bool is_number(int k) const { return !inputs[k].full && (inputs[k].count == 1 || inputs[k].inner > 1); }
  /// Elements of a row: throughout each, inputs that are broadcast along their last extents stay one number. Without
  /// such inputs, or where they are one number altogether, all elements are one row.
  constexpr long row(int input_count) const {
    long result = total;
    for (int k = 0; k < input_count; ++k)
      if (is_number(k) && inputs[k].count > 1 && inputs[k].inner < result) result = inputs[k].inner;
    return result;
  }
  /// Input k in the vector at element j of a row of `row` elements that begins at `first` starts at data[index], or is
  /// that number. The division is of `first` alone where that is possible.
  [[gnu::always_inline]] constexpr long index(int k, long row, long first, long j) const {
    const long count = inputs[k].count;
    if (is_number(k)) return first / inputs[k].inner % count;
    if (count >= total) return first + j;
    if (row % count == 0) return j % count;
    return count % row == 0 ? first % count + j : (first + j) % count;
  }
  /// Whether each vector of `width` elements from the beginning of a row is contiguous in each input, or one number.
  constexpr bool in_vectors(int input_count, int width) const {
    const long length = row(input_count);
    if (length < total && (length % width != 0 || total % length != 0)) return false;
    for (int k = 0; k < input_count; ++k) {
      const Access& how = inputs[k];
      const bool number = is_number(k) && (how.count == 1 || how.inner % length == 0);
      const bool vectors = !is_number(k) && (how.count >= total || how.count % width == 0);
      if (!how.regular || !(how.full || number || vectors)) return false;
    }
    return true;
  }
};

}  // namespace tenet
