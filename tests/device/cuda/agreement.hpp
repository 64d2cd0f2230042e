#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "../../support/image_order.hpp"
#include "../random_numbers.hpp"
#include "fibers.hpp"
#include "tenet/core/bfloat16.hpp"
#include "tenet/device/cuda/host_stream.hpp"
#include "tenet/device/cuda/launch.hpp"
#include "tenet/device/epilogue.hpp"
#include "tenet/device/own_memory.hpp"
#include "tenet/device/reference/serial.hpp"

struct Widened {
  const tenet::bfloat16* from;
  float* to;
  TENET_HOST_DEVICE void operator()(long i) const { to[i] = float{from[i]}; }
};

/// An executor and what lies in its memory for one run of a kernel.
template <class Executor_>
class Place {
 public:
  using Executor = Executor_;
  static constexpr bool is_reference = std::is_same_v<Executor, tenet::reference::Serial>;
  Executor& executor;
  explicit Place(Executor& given) : executor(given) {}

  /// The same for numbers that the test itself does not keep.
  const float* keep(std::vector<float> numbers) {
    if constexpr (tenet::HasOwnMemory<Executor>) {
      return in(numbers);
    } else {
      return own_.emplace_back(std::make_unique<std::vector<float>>(std::move(numbers)))->data();
    }
  }
  /// The numbers rounded to bfloat16, as kernels in mixed precision read them; to the reference these are floats.
  auto rounded(const std::vector<float>& numbers) {
    if constexpr (is_reference) {
      std::vector<float> widened;
      for (const float number : numbers) widened.push_back(float{tenet::bfloat16(number)});
      return keep(std::move(widened));
    } else {
      std::vector<float> pairs((numbers.size() + 1) / 2);
      for (std::size_t i = 0; i < numbers.size(); ++i) {
        const tenet::bfloat16 number(numbers[i]);
        std::memcpy(reinterpret_cast<char*>(pairs.data()) + 2 * i, &number, 2);
      }
      return reinterpret_cast<const tenet::bfloat16*>(keep(std::move(pairs)));
    }
  }
  /// Lets run(result) compute `count` numbers in the type of kernels in mixed precision, and widens them to `to`.
  template <class Run>
  void widen(long count, float* to, Run run) {
    if constexpr (is_reference) {
      run(to);
    } else {
      auto* const narrow = const_cast<tenet::bfloat16*>(rounded(std::vector<float>(static_cast<std::size_t>(count))));
      run(narrow);
      for_each(executor, count, Widened{narrow, to});
    }
  }

  /// The numbers, where the executor's kernels read them.
  template <class Number>
  const Number* in(const std::vector<Number>& numbers) {
    static_assert(sizeof(Number) == 4);
    if constexpr (tenet::HasOwnMemory<Executor>) {
      auto& memory = kept_.emplace_back(std::make_unique<tenet::DeviceBuffer<Executor>>());
      memory->grow(executor, static_cast<long>(numbers.size()), "numbers of a test");
      executor.copy_in(memory->data(), numbers.data(), static_cast<long>(numbers.size()) * 4);
      executor.synchronize();  // `numbers` may end
      return reinterpret_cast<const Number*>(memory->data());
    } else {
      return numbers.data();
    }
  }

 private:
  std::vector<std::unique_ptr<tenet::DeviceBuffer<Executor>>> kept_;
  std::vector<std::unique_ptr<std::vector<float>>> own_;
};

/// What results hold before they are computed, and behind them.
inline constexpr float unwritten = 12345.25f;

/// Checks what two runs gave, and left behind it, against what the reference gave.
inline void check_results(const std::vector<float>& expected, const std::vector<float>& first,
                          const std::vector<float>& second, double tolerance) {
  double worst = 0;
  long differing = 0, nonzero = 0;
  const std::size_t count = expected.size();
  for (std::size_t i = 0; i < count; ++i) {
    nonzero += expected[i] != 0;
    differing += std::isnan(expected[i]) != std::isnan(first[i]);
    if (std::isnan(expected[i]) || expected[i] == first[i]) continue;
    const double error = std::fabs(double{first[i]} - expected[i]) / (1 + std::fabs(double{expected[i]}));
    worst = error > worst ? error : worst;
  }
  CHECK(differing == 0);
  CHECK(worst <= tolerance);
  CHECK((count == 0 || nonzero > 0));  // a test of zeros tests nothing
  CHECK(std::memcmp(first.data(), second.data(), 4 * first.size()) == 0);
  for (std::size_t i = count; i < first.size(); ++i)
    if (first[i] != unwritten) FAIL("written beyond the result at " << i << " of " << count);
}

/// The one executor of its type for all checks.
template <class Executor, class... Arguments>
Executor& the(Arguments... arguments) {
  static Executor executor(arguments...);
  return executor;
}

/// The law of a GPU's kernels: run(place, to) agrees with the reference within `tolerance` * (1 + |reference|), writes
/// nothing beyond its result, and has the same bits each time: on the host, serially and by several threads, by
/// teams of fibers, and on a GPU if there is one. What does not depend on `run` is compiled once, not for each kernel.
template <class Run>
void check_agreement(long size, double tolerance, Run run) {
  std::vector<float> expected(static_cast<std::size_t>(size), unwritten);
  tenet::reference::Serial serial;
  Place<tenet::reference::Serial> there(serial);
  run(there, expected.data());
  const auto check = [&](auto& executor) {
    std::vector<float> first(expected.size() + 64, unwritten), second = first;
    for (std::vector<float>* result : {&first, &second}) {
      Place<std::remove_reference_t<decltype(executor)>> place(executor);
      float* const to = const_cast<float*>(place.in(*result));
      run(place, to);
      executor.copy_out(result->data(), to, static_cast<long>(result->size()) * 4);
      executor.synchronize();
    }
    check_results(expected, first, second, tolerance);
  };
  check(the<tenet::gpu::SerialHost>());
  check(the<tenet::gpu::ParallelHost>());
  check(the<tenet::gpu::FiberHost>());
  if (tenet::gpu::device_count() > 0) check(the<tenet::gpu::Stream>(0));
}

/// The law of epilogues: run(place, to, epilogue) calls it once, for the whole result, behind its kernels.
template <class Run>
void check_epilogue(long size, Run run) {
  struct Calls {
    std::vector<float> result, when_called;
    std::vector<long> ranges;
  } calls{std::vector<float>(static_cast<std::size_t>(size), unwritten), {}, {}};
  Calls* const to = &calls;
  tenet::gpu::SerialHost host;
  Place<tenet::gpu::SerialHost> place(host);
  run(place, calls.result.data(),
      tenet::Epilogue{[](const void* state, long first, long last) {
                        Calls& those = **static_cast<Calls* const*>(state);
                        those.when_called = those.result;
                        those.ranges.insert(those.ranges.end(), {first, last});
                      },
                      &to});
  CHECK(calls.ranges == std::vector<long>{0, size});
  CHECK(calls.when_called == calls.result);
}
