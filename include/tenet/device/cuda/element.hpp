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

/// Bytes of a wiring's code before those of its operations.
inline constexpr int code_header = 24;

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
    for (int k = 0; k < max_region_outputs; ++k) w.output[k] = number(k < 4 ? 4 + k : 14 + k);
    w.narrow_inputs = static_cast<unsigned short>(byte(8) | byte(9) << 8);
    for (int k = 0; k < max_region_inputs; ++k) w.uniform[k] = (byte(10 + k / 8) >> k % 8 & 1) != 0;
    w.turned_inputs = static_cast<unsigned short>(byte(12) | byte(13) << 8);
    w.summed = number(14), w.moments = byte(15) != 0;
    w.rows = static_cast<unsigned short>(byte(16) | byte(17) << 8);
    w.repeated_inputs = static_cast<unsigned short>(byte(20) | byte(21) << 8);
    for (int i = 0; i < w.operations; ++i)
      for (int k = 0; k < 4; ++k) w.source[i][k] = number(code_header + 4 * i + k);
    return w;
  }
};

/// Word `at` of a wiring's code.
constexpr unsigned long code_word(const Wiring& w, int at) {
  unsigned char bytes[code_header + 4 * max_region_operations]{};
  const auto put = [&](int i, int number) { bytes[i] = static_cast<unsigned char>(number); };
  put(0, w.operations), put(1, w.inputs), put(2, w.outputs), put(3, w.narrow_outputs);
  for (int k = 0; k < max_region_outputs; ++k) put(k < 4 ? 4 + k : 14 + k, w.output[k]);
  put(8, w.narrow_inputs & 0xff), put(9, w.narrow_inputs >> 8);
  put(12, w.turned_inputs & 0xff), put(13, w.turned_inputs >> 8), put(14, w.summed), put(15, w.moments);
  put(16, w.rows & 0xff), put(17, w.rows >> 8);
  put(20, w.repeated_inputs & 0xff), put(21, w.repeated_inputs >> 8);
  for (int k = 0; k < max_region_inputs; ++k) put(10 + k / 8, bytes[10 + k / 8] | w.uniform[k] << k % 8);
  for (int i = 0; i < w.operations; ++i)
    for (int k = 0; k < 4; ++k) put(code_header + 4 * i + k, w.source[i][k]);
  unsigned long word = 0;
  for (int i = 0; i < 8; ++i) word |= static_cast<unsigned long>(bytes[8 * at + i]) << 8 * i;
  return word;
}

template <Wiring wiring, int... I>
auto code_of(std::integer_sequence<int, I...>) -> WiringCode<code_word(wiring, I)...>;
template <Wiring wiring>
using CodeOf =
    decltype(code_of<wiring>(std::make_integer_sequence<int, code_header / 8 + (wiring.operations + 1) / 2>{}));

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

  TENET_HOST_DEVICE void operator()(long i) const {
    const long first = together ? width * i : i;
    const long column = this->is_row != 0 ? divided(first, this->row).rest : 0;
    float computed[Base::outputs][width];
    Base::compute(first, column, 1, computed);
    unrolled<Base::outputs>([&](auto k) { Base::template store<k>(outputs[k], first, 1, computed[k]); });
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

/// The same where `inner` is 1, neighbouring numbers have neighbouring terms: sums of the columns of a region's outputs,
/// but of those of `Role::store_and_sum` that are stored. Moments are taken about the first row: the sums of squares are
/// of numbers that are about as large as their deviations.
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
  } else if constexpr (role == Role::sum_rows || role == Role::store_and_sum) {
    const detail::TermsOfColumns<Code, functions...> terms(arguments, count, accumulator);
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

/// Stores and sums, see `Role::store_and_sum`: each sum has a number for each of so many columns.
template <class Executor>
void run_store_and_sum(Executor&, ElementRange range, const ElementArguments& arguments, long columns) {
  range(arguments, 0, 1, columns, arguments.total / columns, nullptr);
}

/// result[c] = sum over i with (i / inner) % count = c; `role` is sum_rows where inner = 1 and count > 1.
template <class Executor>
void run_reduce(Executor&, Role, ElementRange range, const ElementArguments& arguments, long inner, long count,
                float* result, Epilogue epilogue) {
  range(arguments, 0, inner, inner * count, arguments.total / (inner * count), result);
  epilogue(0, count);
}

}  // namespace tenet::gpu
