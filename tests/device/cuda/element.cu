#include "../regions.hpp"
#include "agreement.hpp"
#include "tenet/device/cuda.hpp"
#include "tenet/device/cuda/element.hpp"
#include "tenet/device/reference.hpp"

using namespace regions;

namespace {

template <class Executor>
struct KernelsOf {
  using type = CudaKernels<Executor>;
};
template <>
struct KernelsOf<reference::Serial> {
  using type = ReferenceKernels;
};
template <class Place>
using KernelsAt = typename KernelsOf<typename Place::Executor>::type;

/// A region's arguments where the executor finds them. Bit k of `narrow`: operand k lies there as bfloat16.
template <class Case, class Place>
ElementArguments arguments_at(Place& place, const Numbers<Case>& numbers, long batch, long block, int narrow = 0) {
  ElementArguments arguments = numbers.arguments(batch, block);
  arguments.executor = &place.executor;
  for (int k = 0; k < 3; ++k) {
    std::vector<float> operand = numbers.operands[k];
    if (narrow >> k & 1) {
      auto* const halves = reinterpret_cast<bfloat16*>(operand.data());
      for (std::size_t i = 0; i < operand.size(); ++i) halves[i] = bfloat16(numbers.operands[k][i]);
    }
    arguments.inputs[k].data = place.keep(std::move(operand));
  }
  return arguments;
}

constexpr Wiring narrowed(Wiring wiring, int inputs, int outputs) {
  wiring.narrow_inputs = static_cast<unsigned short>(inputs);
  wiring.narrow_outputs = static_cast<unsigned char>(outputs);
  return wiring;
}

/// Narrow numbers as floats, by a region without operations.
template <class Place>
void widen(Place& place, const float* from, long count, float* to) {
  constexpr Wiring copy = [] {
    Wiring made;
    made.inputs = made.outputs = 1;
    made.output[0] = -1;
    made.narrow_inputs = 1;
    return made;
  }();
  ElementArguments arguments{};
  arguments.executor = &place.executor;
  arguments.inputs[0] = {from, 1, 0};
  arguments.outputs[0] = to;
  arguments.total = arguments.block = count;
  run_element(place.executor, KernelsAt<Place>::template element_range<Role::store, copy>, arguments);
}

/// The three results of a region one behind the other, `apart` numbers from each other. Those that are narrow are
/// widened by a region without operations.
template <class Case, int inputs, int outputs>
void check_stores_of(long batch, long apart) {
  const Numbers<Case> numbers(batch);
  const long n = numbers.total, step = n + apart;
  CAPTURE(batch, n, apart, inputs, outputs);
  check_agreement(3 * step, 0, [&]<class Place>(Place& place, float* to) {
    using Kernels = KernelsAt<Place>;
    using Lane = typename Kernels::Lane;
    ElementArguments arguments = arguments_at(place, numbers, batch, Case::block(), inputs);
    for (int k = 0; k < 3; ++k)
      arguments.outputs[k] = outputs >> k & 1
                                 ? const_cast<float*>(place.keep(std::vector<float>(static_cast<std::size_t>(n))))
                                 : to + k * step;
    constexpr ElementRange range =
        Kernels::template element_range<Role::store, narrowed(Case::wiring(Role::store), inputs, outputs),
                                        &multiply<Lane>, &add<Lane>, &subtract_twice<Lane>>;
    run_element(place.executor, range, arguments);
    for (int k = 0; k < 3; ++k)
      if (outputs >> k & 1) widen(place, arguments.outputs[k], n, to + k * step);
  });
}

template <class Case>
void check_stores_at(long batch) {
  for (const long apart : {0L, 3L, 64L}) {
    check_stores_of<Case, 0, 0>(batch, apart);
    check_stores_of<Case, 7, 7>(batch, apart);
    check_stores_of<Case, 2, 5>(batch, apart);
  }
}

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

/// A region without operations that reads its input in another order.
constexpr Wiring turning = [] {
  Wiring made;
  made.inputs = made.outputs = 1;
  made.output[0] = -1;
  made.turned_inputs = 1;
  return made;
}();

using Neighbours = Case<Batched<4, 2, 8>, Batched<4, 2, 8>, Fixed<4, 1, 1>, Fixed<8>>;  // read eight or four at a time
using TwoRows = Case<Batched<3, 24>, Batched<3, 24>, Fixed<24>, Fixed<24>>;             // both found by one division

using Repeated = Case<Batched<3, 4, 8>, Batched<3, 4, 8>, Batched<1, 1, 8>, Fixed<8>>;   // a row for each sample

}  // namespace

TEST_CASE("regions on a GPU do what index arithmetic says", "[cuda][element]") {
  for (const long batch : {1L, 5L, 300L}) {
    check_stores_at<Mixed>(batch);
    check_stores_at<Neighbours>(batch);
    check_stores_at<TwoRows>(batch);
    check_stores_at<BySample>(batch);
    check_stores_at<Rows>(batch);
    check_stores_at<Repeated>(batch);
  }
  check_stores_at<PerSample>(33);
}

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

namespace {

/// How often the kernel that stores a region is called.
template <Wiring wiring>
long calls_of_store(const ElementArguments& arguments) {
  return gpu::detail::StoreNeighbours<gpu::detail::CodeOf<wiring>, &multiply<float>, &add<float>,
                                      &subtract_twice<float>>(arguments)
      .calls();
}

}  // namespace

TEST_CASE("a region reads neighbours together, wherever numbers lie that are read one at a time", "[cuda][element]") {
  constexpr Wiring wiring = Neighbours::wiring(Role::store);
  alignas(16) float memory[32]{};
  ElementArguments arguments = Numbers<Neighbours>(2).arguments(2, Neighbours::block());
  for (auto& input : arguments.inputs) input.data = memory;
  for (float*& output : arguments.outputs) output = memory;
  CHECK(calls_of_store<wiring>(arguments) == arguments.total / 4);
  arguments.inputs[1].data = memory + 1;  // one number for each image
  CHECK(calls_of_store<wiring>(arguments) == arguments.total / 4);
  arguments.inputs[2].data = memory + 1;  // a row
  CHECK(calls_of_store<wiring>(arguments) == arguments.total);
}

TEST_CASE("the code of a wiring says all of it", "[cuda][element]") {
  constexpr Wiring constant = Mixed::wiring(Role::store);
  CHECK(gpu::detail::CodeOf<constant>::decoded() == constant);
  constexpr Wiring largest = [] {
    Wiring made;
    made.operations = 24, made.inputs = 14, made.outputs = 6;
    for (int i = 0; i < 24; ++i)
      for (int k = 0; k < 4; ++k) made.source[i][k] = static_cast<signed char>(k % 2 == 0 ? 13 - k : -1 - i);
    for (int k = 0; k < 6; ++k) made.output[k] = static_cast<signed char>(k % 2 == 0 ? 23 - k : -14 + k);
    for (int k = 0; k < 14; ++k) made.uniform[k] = k % 3 == 0;
    made.narrow_inputs = 0x2a51, made.narrow_outputs = 9;
    made.summed = 3, made.moments = true, made.rows = 0x15a2, made.repeated_inputs = 0x2a3f;
    return made;
  }();
  CHECK(gpu::detail::CodeOf<largest>::decoded() == largest);
}

TEST_CASE("a region on a GPU turns images", "[cuda][element]") {
  for (const auto& [images, channels, positions] :
       {std::array{1L, 2L, 3L}, {5L, 7L, 12L}, {3L, 64L, 49L}, {40L, 33L, 65L}}) {
    CAPTURE(images, channels, positions);
    const auto numbers = random_floats(images * channels * positions, 1);
    const long size = static_cast<long>(numbers.size());
    const auto turned = image_order::channels_last(numbers, channels, positions);
    for (const bool back : {false, true})
      check_agreement(size, 0, [&]<class Place>(Place& place, float* to) {
        if constexpr (Place::is_reference) {
          std::copy_n((back ? numbers : turned).begin(), size, to);
        } else {
          const Access access = Planes{channels, positions}.turned(!back);
          ElementArguments arguments{};
          arguments.executor = &place.executor;
          arguments.inputs[0] = ElementArguments::bind(place.in(back ? turned : numbers), access, images);
          arguments.outputs[0] = to;
          arguments.total = size;
          arguments.block = access.block();
          run_element(place.executor, KernelsAt<Place>::template element_range<Role::store, turning>, arguments);
        }
      });
  }
}
