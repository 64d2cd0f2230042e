#pragma once

#include <array>
#include <cstring>
#include <tenet/device/own_memory.hpp>
#include <tenet/exec/program.hpp>
#include <utility>

/// What a run on a device with a memory of its own shares with the host, besides the batch.
namespace tenet {

namespace detail {

/// Whether numbers of a program differ from run to run of the same batch: the learning rate, a seed.
template <class Program>
inline constexpr bool has_changing_numbers = [] {
  for (const NumberEntry& entry : Program::numbers)
    if (entry.source == Source::scalar || entry.source == Source::seed) return true;
  return false;
}();

}  // namespace detail

/// The numbers that a run reads and the results that it leaves, in memory of the host that the device copies from and
/// to by itself. So both copies can be recorded with the steps, and the host starts all of it by one call; a run that
/// is started before the one before it has ended has another one.
template <class Program>
class HostSide {
 public:
  using Executor = typename Program::Kernels::Executor;

  /// Room for the results of a batch; free() waits for who may still leave some in what there was. Whether there is new
  /// room.
  template <class Free>
  bool make_room(int batch, const Free& free) {
    if (batch <= room_) return false;
    if (std::exchange(room_, batch) >= 0) free();
    for (int i = 0; i < Program::result_count; ++i) results_[static_cast<std::size_t>(i)].grow(floats_of(i, batch));
    return true;
  }
  const float* result(int i) const { return results_[static_cast<std::size_t>(i)].data(); }
  /// From where the device has them: there(i).
  template <class There>
  void copy_out(Executor& executor, int batch, const There& there) const {
    std::array<NumbersToCopy, 4> few;
    std::size_t count = 0;
    for (int i = 0; i < Program::result_count; ++i) {
      const NumbersToCopy copy{there(i), results_[static_cast<std::size_t>(i)].data(), floats_of(i, batch)};
      if (copy.count == 0) continue;
      if (is_few(copy.count))
        few[count++] = copy;
      else
        executor.copy_out(copy.to, copy.from, copy.count * 4);
    }
    if constexpr (CopiesByKernel<Executor>)
      if (count > 0) run_copies(executor, std::span(few).first(count));
  }

  /// The numbers of the next run; free() waits for who may still read those before. Whether they are others.
  template <class Free>
  bool set_numbers(const float* numbers, const Free& free) {
    if (number_count == 0 || (has_numbers_ && std::memcmp(numbers_.data(), numbers, number_bytes) == 0)) return false;
    if (has_numbers_) free();
    numbers_.grow(number_count);
    std::memcpy(numbers_.data(), numbers, number_bytes);
    return has_numbers_ = true;
  }
  void copy_numbers_in(Executor& executor, float* there) const {
    if (number_count == 0) return;
    if constexpr (CopiesByKernel<Executor>) {
      if (is_few(number_count))
        return run_copies(executor, std::array{NumbersToCopy{numbers_.data(), there, number_count}});
    }
    executor.copy_in(there, numbers_.data(), number_bytes);
  }

 private:
  /// So few numbers that a kernel copies them sooner.
  static constexpr bool is_few(long numbers) { return CopiesByKernel<Executor> && numbers <= 4096; }
  static constexpr long number_count = static_cast<long>(Program::numbers.size()), number_bytes = number_count * 4;
  static long floats_of(int result, int batch) {
    return Program::result_types[static_cast<std::size_t>(result)]->size(batch);
  }

  PinnedBuffer<Executor> numbers_;
  std::array<PinnedBuffer<Executor>, 4> results_;
  bool has_numbers_ = false;
  int room_ = -1;  ///< samples
};

}  // namespace tenet
