#pragma once

#include <tenet/device/cuda/region.hpp>
#include <tenet/device/cuda/sums.hpp>

/// What sums behind a region add up, see `run_sums`.
namespace tenet::gpu::detail {

/// The terms of sums over elements i with (i / inner) % count = c, for each c: a row is one of the ranges and an
/// element within.
template <class Region>
struct TermsOfNumbers {
  static constexpr int numbers = 1;
  Region region;
  Divisor inner;
  long count;
  float* result;

  TENET_HOST_DEVICE void of(long row, long number, float* to) const {
    const Divided at = divided(row, inner);
    to[0] = region.summand((at.quotient * count + number) * inner.by + at.rest);
  }
  TENET_HOST_DEVICE void store(long number, const float* sum) const { result[number] = sum[0]; }
};

/// The same where `inner` is 1, neighbouring numbers have neighbouring terms: sums of the columns of a region's
/// outputs, but of those of `Role::store_and_sum` that are stored. Moments are taken about the first row: the sums of
/// squares are of numbers that are about as large as their deviations.
template <class Code, auto... functions>
struct TermsOfColumns {
  using Region = Neighbourhood<Code, functions...>;
  static constexpr bool stores = Code::decoded().summed > 0, moments = Code::decoded().moments;
  static constexpr int outputs = Region::outputs, stored = stores ? Code::decoded().stored() : 0,
                       sums = outputs - stored, width = Region::width, numbers = sums * width;
  static constexpr int at_once = 1, blocks_of_processor = stores && !moments ? 2 : 3;
  static_assert(!moments || (stored == 0 && sums == 2));
  static constexpr bool is_row(int k) { return Code::decoded().input_is_row(k); }

  Region region;
  long rows, count;
  float* results[outputs];  ///< what is stored, and the sums
  bool is_plain;            ///< all operands are rows, one for all or for each sample, or whole; and read together

  TermsOfColumns(const ElementArguments& arguments, long columns, float* sum)
      : region(arguments), rows(arguments.total / columns), count(columns) {
    unrolled<outputs>([&](auto k) {
      results[k] = stores ? arguments.outputs[k] : sum;
      if constexpr (k < stored) region.template check<Region::output_is_narrow(k)>(results[k]);
    });
    region.together = region.together && count % width == 0;
    if (region.row.by != count) region.is_row = 0;  // a row's columns are those of the sums
    is_plain = region.together;
    unrolled<Region::inputs>([&](auto k) {
      const ElementArguments::Input& from = arguments.inputs[k];
      is_plain = is_plain && (is_row(k) || from.count == (Region::input_is_repeated(k) ? count : 0));
    });
  }
  long lanes() const { return (count + width - 1) / width; }

  /// The neighbours of a lane: fewer at the end of a row.
  TENET_HOST_DEVICE int neighbours(long lane) const {
    const long rest = count - width * lane;
    return rest < width ? static_cast<int>(rest) : width;
  }
  TENET_HOST_DEVICE void compute(long row, long lane, float (*computed)[width]) const {
    region.compute(row * count + width * lane, width * lane, neighbours(lane), computed);
  }
  /// A lane's numbers in the first row, for moments; else zero.
  struct Origin {
    float at[width];
  };
  TENET_HOST_DEVICE Origin origin_of(long lane) const {
    Origin origin{};
    if constexpr (moments) {
      float computed[outputs][width];
      compute(0, lane, computed);
      TENET_UNROLL
      for (int k = 0; k < width; ++k) origin.at[k] = computed[0][k];
    }
    return origin;
  }
  TENET_HOST_DEVICE void add(const Origin& origin, const float (*computed)[width], float* to) const {
    TENET_UNROLL
    for (int k = 0; k < width; ++k) {
      TENET_UNROLL
      for (int s = 0; s < sums; ++s) to[s * width + k] = computed[stored + s][k];
      if constexpr (moments) {
        to[k] -= origin.at[k];
        to[width + k] = to[k] * to[k];
      }
    }
  }

  TENET_HOST_DEVICE void of(long row, long lane, float* to) const {
    float computed[outputs][width];
    compute(row, lane, computed);
    unrolled<stored>([&](auto k) {
      region.template store<k>(results[k], row * count + width * lane, neighbours(lane), computed[k]);
    });
    add(origin_of(lane), computed, to);
  }
  TENET_HOST_DEVICE void store(long lane, const float* found) const {
    const Origin origin = origin_of(lane);
    const int last = neighbours(lane);
    TENET_UNROLL
    for (int k = 0; k < width; ++k) {
      if (k >= last) continue;
      if constexpr (moments) {
        const float sum = found[k], squares = found[width + k] - sum * sum / rows;
        results[0][width * lane + k] = sum + rows * origin.at[k];
        results[1][width * lane + k] = squares > 0 ? squares : 0;
      } else {
        for (int s = 0; s < sums; ++s) results[stored + s][width * lane + k] = found[s * width + k];
      }
    }
  }

  /// The same where it is plain: rows are read once, and of all else some rows at once, as they lie.
  struct Plain {
    static constexpr int at_once = 4;
    const TermsOfColumns& terms;

    struct Begun {
      typename Region::Given rows;
      Origin origin;
    };
    TENET_HOST_DEVICE Begun begin(long lane) const {
      Begun begun;
      unrolled<Region::inputs>([&](auto k) {
        if constexpr (is_row(k)) terms.region.template load_plain<k>(width * lane).widen(begun.rows.of[k]);
      });
      begun.origin = terms.origin_of(lane);
      return begun;
    }
    using Loaded = typename Region::Loaded;
    TENET_HOST_DEVICE Loaded load(long row, long lane) const {
      Loaded loaded;
      unrolled<Region::inputs>([&](auto k) {
        if constexpr (!is_row(k)) {
          long at = row;
          if constexpr (Region::input_is_repeated(k)) at = divided(row, terms.region.input[k].repeats).quotient;
          loaded.template of<k>() = terms.region.template load_plain<k>(at * terms.count + width * lane);
        }
      });
      return loaded;
    }
    TENET_HOST_DEVICE void of(const Begun& begun, const Loaded& loaded, long row, long lane, bool counts,
                              float* to) const {
      typename Region::Given given;
      unrolled<Region::inputs>([&](auto k) {
        if constexpr (is_row(k)) {
          TENET_UNROLL
          for (int j = 0; j < width; ++j) given.of[k][j] = begun.rows.of[k][j];
        } else {
          loaded.template of<k>().widen(given.of[k]);
        }
      });
      float computed[outputs][width];
      Region::evaluate_all(given, computed);
      if (counts)
        unrolled<stored>([&](auto k) {
          terms.region.template store_plain<k>(terms.results[k], row * terms.count + width * lane, computed[k]);
        });
      terms.add(begun.origin, computed, to);
    }
  };
  TENET_HOST_DEVICE Plain plain() const { return {*this}; }
};

}  // namespace tenet::gpu::detail
