#pragma once

/// Element-wise regions: what the fusion pass hands to a device. A region is a small program of element functions,
/// its wiring, and a device has one loop for all of them.
namespace tenet {

// What fusion makes at most, and what a device's loop takes: two regions may be joined, see exec/join_steps.hpp.
inline constexpr int max_fused_operations = 16;
inline constexpr int max_fused_outputs = 4;
inline constexpr int max_region_operations = 24;
inline constexpr int max_region_inputs = 14;
inline constexpr int max_region_outputs = 6;

/// Which value goes where in a region: a template argument, equal for equal regions of all networks.
struct Wiring {
  signed char operations = 0, inputs = 0, outputs = 0;
  signed char source[max_region_operations][4]{};  ///< k >= 0: input k, k < 0: the value of operation -1 - k
  signed char output[max_region_outputs]{};        ///< the operation whose value is written, or input k as -1 - k
  bool uniform[max_region_inputs]{};               ///< the input is one number throughout a block
  unsigned short narrow_inputs = 0;                ///< bit k: input k lies in memory as `bfloat16`
  unsigned char narrow_outputs = 0;                ///< bit k: output k does
  unsigned short turned_inputs = 0;                ///< bit k: input k is read in another order, see `Access`
  unsigned short repeated_inputs = 0;              ///< bit k: input k is a row of each sample, repeated, see `Access`
  bool sums_groups = false;  ///< adds up values in `Layout::samples_last`, but what lies beyond the last sample
  signed char summed = 0;    ///< `Role::store_and_sum`: of so many outputs, the last ones, the columns are added up
  bool moments = false;      ///< of two summed outputs, which are one value x: sum x and sum (x - mean)²
  unsigned short rows = 0;   ///< bit k: input k is a row, one number for each column that is summed

  constexpr bool input_is_narrow(int k) const { return (narrow_inputs >> k & 1) != 0; }
  constexpr bool input_is_turned(int k) const { return (turned_inputs >> k & 1) != 0; }
  constexpr bool output_is_narrow(int k) const { return (narrow_outputs >> k & 1) != 0; }
  constexpr bool input_is_repeated(int k) const { return (repeated_inputs >> k & 1) != 0; }
  constexpr bool input_is_row(int k) const { return (rows >> k & 1) != 0; }
  constexpr int stored() const { return outputs - summed; }

  // Not defaulted: nvcc's constant evaluation then reads past the rows of `source`.
  friend constexpr bool operator==(const Wiring& a, const Wiring& b) {
    bool same = a.operations == b.operations && a.inputs == b.inputs && a.outputs == b.outputs &&
                a.narrow_inputs == b.narrow_inputs && a.narrow_outputs == b.narrow_outputs &&
                a.turned_inputs == b.turned_inputs && a.sums_groups == b.sums_groups && a.summed == b.summed &&
                a.repeated_inputs == b.repeated_inputs && a.moments == b.moments && a.rows == b.rows;
    for (int i = 0; i < max_region_operations; ++i)
      for (int k = 0; k < 4; ++k) same = same && a.source[i][k] == b.source[i][k];
    for (int i = 0; i < max_region_outputs; ++i) same = same && a.output[i] == b.output[i];
    for (int i = 0; i < max_region_inputs; ++i) same = same && a.uniform[i] == b.uniform[i];
    return same;
  }
};

/// What the loop does with a region's values.
enum class Role : unsigned char {
  store,          ///< writes them
  sum,            ///< adds all of them to one number
  sum_rows,       ///< adds element j of each row to number j
  store_and_sum,  ///< writes some, and adds up the columns of others, see exec/join_steps.hpp
};

}  // namespace tenet
