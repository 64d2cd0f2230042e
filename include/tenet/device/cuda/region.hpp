#pragma once

#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/neighbours.hpp>
#include <tenet/device/cuda/wiring_code.hpp>
#include <tenet/device/element.hpp>
#include <type_traits>

/// What a kernel computes of an element-wise region: one element, or some neighbours.
namespace tenet::gpu::detail {

/// Calls visit(k) for k from 0 to `count`, each a constant.
template <int count, class Visit>
TENET_HOST_DEVICE constexpr void unrolled(Visit visit) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (visit(std::integral_constant<int, I>{}), ...);
  }(std::make_integer_sequence<int, count>{});
}

/// The work of a region on a few of its elements.
template <class Code, auto... functions>
struct Region {
  static constexpr int operations = Code::decoded().operations, inputs = Code::decoded().inputs,
                       outputs = Code::decoded().outputs;
  static constexpr bool input_is_narrow(int k) { return Code::decoded().input_is_narrow(k); }
  static constexpr bool input_is_turned(int k) { return Code::decoded().input_is_turned(k); }
  static constexpr bool input_is_repeated(int k) { return Code::decoded().input_is_repeated(k); }
  static constexpr bool output_is_narrow(int k) { return Code::decoded().output_is_narrow(k); }

  /// As in `ElementArguments`.
  struct Input {
    const float* data;
    Divisor inner, count;
    long rows;  ///< count / inner
    Divisor repeats;
  };
  Input input[inputs > 0 ? inputs : 1];

  explicit Region(const ElementArguments& given) {
    unrolled<inputs>([&](auto k) {
      const ElementArguments::Input& from = given.inputs[k];
      input[k] = {from.data, Divisor(from.inner), Divisor(from.count), from.inner > 0 ? from.count / from.inner : 0,
                  Divisor(from.repeats)};
    });
  }

  /// Which element of input k element i of the region reads.
  template <int k>
  TENET_HOST_DEVICE long index(long i) const {
    const Input& from = input[k];
    if constexpr (input_is_turned(k)) {
      const Divided matrix = divided(i, from.count), at = divided(matrix.rest, from.inner);
      return i - matrix.rest + at.rest * from.rows + at.quotient;
    }
    if constexpr (input_is_repeated(k)) {
      const Divided at = divided(i, from.count);
      return divided(at.quotient, from.repeats).quotient * from.count.by + at.rest;
    }
    if (from.count.by <= 1) return from.count.by == 0 ? i : 0;  // or one number, as a learning rate
    return divided(divided(i, from.inner).quotient, from.count).rest;
  }
  /// Number `i` of input k.
  template <int k>
  TENET_HOST_DEVICE float read(long i) const {
    if constexpr (input_is_narrow(k))
      return static_cast<float>(reinterpret_cast<const bfloat16*>(input[k].data)[i]);
    else
      return input[k].data[i];
  }

  /// The values of all operations, given those of the inputs.
  TENET_HOST_DEVICE static void evaluate(const float* given, float* values) {
    tenet::detail::evaluate_region<Code::decoded(), functions...>(given, values);
  }
  /// The value of output k.
  template <int k>
  TENET_HOST_DEVICE static float output(const float* given, const float* values) {
    constexpr int from = Code::decoded().output[k];
    if constexpr (from >= 0)
      return values[from];
    else
      return given[-1 - from];
  }

  /// What a sum takes of element i.
  TENET_HOST_DEVICE float summand(long i) const {
    float given[inputs > 0 ? inputs : 1], values[operations + 1];
    unrolled<inputs>([&](auto k) { given[k] = read<k>(index<k>(i)); });
    evaluate(given, values);
    return output<0>(given, values);
  }
};

template <int input, class Numbers>
struct LoadedInput {
  Numbers numbers;
};

/// Some neighbours of a region at a time: as many as 16 bytes of the narrowest operand hold.
template <class Code, auto... functions>
struct Neighbourhood : Region<Code, functions...> {
  using Base = Region<Code, functions...>;
  static constexpr int width = Code::decoded().narrow_inputs != 0 || Code::decoded().narrow_outputs != 0 ? 8 : 4;

  bool together;    ///< each input's neighbours lie side by side at an aligned address, or are one number
  Divisor row;      ///< the numbers of the rows that inputs repeat
  unsigned is_row;  ///< bit k: input k is such a row

  explicit Neighbourhood(const ElementArguments& given)
      : Base(given),
        together(given.block % width == 0 && given.total % width == 0 && Code::decoded().turned_inputs == 0),
        is_row(0) {
    unrolled<Base::inputs>([&](auto k) {
      const ElementArguments::Input& from = given.inputs[k];
      const bool one_at_a_time = Code::decoded().uniform[k] && from.count != 0;  // wherever it lies
      if (!one_at_a_time) check<Base::input_is_narrow(k)>(from.data);
      if (from.inner != 1 || from.count <= 1 || Base::input_is_repeated(k) || Base::input_is_turned(k)) return;
      if (row.by == 0) row = Divisor(from.count);
      if (row.by == from.count) is_row |= 1u << k;
    });
  }
  /// Whether operands lie as they have to.
  template <bool narrow>
  void check(const float* data) {
    together = together && is_aligned<std::conditional_t<narrow, bfloat16, float>, width>(data);
  }

  /// Which element of input k element i reads, where column is i % row: one division serves all rows.
  template <int k>
  TENET_HOST_DEVICE long place(long i, long column) const {
    return (is_row >> k & 1) != 0 ? column : Base::template index<k>(i);
  }
  /// What the elements `first` to first + `count` - 1 read of input k.
  template <int k>
  TENET_HOST_DEVICE void load(long first, long column, int count, float* numbers) const {
    using Number = std::conditional_t<Base::input_is_narrow(k), bfloat16, float>;
    if (!together) {
      TENET_UNROLL
      for (int j = 0; j < width; ++j)
        numbers[j] = j < count ? Base::template read<k>(place<k>(first + j, column + j)) : 0.0f;
      return;
    }
    const typename Base::Input& input = this->input[k];
    const long at = place<k>(first, column);
    if (Code::decoded().uniform[k] && input.count.by != 0) {
      const float number = Base::template read<k>(at);
      TENET_UNROLL
      for (int j = 0; j < width; ++j) numbers[j] = number;
    } else {
      load_neighbours<width>(reinterpret_cast<const Number*>(input.data) + at, numbers);
    }
  }
  /// Numbers of each input as they lie in memory.
  template <int k>
  using LoadedOf = Neighbours<std::conditional_t<Base::input_is_narrow(k), bfloat16, float>, width>;
  template <class Indices>
  struct LoadedInputs;
  template <int... K>
  struct LoadedInputs<std::integer_sequence<int, K...>> : LoadedInput<K, LoadedOf<K>>... {
    template <int k>
    TENET_HOST_DEVICE LoadedOf<k>& of() {
      return static_cast<LoadedInput<k, LoadedOf<k>>&>(*this).numbers;
    }
    template <int k>
    TENET_HOST_DEVICE const LoadedOf<k>& of() const {
      return static_cast<const LoadedInput<k, LoadedOf<k>>&>(*this).numbers;
    }
  };
  using Loaded = LoadedInputs<std::make_integer_sequence<int, Base::inputs>>;
  /// The numbers from `first` on of input k, which are together.
  template <int k>
  TENET_HOST_DEVICE LoadedOf<k> load_plain(long first) const {
    using Number = std::conditional_t<Base::input_is_narrow(k), bfloat16, float>;
    return *reinterpret_cast<const LoadedOf<k>*>(reinterpret_cast<const Number*>(this->input[k].data) + first);
  }
  /// Stores output k, which is together.
  template <int k>
  TENET_HOST_DEVICE static void store_plain(float* output, long first, const float* numbers) {
    using Number = std::conditional_t<Base::output_is_narrow(k), bfloat16, float>;
    store_neighbours<width>(reinterpret_cast<Number*>(output) + first, numbers);
  }
  /// Stores output k of the elements `first` to first + `count` - 1.
  template <int k>
  TENET_HOST_DEVICE void store(float* output, long first, int count, const float* numbers) const {
    if (together) return store_plain<k>(output, first, numbers);
    using Number = std::conditional_t<Base::output_is_narrow(k), bfloat16, float>;
    Number* const to = reinterpret_cast<Number*>(output) + first;
    TENET_UNROLL
    for (int j = 0; j < width; ++j)
      if (j < count) to[j] = static_cast<Number>(numbers[j]);
  }
  /// The outputs' values of these elements, which are of one row.
  TENET_HOST_DEVICE void compute(long first, long column, int count, float (*computed)[width]) const {
    Given given;
    unrolled<Base::inputs>([&](auto k) { load<k>(first, column, count, given.of[k]); });
    evaluate_all(given, computed);
  }

  /// What these elements read.
  struct Given {
    float of[Base::inputs > 0 ? Base::inputs : 1][width];
  };
  TENET_HOST_DEVICE static void evaluate_all(const Given& given, float (*computed)[width]) {
    TENET_UNROLL
    for (int j = 0; j < width; ++j) {
      float lane[Base::inputs > 0 ? Base::inputs : 1], values[Base::operations + 1];
      unrolled<Base::inputs>([&](auto k) { lane[k] = given.of[k][j]; });
      Base::evaluate(lane, values);
      unrolled<Base::outputs>([&](auto k) { computed[k][j] = Base::template output<k>(lane, values); });
    }
  }
};

}  // namespace tenet::gpu::detail
