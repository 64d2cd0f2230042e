#pragma once

#include <tenet/device/cuda/region.hpp>
#include <tenet/device/cuda/region_sums.hpp>

/// Element-wise regions and sums on a GPU: one kernel for each distinct region.
namespace tenet::gpu {

namespace detail {

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
