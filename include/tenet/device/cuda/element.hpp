#pragma once

#include <algorithm>
#include <cstdint>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/neighbours.hpp>
#include <tenet/device/cuda/sums.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/element.hpp>

/// Element-wise regions and sums on a GPU: one kernel for each distinct region.
namespace tenet::gpu {

namespace detail {

/// A wiring as integers. nvcc repeats the template arguments of every kernel in code that it makes for the host, and
/// writes objects of classes in a way that no compiler reads.
template <unsigned long... words>
struct WiringCode {
  static constexpr int byte(int i) {
    constexpr unsigned long all[]{words...};
    return static_cast<int>(all[i / 8] >> (i % 8 * 8) & 0xff);
  }
  static constexpr Wiring decoded() {
    Wiring w;
    const auto number = [](int i) { return static_cast<signed char>(byte(i)); };
    w.operations = number(0), w.inputs = number(1), w.outputs = number(2);
    w.narrow_outputs = static_cast<unsigned char>(byte(3));
    for (int k = 0; k < max_region_outputs; ++k) w.output[k] = number(4 + k);
    w.narrow_inputs = static_cast<unsigned short>(byte(8) | byte(9) << 8);
    for (int k = 0; k < max_region_inputs; ++k) w.uniform[k] = (byte(10 + k / 8) >> k % 8 & 1) != 0;
    w.turned_inputs = static_cast<unsigned short>(byte(12) | byte(13) << 8);
    for (int i = 0; i < w.operations; ++i)
      for (int k = 0; k < 4; ++k) w.source[i][k] = number(16 + 4 * i + k);
    return w;
  }
};

/// Word `at` of a wiring's code.
constexpr unsigned long code_word(const Wiring& w, int at) {
  unsigned char bytes[16 + 4 * max_region_operations]{};
  const auto put = [&](int i, int number) { bytes[i] = static_cast<unsigned char>(number); };
  put(0, w.operations), put(1, w.inputs), put(2, w.outputs), put(3, w.narrow_outputs);
  for (int k = 0; k < max_region_outputs; ++k) put(4 + k, w.output[k]);
  put(8, w.narrow_inputs & 0xff), put(9, w.narrow_inputs >> 8);
  put(12, w.turned_inputs & 0xff), put(13, w.turned_inputs >> 8);
  for (int k = 0; k < max_region_inputs; ++k) put(10 + k / 8, bytes[10 + k / 8] | w.uniform[k] << k % 8);
  for (int i = 0; i < w.operations; ++i)
    for (int k = 0; k < 4; ++k) put(16 + 4 * i + k, w.source[i][k]);
  unsigned long word = 0;
  for (int i = 0; i < 8; ++i) word |= static_cast<unsigned long>(bytes[8 * at + i]) << 8 * i;
  return word;
}

template <Wiring wiring, int... I>
auto code_of(std::integer_sequence<int, I...>) -> WiringCode<code_word(wiring, I)...>;
template <Wiring wiring>
using CodeOf = decltype(code_of<wiring>(std::make_integer_sequence<int, 2 + (wiring.operations + 1) / 2>{}));

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
  static constexpr bool output_is_narrow(int k) { return Code::decoded().output_is_narrow(k); }

  /// As in `ElementArguments`.
  struct Input {
    const float* data;
    Divisor inner, count;
    long rows;  ///< count / inner
  };
  Input input[inputs > 0 ? inputs : 1];

  explicit Region(const ElementArguments& given) {
    unrolled<inputs>([&](auto k) {
      const ElementArguments::Input& from = given.inputs[k];
      input[k] = {from.data, Divisor(from.inner), Divisor(from.count), from.inner > 0 ? from.count / from.inner : 0};
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
      if (from.inner != 1 || from.count <= 1 || Base::input_is_turned(k)) return;
      if (row.by == 0) row = Divisor(from.count);
      if (row.by == from.count) is_row |= 1u << k;
    });
  }
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
  /// The outputs' values of these elements, which are of one row.
  TENET_HOST_DEVICE void compute(long first, long column, int count, float (*computed)[width]) const {
    constexpr int inputs = Base::inputs > 0 ? Base::inputs : 1;
    float given[inputs][width];
    unrolled<Base::inputs>([&](auto k) { load<k>(first, column, count, given[k]); });
    TENET_UNROLL
    for (int j = 0; j < width; ++j) {
      float lane[inputs], values[Base::operations + 1];
      unrolled<Base::inputs>([&](auto k) { lane[k] = given[k][j]; });
      Base::evaluate(lane, values);
      unrolled<Base::outputs>([&](auto k) { computed[k][j] = Base::template output<k>(lane, values); });
    }
  }
};

/// Stores a region's elements: `width` neighbours, or one if they are not together.
template <class Code, auto... functions>
struct StoreNeighbours : Neighbourhood<Code, functions...> {
  using Base = Neighbourhood<Code, functions...>;
  using Base::together;  ///< and so are the results
  using Base::width;
  float* outputs[Base::outputs];
  long total;

  explicit StoreNeighbours(const ElementArguments& given) : Base(given), total(given.total) {
    unrolled<Base::outputs>([&](auto k) {
      outputs[k] = given.outputs[k];
      Base::template check<Base::output_is_narrow(k)>(outputs[k]);
    });
  }
  /// How often it is called.
  long calls() const { return together ? total / width : total; }

  template <int k>
  TENET_HOST_DEVICE void store(long first, const float* numbers) const {
    using Number = std::conditional_t<Base::output_is_narrow(k), bfloat16, float>;
    Number* const to = reinterpret_cast<Number*>(outputs[k]) + first;
    if (!together) {
      to[0] = static_cast<Number>(numbers[0]);
      return;
    }
    store_neighbours<width>(to, numbers);
  }

  TENET_HOST_DEVICE void operator()(long i) const {
    const long first = together ? width * i : i;
    const long column = this->is_row != 0 ? divided(first, this->row).rest : 0;
    float computed[Base::outputs][width];
    Base::compute(first, column, 1, computed);
    unrolled<Base::outputs>([&](auto k) { store<k>(first, computed[k]); });
  }
};

/// Stores a region without operations that reads matrices the other way round: element q·inner + r of a matrix is
/// element r·rows + q of the input's. Neighbouring threads write neighbours, as memory takes whole sectors only; what
/// they read apart, others read soon. Where there are fewer q than r, a thread takes all q of one r, which lie side by
/// side.
template <class Code>
struct StoreTurned : Region<Code> {
  using Base = Region<Code>;
  using Number = std::conditional_t<Base::output_is_narrow(0), bfloat16, float>;
  long rows, inner, total;
  bool takes_all_rows;
  Number* output;

  explicit StoreTurned(const ElementArguments& given)
      : Base(given),
        rows(this->input[0].rows),
        inner(given.inputs[0].inner),
        total(given.total),
        takes_all_rows(rows < inner),
        output(reinterpret_cast<Number*>(given.outputs[0])) {}
  long calls() const { return takes_all_rows ? total / rows : total; }

  TENET_HOST_DEVICE void operator()(long i) const {
    if (!takes_all_rows) {
      output[i] = static_cast<Number>(Base::template read<0>(Base::template index<0>(i)));
      return;
    }
    const Divided at = divided(i, this->input[0].inner);
    const long first = at.quotient * rows * inner;
    for (long q = 0; q < rows; ++q)
      output[first + q * inner + at.rest] = static_cast<Number>(Base::template read<0>(first + at.rest * rows + q));
  }
};

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

/// The same where `inner` is 1: neighbouring numbers have neighbouring terms.
template <class Neighbourhood>
struct TermsOfColumns {
  static_assert(Neighbourhood::outputs == 1);
  static constexpr int numbers = Neighbourhood::width;
  Neighbourhood region;
  long count;
  float* result;

  TermsOfColumns(const ElementArguments& arguments, long columns, float* sums)
      : region(arguments), count(columns), result(sums) {
    region.together = region.together && count % numbers == 0;
    if (region.row.by != count) region.is_row = 0;  // a row's columns are those of the sums
  }
  long lanes() const { return (count + numbers - 1) / numbers; }

  TENET_HOST_DEVICE void of(long row, long lane, float* to) const {
    const long column = numbers * lane, rest = count - column;
    float computed[1][numbers];
    region.compute(row * count + column, column, rest < numbers ? static_cast<int>(rest) : numbers, computed);
    TENET_UNROLL
    for (int k = 0; k < numbers; ++k) to[k] = computed[0][k];
  }
  TENET_HOST_DEVICE void store(long lane, const float* sums) const {
    for (int k = 0; k < numbers; ++k)
      if (numbers * lane + k < count) result[numbers * lane + k] = sums[k];
  }
};

}  // namespace detail

/// Starts a region's kernel: that which stores, or with `accumulator` the sums of `run_reduce` below, where [first,
/// last) are the neighbours of one number, and `stride` those of all numbers.
template <class Executor, Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  Executor& executor = *static_cast<Executor*>(arguments.executor);
  using Code = detail::CodeOf<wiring>;
  const long inner = last - first, count = stride / (inner > 0 ? inner : 1);
  if constexpr (role == Role::store && wiring.operations == 0 && wiring.inputs == 1 && wiring.outputs == 1 &&
                wiring.turned_inputs == 1) {
    const detail::StoreTurned<Code> work(arguments);
    for_each(executor, work.calls(), work);
  } else if constexpr (role == Role::store) {
    const detail::StoreNeighbours<Code, functions...> work(arguments);
    for_each(executor, work.calls(), work);
  } else if constexpr (role == Role::sum_rows) {
    const detail::TermsOfColumns<detail::Neighbourhood<Code, functions...>> terms(arguments, count, accumulator);
    run_sums(executor, terms, repeat, terms.lanes(), true);
  } else {
    using Region = detail::Region<Code, functions...>;
    const long rows = repeat * inner;
    const bool side_by_side = rows < 32 || wiring.turned_inputs != 0;  // a number's terms, or those of neighbours
    run_sums(executor, detail::TermsOfNumbers<Region>{Region(arguments), detail::Divisor(inner), count, accumulator},
             rows, count, side_by_side);
  }
}

template <class Executor>
void run_element(Executor&, ElementRange range, const ElementArguments& arguments) {
  range(arguments, 0, arguments.total, 0, 1, nullptr);
}

/// result[c] = sum over i with (i / inner) % count = c; `role` is sum_rows where inner = 1 and count > 1.
template <class Executor>
void run_reduce(Executor&, Role, ElementRange range, const ElementArguments& arguments, long inner, long count,
                float* result, Epilogue epilogue) {
  range(arguments, 0, inner, inner * count, arguments.total / (inner * count), result);
  epilogue(0, count);
}

}  // namespace tenet::gpu
