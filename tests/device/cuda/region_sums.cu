#include "regions_on_gpu.hpp"
#include "tenet/device/cuda/region_sums.hpp"

using namespace regions;

namespace {

/// Bit k of `narrow`: operand k lies there as bfloat16.
template <class Case, class Sum, int narrow = 0>
void check_sum_of(long batch) {
  constexpr Access sum = access_of(Case::To::info, Sum::info);
  constexpr Role role = sum.inner == 1 && sum.count > 1 ? Role::sum_rows : Role::sum;
  const Numbers<Case> numbers(batch);
  const long count = sum.count * (sum.batched ? batch : 1);
  CAPTURE(batch, numbers.total, sum.inner, count);
  check_agreement(count, 0, [&]<class Place>(Place& place, float* to) {
    using Kernels = KernelsAt<Place>;
    using Lane = typename Kernels::Lane;
    const ElementArguments arguments = arguments_at(place, numbers, batch, Case::block(sum.block()), narrow);
    constexpr ElementRange range = Kernels::template element_range<role, narrowed(Case::wiring(role), narrow, 0),
                                                                   &multiply<Lane>, &add<Lane>, &subtract_twice<Lane>>;
    run_reduce(place.executor, role, range, arguments, sum.inner, count, to, {});
  });
}

/// What is stored and summed, or the moments, one behind the other. Bit k of `inputs`, `outputs`: that one is narrow.
template <class Case, class Sum, int summed, bool moments = false, int inputs = 0, int outputs = 0>
void check_joint_of(long batch, double tolerance = 0) {
  const Numbers<Case> numbers(batch);
  const long n = numbers.total, columns = Sum::size;
  constexpr Wiring wiring = narrowed(joint_wiring<Case, Sum, summed, moments>(), inputs, outputs);
  constexpr int results = wiring.outputs, stored = wiring.stored();
  CAPTURE(batch, n, columns, summed, moments, inputs, outputs);
  long size = 0;
  for (int k = 0; k < results; ++k) size += k < stored ? n : columns;
  check_agreement(size, tolerance, [&]<class Place>(Place& place, float* to) {
    using Kernels = KernelsAt<Place>;
    using Lane = typename Kernels::Lane;
    ElementArguments arguments = arguments_at(place, numbers, batch, Case::block(columns), inputs);
    const float* narrow[3]{};
    long at = 0;
    for (int k = 0; k < results; ++k) {
      const long floats = k < stored ? n : columns;
      arguments.outputs[k] = to + at;
      if (outputs >> k & 1) {
        narrow[k] = place.keep(std::vector<float>(static_cast<std::size_t>(n)));
        arguments.outputs[k] = const_cast<float*>(narrow[k]);
      }
      at += floats;
    }
    run_store_and_sum(place.executor,
                      Kernels::template element_range<Role::store_and_sum, wiring, &multiply<Lane>, &add<Lane>,
                                                      &subtract_twice<Lane>>,
                      arguments, columns);
    for (int k = 0; k < stored; ++k)
      if (narrow[k] != nullptr) widen(place, narrow[k], n, to + k * n);
  });
}

}  // namespace

TEST_CASE("sums on a GPU do what index arithmetic says", "[cuda][element]") {
  for (const long batch : {1L, 5L, 300L}) {
    check_sum_of<Mixed, Scalar>(batch);
    check_sum_of<Mixed, Fixed<5, 1, 1>>(batch);
    check_sum_of<Mixed, Fixed<7>>(batch);
    check_sum_of<BySample, Fixed<5, 3, 7>>(batch);
    check_sum_of<BySample, Batched<>>(batch);
    check_sum_of<Shared, Batched<5, 3, 1>>(batch);
    check_sum_of<Flat, Scalar>(batch);
    check_sum_of<Rows, Fixed<33>>(batch);
    check_sum_of<Rows, Fixed<33>, 5>(batch);
    check_sum_of<TwoRows, Fixed<24>>(batch);
    check_sum_of<TwoRows, Fixed<24>, 7>(batch);
    check_sum_of<Neighbours, Fixed<8>, 3>(batch);
    check_sum_of<Repeated, Fixed<8>, 2>(batch);
  }
  check_sum_of<PerSample, Scalar>(100000);  // in several parts
  check_sum_of<Rows, Fixed<33>>(10000);
  check_sum_of<Mixed, Fixed<5, 1, 1>>(2000);
}

TEST_CASE("what is stored and summed on a GPU is what index arithmetic says", "[cuda][element]") {
  for (const long batch : {1L, 5L, 300L, 10000L}) {
    check_joint_of<Rows, Fixed<33>, 1>(batch);
    check_joint_of<Rows, Fixed<33>, 2, false, 5, 1>(batch);
    check_joint_of<TwoRows, Fixed<24>, 1, false, 1, 3>(batch);
    check_joint_of<TwoRows, Fixed<24>, 2>(batch);
    check_joint_of<TwoRows, Fixed<24>, 3, false, 7>(batch);
    check_joint_of<Neighbours, Fixed<8>, 1, false, 3, 3>(batch);
    check_joint_of<Mixed, Fixed<7>, 2>(batch > 300 ? 300 : batch);
    check_joint_of<Repeated, Fixed<8>, 2>(batch);
    check_joint_of<Repeated, Fixed<8>, 1, false, 3, 3>(batch);
    check_joint_of<Rows, Fixed<33>, 2, true>(batch, 1e-5);
    check_joint_of<TwoRows, Fixed<24>, 2, true, 1>(batch, 1e-5);
  }
}
