#include "tenet/device/cpu/element.hpp"

#include "../agreement.hpp"
#include "../regions.hpp"
#include "tenet/device/cpu.hpp"
#include "tenet/device/reference.hpp"

using namespace regions;

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
