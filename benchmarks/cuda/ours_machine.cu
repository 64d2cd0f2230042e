// What this GPU can do at most, served as cases: products of large matrices (bf16 and tf32; FLOP of one call) and
// copying (bytes read and written by one call).
#include <chrono>
#include <map>

#include "gpu.hpp"

using namespace tenet;

#if defined(TENET_BENCH_ON_HOST)
constexpr long side = 64, floats = 1 << 10;
#else
constexpr long side = 8192, floats = long{1} << 28;
#endif
using Executor = Gpu::Kernels::Executor;

/// Four numbers at once.
struct Copy {
  const float* from;
  float* to;
  TENET_HOST_DEVICE void operator()(long i) const {
    float numbers[4];
    gpu::detail::load_neighbours<4>(from + 4 * i, numbers);
    gpu::detail::store_neighbours<4>(to + 4 * i, numbers);
  }
};

/// Numbers that are no zeros, for which multipliers would take less power and run at a higher clock.
template <class Number>
struct Fill {
  Number* to;
  TENET_HOST_DEVICE void operator()(long i) const {
    to[i] = Number(static_cast<float>(static_cast<unsigned>(i) * 2654435761u >> 16) / 65536.0f - 0.5f);
  }
};

struct Machine {
  std::unique_ptr<Executor> made = make_executor<Gpu, Gpu::Kernels::TensorFloat32>();
  Executor& executor = *made;
  std::map<std::string, DeviceBuffer<Executor>> buffers;

  float* floats_of(const std::string& name, long count) {
    DeviceBuffer<Executor>& buffer = buffers[name];
    buffer.grow(executor, count, "numbers of a benchmark");
    return buffer.data();
  }
  template <class Run>
  double seconds(long calls, const Run& run) {
    run();
    executor.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    for (long i = 0; i < calls; ++i) run();
    executor.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  template <class Number>
  double product(long calls) {
    auto* const lhs = reinterpret_cast<Number*>(floats_of("lhs", side * side));
    auto* const rhs = reinterpret_cast<Number*>(floats_of("rhs", side * side));
    float* const result = floats_of("result", side * side);
    for (Number* matrix : {lhs, rhs}) for_each(executor, side * side, Fill<Number>{matrix});
    const MatmulGeometry g{1, side, side, side, false, false, 0, 0};
    return seconds(calls, [&] {
      run_matmul(executor, g, static_cast<const Number*>(lhs), static_cast<const Number*>(rhs), result);
    });
  }
};

int main() {
  Machine machine;
  const double flops = 2.0 * side * side * side;
  return serve(
      {{"bf16", [=] { return std::vector<double>{flops}; },
        [&](long calls) { return machine.product<bfloat16>(calls); }},
       {"tf32", [=] { return std::vector<double>{flops}; }, [&](long calls) { return machine.product<float>(calls); }},
       {"copy", [] { return std::vector<double>{8.0 * floats}; },
        [&](long calls) {
          float* const from = machine.floats_of("from", floats);
          float* const to = machine.floats_of("to", floats);
          return machine.seconds(calls, [&] { for_each(machine.executor, floats / 4, Copy{from, to}); });
        }}});
}
