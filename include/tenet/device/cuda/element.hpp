#pragma once

#include <algorithm>
#include <cstdint>
#include <tenet/device/cuda/index.hpp>
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

  ElementArguments arguments;

  /// Where element i of the region reads an input.
  template <bool turned>
  TENET_HOST_DEVICE static long index(const ElementArguments::Input& input, long i) {
    if constexpr (turned) {
      const Divided matrix = divided(i, input.count), at = divided(matrix.rest, input.inner);
      return i - matrix.rest + at.rest * divided(input.count, input.inner).quotient + at.quotient;
    }
    return input.count == 0 ? i : divided(divided(i, input.inner).quotient, input.count).rest;
  }
  template <bool narrow>
  TENET_HOST_DEVICE static float read(const float* data, long i) {
    if constexpr (narrow)
      return static_cast<float>(reinterpret_cast<const bfloat16*>(data)[i]);
    else
      return data[i];
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
    unrolled<inputs>([&](auto k) {
      given[k] = read<input_is_narrow(k)>(arguments.inputs[k].data, index<input_is_turned(k)>(arguments.inputs[k], i));
    });
    evaluate(given, values);
    return output<0>(given, values);
  }
};

/// The elements 4i to 4i + 3 of a region.
template <class Code, auto... functions>
struct StoreFour : Region<Code, functions...> {
  using Base = Region<Code, functions...>;
  using Base::arguments;
  bool in_fours;  ///< each input's four are neighbours at an aligned address, or one number; so are the results

  explicit StoreFour(const ElementArguments& given)
      : Base{given}, in_fours(given.block % 4 == 0 && given.total % 4 == 0 && Code::decoded().turned_inputs == 0) {
    unrolled<Base::inputs>([&](auto k) { check<Base::input_is_narrow(k)>(given.inputs[k].data); });
    unrolled<Base::outputs>([&](auto k) { check<Base::output_is_narrow(k)>(given.outputs[k]); });
  }
  template <bool narrow>
  void check(const float* data) {
    constexpr std::uintptr_t bytes = narrow ? sizeof(Four<bfloat16>) : sizeof(Four<float>);
    in_fours = in_fours && reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
  }

  template <int k>
  TENET_HOST_DEVICE void load(long first, int count, float* four) const {
    constexpr bool narrow = Base::input_is_narrow(k);
    using Number = std::conditional_t<narrow, bfloat16, float>;
    const ElementArguments::Input& input = arguments.inputs[k];
    const auto index = [&](long i) { return Base::template index<Base::input_is_turned(k)>(input, i); };
    if (!in_fours) {
      for (int j = 0; j < 4; ++j)
        four[j] = j < count ? Base::template read<narrow>(input.data, index(first + j)) : 0.0f;
      return;
    }
    const long at = index(first);
    if (Code::decoded().uniform[k] && input.count != 0) {
      const float number = Base::template read<narrow>(input.data, at);
      for (int j = 0; j < 4; ++j) four[j] = number;
    } else {
      const auto numbers = *reinterpret_cast<const Four<Number>*>(reinterpret_cast<const Number*>(input.data) + at);
      for (int j = 0; j < 4; ++j) four[j] = static_cast<float>(numbers.at[j]);
    }
  }
  template <int k>
  TENET_HOST_DEVICE void store(long first, int count, const float* four) const {
    using Number = std::conditional_t<Base::output_is_narrow(k), bfloat16, float>;
    Number* const to = reinterpret_cast<Number*>(arguments.outputs[k]) + first;
    Four<Number> numbers;
    for (int j = 0; j < 4; ++j) numbers.at[j] = static_cast<Number>(four[j]);
    if (in_fours)
      *reinterpret_cast<Four<Number>*>(to) = numbers;
    else
      for (int j = 0; j < count; ++j) to[j] = numbers.at[j];
  }

  TENET_HOST_DEVICE void operator()(long i) const {
    constexpr int inputs = Base::inputs > 0 ? Base::inputs : 1;
    const long first = 4 * i, rest = arguments.total - first;
    const int count = rest < 4 ? static_cast<int>(rest) : 4;
    float given[inputs][4], computed[Base::outputs][4];
    unrolled<Base::inputs>([&](auto k) { load<k>(first, count, given[k]); });
    unrolled<4>([&](auto j) {
      float lane[inputs], values[Base::operations + 1];
      unrolled<Base::inputs>([&](auto k) { lane[k] = given[k][j]; });
      Base::evaluate(lane, values);
      unrolled<Base::outputs>([&](auto k) { computed[k][j] = Base::template output<k>(lane, values); });
    });
    unrolled<Base::outputs>([&](auto k) { store<k>(first, count, computed[k]); });
  }
};

/// result[c] = the sum over elements i with (i / inner) % count = c, in `parts`: part p of number c is at to[p·count +
/// c].
template <class Region>
struct PartOfSums {
  Region region;
  long inner, count, outer, parts;
  float* to;

  /// For each part of each number one team.
  template <class Members>
  TENET_HOST_DEVICE void operator()(const Members& team, long row) const {
    const auto [part, number] = divided(row, count);
    const long length = outer * inner;
    const long first = length * part / parts, last = length * (part + 1) / parts;
    float sum = 0;
    for (long j = first + team.rank(); j < last; j += Members::size) {
      const Divided at = divided(j, inner);
      sum += region.summand((at.quotient * count + number) * inner + at.rest);
    }
    sum = team.sum(sum);
    if (team.rank() == 0) to[row] = sum;
  }
  /// For each part of each number one thread: neighbours read neighbours where `inner` is 1.
  TENET_HOST_DEVICE void operator()(long row) const {
    const auto [part, number] = divided(row, count);
    const long first = outer * part / parts, last = outer * (part + 1) / parts;
    float sum = 0;
    for (long j = first; j < last; ++j) sum += region.summand(j * count + number);
    to[row] = sum;
  }
};

/// result[c] = the sum of all parts of number c.
struct SumOfParts {
  const float* from;
  long count, parts;
  float* result;

  TENET_HOST_DEVICE void operator()(long number) const {
    float sum = 0;
    for (long part = 0; part < parts; ++part) sum += from[part * count + number];
    result[number] = sum;
  }
};

}  // namespace detail

/// How many parts a sum is computed in: enough threads for a large GPU, but parts that are worth starting. The same on
/// every device, so that the order of the sum is.
constexpr long parts_of_sum(Role role, long count, long length) {
  constexpr long threads = 1 << 17;  // what a GPU of 132 processors can hold is twice as many
  const long wanted = role == Role::sum_rows ? threads / count : threads / 128 / count;
  const long most = role == Role::sum_rows ? length / 32 : length / 2048;
  return std::clamp(wanted, 1l, std::max(most, 1l));
}

/// Starts a region's kernel: that which stores, or with `accumulator` the sums of `run_reduce` below, where [first,
/// last) are the neighbours of one number, and `stride` those of all numbers.
template <class Executor, Role role, Wiring wiring, auto... functions>
void element_range(const ElementArguments& arguments, long first, long last, long stride, long repeat,
                   float* accumulator) {
  Executor& executor = *static_cast<Executor*>(arguments.executor);
  if constexpr (role == Role::store) {
    for_each(executor, (arguments.total + 3) / 4, detail::StoreFour<detail::CodeOf<wiring>, functions...>(arguments));
  } else {
    using Region = detail::Region<detail::CodeOf<wiring>, functions...>;
    const long inner = last - first, count = stride / inner, length = repeat * inner;
    const long parts = parts_of_sum(role, count, length);
    float* const to = parts == 1 ? accumulator : static_cast<float*>(executor.workspace());
    const detail::PartOfSums<Region> work{Region{arguments}, inner, count, repeat, parts, to};
    if constexpr (role == Role::sum_rows)
      for_each(executor, parts * count, work);
    else
      for_each_row(executor, parts * count, length / parts, work);
    if (parts > 1) for_each(executor, count, detail::SumOfParts{to, count, parts, accumulator});
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
