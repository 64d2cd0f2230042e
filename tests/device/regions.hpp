#pragma once

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <tuple>
#include <utility>

#include "random_numbers.hpp"
#include "tenet/core/vector_math.hpp"
#include "tenet/device/element.hpp"

/// The laws of a device's element-wise loop, on one region over operands that are broadcast in every way:
///   a = x·y;  b = a + z;  c = a - 2 z.
/// Values are small whole numbers, so that the loop has to give exactly what plain index arithmetic gives.
namespace regions {

using namespace tenet;

template <class Lane>
TENET_HOST_DEVICE inline Lane multiply(Lane a, Lane b, Lane, Lane) {
  return a * b;
}
template <class Lane>
TENET_HOST_DEVICE inline Lane add(Lane a, Lane b, Lane, Lane) {
  return a + b;
}
template <class Lane>
TENET_HOST_DEVICE inline Lane subtract_twice(Lane a, Lane b, Lane, Lane) {
  return a - 2.0f * b;
}

/// A result's type, and the types of the operands x, y and z.
template <class To_, class X, class Y, class Z>
struct Case {
  using To = To_;
  static constexpr Access accesses[]{access_of(To::info, X::info), access_of(To::info, Y::info),
                                     access_of(To::info, Z::info)};
  static constexpr bool is_readable(const Access& access) { return access.regular || access.repeats > 1; }
  static_assert(is_readable(accesses[0]) && is_readable(accesses[1]) && is_readable(accesses[2]));
  static constexpr long sizes[]{X::size, Y::size, Z::size};
  static constexpr bool batched[]{X::batched, Y::batched, Z::batched};

  /// What is stored: b, c and the operand y itself; what is summed: c.
  static constexpr Wiring wiring(Role role) {
    Wiring made;
    made.operations = 3;
    made.inputs = 3;
    made.outputs = role == Role::store ? 3 : 1;
    const signed char sources[3][4]{{0, 1, 0, 0}, {-1, 2, -1, -1}, {-1, 2, -1, -1}};
    for (int i = 0; i < 3; ++i)
      for (int k = 0; k < 4; ++k) made.source[i][k] = sources[i][k];
    const signed char stored[]{1, 2, -2};
    for (int k = 0; k < made.outputs; ++k)
      made.output[k] = role == Role::store ? stored[k] : static_cast<signed char>(2);
    for (int k = 0; k < 3; ++k) {
      made.uniform[k] = accesses[k].uniform();
      made.repeated_inputs = static_cast<unsigned short>(made.repeated_inputs | (accesses[k].repeats > 1) << k);
    }
    return made;
  }
  template <class Kernels, Role role>
  static constexpr ElementRange range =
      Kernels::template element_range<role, wiring(role), &multiply<typename Kernels::Lane>,
                                      &add<typename Kernels::Lane>, &subtract_twice<typename Kernels::Lane>>;

  /// Blocks in which every operand, and what is summed to one element, is contiguous or uniform.
  static constexpr long block(long of_sum = 0) {
    for (const Access& access : accesses) of_sum = greatest_common_divisor(access.block(), of_sum);
    return of_sum;
  }
};

/// Operands of a case for a batch, and its results by plain index arithmetic.
template <class Case>
struct Numbers {
  long total;
  std::vector<float> operands[3], b, c, y;

  explicit Numbers(long batch) : total(Case::To::size * (Case::To::batched ? batch : 1)) {
    for (int k = 0; k < 3; ++k)
      for (const int value : random_integers(Case::sizes[k] * (Case::batched[k] ? batch : 1), -3, 4, k))
        operands[k].push_back(static_cast<float>(value));
    for (long i = 0; i < total; ++i) {
      float read[3];
      for (int k = 0; k < 3; ++k) {
        const Access& access = Case::accesses[k];
        const long at = access.full          ? i
                        : access.repeats > 1 ? i / Case::To::size * access.count + i % access.count
                                             : i / access.inner % static_cast<long>(operands[k].size());
        read[k] = operands[k][static_cast<std::size_t>(at)];
      }
      b.push_back(read[0] * read[1] + read[2]);
      c.push_back(read[0] * read[1] - 2 * read[2]);
      y.push_back(read[1]);
    }
  }

  ElementArguments arguments(long batch, long block) const {
    ElementArguments result{};
    for (int k = 0; k < 3; ++k) result.inputs[k] = ElementArguments::bind(operands[k].data(), Case::accesses[k], batch);
    result.total = total;
    result.block = block > 0 ? block : total;
    return result;
  }
};

inline constexpr float untouched = 12345.25f;

/// Results with a border, to see what is written beside them.
struct Target {
  std::vector<float> floats;
  explicit Target(long size) : floats(static_cast<std::size_t>(size) + 128, untouched) {}
  float* data() { return floats.data() + 64; }
};

/// Elements [first, last) hold what is expected, and all others are as before.
inline void check_written(Target& target, const std::vector<float>& expected, long first, long last) {
  std::vector<float> wanted(target.floats.size(), untouched);
  std::copy(expected.begin() + first, expected.begin() + last, wanted.begin() + 64 + first);
  CHECK(target.floats == wanted);
}

/// Stores over ranges that begin and end anywhere, and sums of them, once or several times at a distance.
template <class Kernels, class Case>
void check_ranges(long batch) {
  const Numbers<Case> numbers(batch);
  const long n = numbers.total;
  CAPTURE(batch, n);
  const long ranges[][4] = {{0, n, 0, 1},         {n / 3, n, 0, 1},        {1, n - 1, 0, 1},
                            {n / 2, n / 2, 0, 1}, {0, n / 4, n / 4, 4},    {n / 7, n / 5, n / 3, 2},
                            {0, n / 2, n / 4, 2}, {0, n / 8, 3 * n / 8, 2}};
  for (const auto& [first, last, stride, repeat] : ranges) {
    if (last < first) continue;
    CAPTURE(first, last, stride, repeat);
    ElementArguments arguments = numbers.arguments(batch, Case::block());
    Target b(n), c(n), y(n);
    arguments.outputs[0] = b.data(), arguments.outputs[1] = c.data(), arguments.outputs[2] = y.data();
    Case::template range<Kernels, Role::store>(arguments, first, last, 0, 1, nullptr);
    check_written(b, numbers.b, first, last);
    check_written(c, numbers.c, first, last);
    check_written(y, numbers.y, first, last);

    float sum = 100;  // sums are added to what is there
    Case::template range<Kernels, Role::sum>(arguments, first, last, stride, repeat, &sum);
    std::vector<float> rows(static_cast<std::size_t>(last - first + 64), 7), expected = rows;
    Case::template range<Kernels, Role::sum_rows>(arguments, first, last, stride, repeat, rows.data());
    float expected_sum = 100;
    for (long r = 0; r < repeat; ++r)
      for (long i = first; i < last; ++i) {
        expected_sum += numbers.c[static_cast<std::size_t>(i + r * stride)];
        expected[static_cast<std::size_t>(i - first)] += numbers.c[static_cast<std::size_t>(i + r * stride)];
      }
    CHECK(sum == expected_sum);
    CHECK(rows == expected);
  }
}

/// A whole region, on one executor.
template <class Kernels, class Case>
void check_stores(typename Kernels::Executor& executor, long batch) {
  const Numbers<Case> numbers(batch);
  CAPTURE(batch, numbers.total);
  ElementArguments arguments = numbers.arguments(batch, Case::block());
  Target b(numbers.total), c(numbers.total), y(numbers.total);
  arguments.outputs[0] = b.data(), arguments.outputs[1] = c.data(), arguments.outputs[2] = y.data();
  run_element(executor, Case::template range<Kernels, Role::store>, arguments);
  check_written(b, numbers.b, 0, numbers.total);
  check_written(c, numbers.c, 0, numbers.total);
  check_written(y, numbers.y, 0, numbers.total);
}

/// Stores and sums with operands and results that are narrow, as the bits of `inputs` and `outputs` say, over a range
/// that begins and ends anywhere. All numbers are short enough to be kept.
template <class Kernels, class Case, int inputs, int outputs>
void check_narrow(long batch) {
  using Lane = typename Kernels::Lane;
  constexpr auto narrowed = [](Role role) {
    Wiring made = Case::wiring(role);
    made.narrow_inputs = inputs;
    made.narrow_outputs = role == Role::store ? outputs : 0;
    return made;
  };
  constexpr ElementRange store = Kernels::template element_range<Role::store, narrowed(Role::store), &multiply<Lane>,
                                                                 &add<Lane>, &subtract_twice<Lane>>;
  constexpr ElementRange sum = Kernels::template element_range<Role::sum, narrowed(Role::sum), &multiply<Lane>,
                                                               &add<Lane>, &subtract_twice<Lane>>;
  const Numbers<Case> numbers(batch);
  ElementArguments arguments = numbers.arguments(batch, Case::block());
  std::vector<bfloat16> narrow[3];
  for (int k = 0; k < 3; ++k) {
    for (const float value : numbers.operands[k]) narrow[k].push_back(bfloat16(value));
    if (inputs >> k & 1) arguments.inputs[k].data = reinterpret_cast<const float*>(narrow[k].data());
  }
  const auto n = static_cast<std::size_t>(numbers.total), border = std::size_t{64};
  const std::vector<float>* const expected[]{&numbers.b, &numbers.c, &numbers.y};
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, n}, {n / 3, n - n / 4}}) {
    CAPTURE(batch, first, last, inputs, outputs);
    std::vector<float> whole[3];
    std::vector<bfloat16> halves[3];
    for (int k = 0; k < 3; ++k) {
      whole[k].assign(n + 2 * border, untouched);
      halves[k].assign(n + 2 * border, bfloat16(untouched));
      arguments.outputs[k] = outputs >> k & 1 ? reinterpret_cast<float*>(&halves[k][border]) : whole[k].data() + border;
    }
    store(arguments, static_cast<long>(first), static_cast<long>(last), 0, 1, nullptr);
    float total = 0, expected_total = 0;
    sum(arguments, static_cast<long>(first), static_cast<long>(last), 0, 1, &total);
    for (std::size_t i = first; i < last; ++i) expected_total += numbers.c[i];
    CHECK(total == expected_total);
    for (int k = 0; k < 3; ++k) {
      const bool is_narrow = (outputs >> k & 1) != 0;
      const float kept = is_narrow ? static_cast<float>(bfloat16(untouched)) : untouched;
      int wrong = 0;
      for (std::size_t i = 0; i < n + 2 * border; ++i) {
        const float found = is_narrow ? static_cast<float>(halves[k][i]) : whole[k][i];
        const bool inside = i >= border + first && i < border + last;
        wrong += found != (inside ? (*expected[k])[i - border] : kept);
      }
      CHECK(wrong == 0);
    }
  }
}

/// A sum to the type Sum behind a region, and an epilogue behind the sum: it sees each result once, when it is there.
template <class Kernels, class Case, class Sum>
void check_sum(typename Kernels::Executor& executor, long batch) {
  constexpr Access sum = access_of(Case::To::info, Sum::info);
  static_assert(sum.regular && !sum.full);
  constexpr Role role = sum.inner == 1 && sum.count > 1 ? Role::sum_rows : Role::sum;
  const Numbers<Case> numbers(batch);
  const long count = sum.count * (sum.batched ? batch : 1);
  CAPTURE(batch, numbers.total, sum.inner, count);
  std::vector<float> expected(static_cast<std::size_t>(count));
  for (long i = 0; i < numbers.total; ++i)
    expected[static_cast<std::size_t>(i / sum.inner % count)] += numbers.c[static_cast<std::size_t>(i)];

  struct Seen {
    Target result;
    std::vector<float> values;
  } seen{Target(count), std::vector<float>(static_cast<std::size_t>(count), untouched)};
  const Epilogue epilogue{[](const void* state, long first, long last) {
                            auto& self = *static_cast<Seen*>(const_cast<void*>(state));
                            for (long i = first; i < last; ++i) {
                              float& value = self.values[static_cast<std::size_t>(i)];
                              value = value == untouched ? self.result.data()[i] : -untouched;  // a second time
                            }
                          },
                          &seen};
  const ElementArguments arguments = numbers.arguments(batch, Case::block(sum.block()));
  run_reduce(executor, role, Case::template range<Kernels, role>, arguments, sum.inner, count, seen.result.data(),
             epilogue);
  check_written(seen.result, expected, 0, count);
  CHECK(seen.values == expected);
}

/// The wiring of a region that stores some of its three results, and adds up the columns of the last `summed` ones for
/// a sum of type Sum; `moments`: it stores nothing, and takes those of c.
template <class Case, class Sum, int summed, bool moments = false>
constexpr Wiring joint_wiring() {
  Wiring made = Case::wiring(Role::store);
  made.summed = summed;
  made.moments = moments;
  if (moments) made.outputs = 2, made.output[0] = made.output[1] = 2;
  for (int k = 0; k < 3; ++k) {
    const Access& access = Case::accesses[k];
    const bool is_row = !access.full && !access.batched && access.inner == 1 && access.count == Sum::size;
    made.rows = static_cast<unsigned short>(made.rows | is_row << k);
  }
  return made;
}

/// Stores and sums of one region, for devices that have such loops.
template <class Kernels, class Case, class Sum, int summed>
void check_store_and_sum(typename Kernels::Executor& executor, long batch) {
  using Lane = typename Kernels::Lane;
  constexpr auto range = []<Wiring wiring>() {
    return Kernels::template element_range<Role::store_and_sum, wiring, &multiply<Lane>, &add<Lane>,
                                           &subtract_twice<Lane>>;
  };
  const Numbers<Case> numbers(batch);
  const long n = numbers.total, columns = Sum::size;
  CAPTURE(batch, n, columns, summed);
  const auto column_sums = [&](auto term) {
    std::vector<float> sums(static_cast<std::size_t>(columns));
    for (long i = 0; i < n; ++i) sums[static_cast<std::size_t>(i % columns)] += term(i);
    return sums;
  };
  const std::vector<float>* const values[]{&numbers.b, &numbers.c, &numbers.y};
  ElementArguments arguments = numbers.arguments(batch, Case::block(columns));
  Target results[]{Target(n), Target(n), Target(n)};
  for (int k = 0; k < 3; ++k) arguments.outputs[k] = results[k].data();
  run_store_and_sum(executor, range.template operator()<joint_wiring<Case, Sum, summed>()>(), arguments, columns);
  for (int k = 0; k < 3 - summed; ++k) check_written(results[k], *values[k], 0, n);
  for (int k = 3 - summed; k < 3; ++k)
    check_written(results[k], column_sums([&](long i) { return (*values[k])[static_cast<std::size_t>(i)]; }), 0,
                  columns);

  Target sum(columns), squares(columns);
  arguments.outputs[0] = sum.data(), arguments.outputs[1] = squares.data();
  run_store_and_sum(executor, range.template operator()<joint_wiring<Case, Sum, 2, true>()>(), arguments, columns);
  const std::vector<float> sums = column_sums([&](long i) { return numbers.c[static_cast<std::size_t>(i)]; });
  check_written(sum, sums, 0, columns);
  const std::vector<float> deviations = column_sums([&](long i) {
    const float mean = sums[static_cast<std::size_t>(i % columns)] / static_cast<float>(n / columns);
    const float deviation = numbers.c[static_cast<std::size_t>(i)] - mean;
    return deviation * deviation;
  });
  for (long c = 0; c < columns; ++c)
    CHECK(squares.data()[c] == Approx(deviations[static_cast<std::size_t>(c)]).epsilon(1e-4).margin(1e-3));
}

using Whole = Batched<5, 3, 7>;  // no extent is a multiple of a vector
/// Operands: whole, by channel, by row, by sample, by channel of a sample, one number.
using Mixed = Case<Whole, Whole, Fixed<5, 1, 1>, Fixed<7>>;
using BySample = Case<Whole, Batched<5, 1, 1>, Whole, Batched<>>;
using Shared = Case<Whole, Fixed<5, 3, 7>, Scalar, Batched<5, 3, 1>>;
using Flat = Case<Fixed<37>, Fixed<37>, Scalar, Fixed<37>>;
using PerSample = Case<Batched<>, Batched<>, Scalar, Batched<>>;
using Rows = Case<Batched<33>, Fixed<33>, Batched<1>, Batched<33>>;

/// Narrow operands that are whole, broadcast, or one number, beside others that are not.
template <class Kernels>
void check_all_narrow() {
  for (const long batch : {1L, 4L}) {
    check_narrow<Kernels, Mixed, 7, 7>(batch);
    check_narrow<Kernels, Mixed, 1, 2>(batch);
    check_narrow<Kernels, BySample, 6, 5>(batch);
    check_narrow<Kernels, Shared, 5, 0>(batch);
    check_narrow<Kernels, PerSample, 1, 1>(33 * batch);
    check_narrow<Kernels, Rows, 0, 7>(batch);
  }
}

/// All laws on one executor; `large` is a batch whose elements fill several tasks.
template <class Kernels>
void check_all(typename Kernels::Executor& executor, long large) {
  for (const long batch : {1L, 2L, 5L, large}) {
    check_stores<Kernels, Mixed>(executor, batch);
    check_stores<Kernels, BySample>(executor, batch);
    check_stores<Kernels, Shared>(executor, batch);
    check_stores<Kernels, Flat>(executor, batch);
    check_stores<Kernels, PerSample>(executor, 3 * batch);
    check_stores<Kernels, Rows>(executor, batch);
    check_sum<Kernels, Mixed, Scalar>(executor, batch);
    check_sum<Kernels, Mixed, Fixed<5, 1, 1>>(executor, batch);
    check_sum<Kernels, Mixed, Fixed<7>>(executor, batch);
    check_sum<Kernels, BySample, Fixed<5, 3, 7>>(executor, batch);
    check_sum<Kernels, BySample, Batched<>>(executor, batch);
    check_sum<Kernels, Shared, Batched<5, 1, 1>>(executor, batch);
    check_sum<Kernels, Shared, Batched<5, 3, 1>>(executor, batch);
    check_sum<Kernels, Flat, Scalar>(executor, batch);
    check_sum<Kernels, PerSample, Scalar>(executor, 100 * batch);
    check_sum<Kernels, Rows, Fixed<33>>(executor, batch);
  }
}

}  // namespace regions
