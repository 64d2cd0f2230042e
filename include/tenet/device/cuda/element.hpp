#pragma once

#include <algorithm>
#include <cstdint>
#include <tenet/device/cuda/index.hpp>
#include <tenet/device/cuda/parts.hpp>
#include <tenet/device/cuda/team.hpp>
#include <tenet/device/element.hpp>

/// Element-wise regions and sums on a GPU: one kernel for each distinct region.
namespace tenet::gpu {

namespace detail {

/// Four numbers that are read or written at once.
template <class Number>
struct alignas(4 * sizeof(Number)) Four {
  Number at[4];
};

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

/// Four neighbours of a region at a time.
template <class Code, auto... functions>
struct Fours : Region<Code, functions...> {
  using Base = Region<Code, functions...>;
  bool in_fours;  ///< each input's four are neighbours at an aligned address, or one number

  explicit Fours(const ElementArguments& given)
      : Base(given), in_fours(given.block % 4 == 0 && given.total % 4 == 0 && Code::decoded().turned_inputs == 0) {
    unrolled<Base::inputs>([&](auto k) { check<Base::input_is_narrow(k)>(given.inputs[k].data); });
  }
  template <bool narrow>
  void check(const float* data) {
    constexpr std::uintptr_t bytes = narrow ? sizeof(Four<bfloat16>) : sizeof(Four<float>);
    in_fours = in_fours && reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  }

  /// What the elements `first` to first + `count` - 1 read of input k.
  template <int k>
  TENET_HOST_DEVICE void load(long first, int count, float* four) const {
    using Number = std::conditional_t<Base::input_is_narrow(k), bfloat16, float>;
    if (!in_fours) {
      for (int j = 0; j < 4; ++j)
        four[j] = j < count ? Base::template read<k>(Base::template index<k>(first + j)) : 0.0f;
      return;
    }
    const typename Base::Input& input = this->input[k];
    const long at = Base::template index<k>(first);
    if (Code::decoded().uniform[k] && input.count.by != 0) {
      const float number = Base::template read<k>(at);
      for (int j = 0; j < 4; ++j) four[j] = number;
    } else {
      const auto numbers = *reinterpret_cast<const Four<Number>*>(reinterpret_cast<const Number*>(input.data) + at);
      for (int j = 0; j < 4; ++j) four[j] = static_cast<float>(numbers.at[j]);
    }
  }
  /// The outputs' values of these elements.
  TENET_HOST_DEVICE void compute(long first, int count, float (*computed)[4]) const {
    constexpr int inputs = Base::inputs > 0 ? Base::inputs : 1;
    float given[inputs][4];
    unrolled<Base::inputs>([&](auto k) { load<k>(first, count, given[k]); });
    unrolled<4>([&](auto j) {
      float lane[inputs], values[Base::operations + 1];
      unrolled<Base::inputs>([&](auto k) { lane[k] = given[k][j]; });
      Base::evaluate(lane, values);
      unrolled<Base::outputs>([&](auto k) { computed[k][j] = Base::template output<k>(lane, values); });
    });
  }
};

/// Stores the elements 4i to 4i + 3.
template <class Code, auto... functions>
struct StoreFour : Fours<Code, functions...> {
  using Base = Fours<Code, functions...>;
  using Base::in_fours;  ///< and so are the results
  float* outputs[Base::outputs];
  long total;

  explicit StoreFour(const ElementArguments& given) : Base(given), total(given.total) {
    unrolled<Base::outputs>([&](auto k) {
      outputs[k] = given.outputs[k];
      Base::template check<Base::output_is_narrow(k)>(outputs[k]);
    });
  }

  template <int k>
  TENET_HOST_DEVICE void store(long first, int count, const float* four) const {
    using Number = std::conditional_t<Base::output_is_narrow(k), bfloat16, float>;
    Number* const to = reinterpret_cast<Number*>(outputs[k]) + first;
    Four<Number> numbers;
    for (int j = 0; j < 4; ++j) numbers.at[j] = static_cast<Number>(four[j]);
    if (in_fours)
      *reinterpret_cast<Four<Number>*>(to) = numbers;
    else
      for (int j = 0; j < count; ++j) to[j] = numbers.at[j];
  }

  TENET_HOST_DEVICE void operator()(long i) const {
    const long first = 4 * i, rest = total - first;
    const int count = rest < 4 ? static_cast<int>(rest) : 4;
    float computed[Base::outputs][4];
    Base::compute(first, count, computed);
    unrolled<Base::outputs>([&](auto k) { store<k>(first, count, computed[k]); });
  }
};

/// result[c] = the sum over elements i with (i / inner) % count = c, in `parts`: part p of number c is at to[p·count +
/// c]. For each part of each number one team.
template <class Region>
struct PartOfSums {
  Region region;
  Divisor inner, count;
  long outer, parts;
  float* to;

  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const auto [part, number] = divided(row, count);
    const long length = outer * inner.by;
    const long first = length * part / parts, last = length * (part + 1) / parts;
    float sum = 0;
    for (long j = first + team.rank(); j < last; j += Members::size) {
      const Divided at = divided(j, inner);
      sum += region.summand((at.quotient * count.by + number) * inner.by + at.rest);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) to[row] = sum;
  }
};

/// The same where `inner` is 1. For each part of four numbers one thread: neighbours read neighbours.
template <class Fours>
struct PartOfRowSums {
  static_assert(Fours::outputs == 1);
  Fours fours;
  Divisor fours_of_row;
  long count, outer, parts;
  float* to;

  PartOfRowSums(const ElementArguments& arguments, long numbers, long rows, long parts_of_rows, float* sums)
      : fours(arguments), fours_of_row((numbers + 3) / 4), count(numbers), outer(rows), parts(parts_of_rows), to(sums) {
    fours.in_fours = fours.in_fours && count % 4 == 0;
  }

  TENET_HOST_DEVICE void operator()(long i) const {
    const auto [part, four] = divided(i, fours_of_row);
    const long first = outer * part / parts, last = outer * (part + 1) / parts, rest = count - 4 * four;
    const int numbers = rest < 4 ? static_cast<int>(rest) : 4;
    float sum[4] = {};
    for (long row = first; row < last; ++row) {
      float terms[1][4];
      fours.compute(row * count + 4 * four, numbers, terms);
      for (int j = 0; j < 4; ++j) sum[j] += terms[0][j];
    }
    for (int j = 0; j < numbers; ++j) to[part * count + 4 * four + j] = sum[j];
  }
};

}  // namespace detail

/// Starts a region's kernel: that which stores, or with `accumulator` the sums of `run_reduce` below, where [first,
/// last) are the neighbours of one number, and `stride` those of all numbers.
template <class Executor, Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  Executor& executor = *static_cast<Executor*>(arguments.executor);
  if constexpr (role == Role::store) {
    for_each(executor, (arguments.total + 3) / 4, detail::StoreFour<detail::CodeOf<wiring>, functions...>(arguments));
  } else {
    using Code = detail::CodeOf<wiring>;
    using detail::Divisor;
    const long inner = last - first, count = stride / inner, length = repeat * inner;
    const long works = role == Role::sum_rows ? (count + 3) / 4 : count;  // of each part
    const long parts = parts_of_sum(role, works, length);
    float* const to = parts == 1 ? accumulator : static_cast<float*>(executor.workspace());
    if constexpr (role == Role::sum_rows) {
      using Fours = detail::Fours<Code, functions...>;
      for_each(executor, parts * works, detail::PartOfRowSums<Fours>(arguments, count, repeat, parts, to));
    } else {
      using Region = detail::Region<Code, functions...>;
      for_each_row(executor, parts * works, length / parts,
                   detail::PartOfSums<Region>{Region(arguments), Divisor(inner), Divisor(count), repeat, parts, to});
    }
    if (parts > 1) add_up_parts(executor, to, count, parts, accumulator);
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
