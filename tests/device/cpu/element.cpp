#include "tenet/device/cpu/element.hpp"

#include "../agreement.hpp"
#include "../regions.hpp"
#include "tenet/device/cpu.hpp"
#include "tenet/device/reference.hpp"

using namespace regions;

namespace {

/// y = x·z, or, without operations, y = x, of an image x that lies in the other order than the region goes, and a
/// number z a channel.
constexpr Wiring turning(bool multiplies, bool channels_last, bool narrow) {
  Wiring made;
  made.outputs = 1;
  made.turned_inputs = 1;
  made.narrow_inputs = narrow;
  made.inputs = multiplies ? 2 : 1;
  made.operations = multiplies;
  made.output[0] = multiplies ? 0 : -1;
  for (signed char& source : made.source[0]) source = 1;
  made.source[0][0] = 0;
  made.uniform[1] = multiplies && !channels_last;
  return made;
}

template <bool multiplies, bool channels_last, bool narrow>
void check_turning(long images, int channels, int positions) {
  const long size = images * channels * positions;
  CAPTURE(images, channels, positions, multiplies, channels_last, narrow);
  std::vector<float> x, z, expected(static_cast<std::size_t>(size));
  for (const int value : random_integers(size, -9, 9, 1)) x.push_back(static_cast<float>(value));
  for (const int value : random_integers(channels, -9, 9, 2)) z.push_back(static_cast<float>(value));
  const std::vector<bfloat16> rounded(x.begin(), x.end());
  for (long i = 0; i < size; ++i) {
    const long n = i / (channels * positions), c = channels_last ? i % channels : i / positions % channels,
               p = channels_last ? i / channels % positions : i % positions;
    const long from = channels_last ? (n * channels + c) * positions + p : (n * positions + p) * channels + c;
    expected[static_cast<std::size_t>(i)] =
        x[static_cast<std::size_t>(from)] * (multiplies ? z[static_cast<std::size_t>(c)] : 1);
  }
  const TensorInfo image = Image<1, 1, 1>::info, of_image = with_extents(image, {channels, positions, 1});
  const Access of_x = planes_of(of_image).turned(channels_last),
               of_z = channels_last ? Access{1, channels} : Access{positions, channels};
  ElementArguments arguments{};
  const float* const data = narrow ? reinterpret_cast<const float*>(rounded.data()) : x.data();
  arguments.inputs[0] = ElementArguments::bind(data, of_x, images);
  arguments.inputs[1] = ElementArguments::bind(z.data(), of_z, images);
  arguments.total = size;
  arguments.block = multiplies ? greatest_common_divisor(of_x.block(), of_z.block()) : of_x.block();
  constexpr ElementRange range = [] {
    if constexpr (multiplies)
      return CpuKernels::element_range<Role::store, turning(true, channels_last, narrow), &multiply<Vector>>;
    else
      return CpuKernels::element_range<Role::store, turning(false, channels_last, narrow)>;
  }();
  for (const auto& [first, last] : {std::pair{0L, size}, {size / 3, size}, {1L, size - 1}, {size / 2, size / 2 + 1}}) {
    Target target(size);
    arguments.outputs[0] = target.data();
    range(arguments, first, last, 0, 1, nullptr);
    check_written(target, expected, first, last);
  }
  Target target(size);
  arguments.outputs[0] = target.data();
  run_element(pool(3), range, arguments);
  check_written(target, expected, 0, size);
}

}  // namespace

TEST_CASE("regions on the CPU read images in another order", "[cpu][element]") {
  for (const auto& [images, channels, positions] :
       {std::array{1, 2, 3}, {5, 7, 12}, {3, 64, 49}, {9, 33, 65}, {2, 16, 4}}) {
    check_turning<false, false, false>(images, channels, positions);
    check_turning<false, true, false>(images, channels, positions);
    check_turning<false, true, true>(images, channels, positions);
    check_turning<true, false, false>(images, channels, positions);
    check_turning<true, true, false>(images, channels, positions);
    check_turning<true, false, true>(images, channels, positions);
  }
}

TEST_CASE("regions on the CPU do what index arithmetic says, for any number of workers", "[cpu][element]") {
  const long large = 4 * cpu::element_grain / Whole::size + 1;
  for (int threads : {1, 3}) check_all<CpuKernels>(pool(threads), large);
}

TEST_CASE("ranges on the CPU begin and end anywhere", "[cpu][element]") {
  for (const long batch : {1L, 3L}) {
    check_ranges<CpuKernels, Mixed>(batch);
    check_ranges<CpuKernels, BySample>(batch);
    check_ranges<CpuKernels, Shared>(batch);
    check_ranges<CpuKernels, Rows>(batch);
  }
  check_ranges<CpuKernels, PerSample>(40);
}

namespace {
/// Four rows of so many vectors; z is one number, or one of each row.
template <int vectors, class Z = Scalar>
using FourRows =
    Case<Batched<4, vectors * vector_width>, Batched<4, vectors * vector_width>, Fixed<vectors * vector_width>, Z>;
}  // namespace

TEST_CASE("rows of few vectors are summed in registers on the CPU", "[cpu][element]") {
  check_ranges<CpuKernels, FourRows<4>>(1);  // one of the ranges there is the whole first row, four times
  check_ranges<CpuKernels, FourRows<8>>(1);
  check_ranges<CpuKernels, FourRows<4, Batched<4, 1>>>(1);
  check_ranges<CpuKernels, FourRows<3>>(1);
  check_ranges<CpuKernels, FourRows<2>>(1);  // four vectors are two rows
  for (const long batch : {1L, 3L, 200L}) {
    check_sum<CpuKernels, FourRows<4>, Fixed<4 * vector_width>>(pool(2), batch);
    check_sum<CpuKernels, FourRows<8>, Fixed<8 * vector_width>>(pool(2), batch);
    check_sum<CpuKernels, FourRows<8, Batched<4, 1>>, Fixed<8 * vector_width>>(pool(2), batch);
  }
}

TEST_CASE("sums on the CPU agree with the reference and have the same bits for any number of workers",
          "[cpu][element]") {
  // Numbers whose sums are rounded: the order of additions counts.
  const auto sum_of = [](auto to, const auto& x, const auto& y, const auto& z, long batch) {
    using Sum = decltype(to);
    constexpr Access sum = access_of(Whole::info, Sum::info);
    constexpr Role role = sum.inner == 1 && sum.count > 1 ? Role::sum_rows : Role::sum;
    const long count = sum.count * (sum.batched ? batch : 1);
    ElementArguments arguments{};
    const float* const data[]{x.data(), y.data(), z.data()};
    for (int k = 0; k < 3; ++k) arguments.inputs[k] = ElementArguments::bind(data[k], Mixed::accesses[k], batch);
    arguments.total = Whole::size * batch;
    arguments.block = Mixed::block(sum.block());
    check_agreement(count, 1e-4, [&]<class Executor>(Executor& executor, float* result) {
      using Kernels = std::conditional_t<std::is_same_v<Executor, reference::Serial>, ReferenceKernels, CpuKernels>;
      run_reduce(executor, role, Mixed::range<Kernels, role>, arguments, sum.inner, count, result, {});
    });
    std::vector<float> sums(static_cast<std::size_t>(count));
    check_workspace(cpu::workspace_reduce(nullptr, role, arguments.total, sum.inner, count), [&](auto& workers) {
      run_reduce(workers, role, Mixed::range<CpuKernels, role>, arguments, sum.inner, count, sums.data(), {});
    });
  };
  for (const long batch : {1L, 40L, 1000L}) {
    CAPTURE(batch);
    const auto x = random_floats(Whole::size * batch, 1), y = random_floats(5, 2), z = random_floats(7, 3);
    sum_of(Scalar{}, x, y, z, batch);
    sum_of(Fixed<5, 1, 1>{}, x, y, z, batch);
    sum_of(Fixed<7>{}, x, y, z, batch);
    sum_of(Fixed<5, 3, 7>{}, x, y, z, batch);
    sum_of(Batched<5, 1, 1>{}, x, y, z, batch);
  }
}

TEST_CASE("CPU ranges read and write narrow numbers", "[cpu][element]") { check_all_narrow<CpuKernels>(); }
