#pragma once

#include <tenet/core/error.hpp>
#include <tenet/device/own_memory.hpp>
#include <tenet/train/batch_checks.hpp>
#include <vector>

/// Batches that lie in a device's memory, as trainers and models are given them.
namespace tenet::detail {

template <class T>
inline constexpr bool is_on_device = false;
template <class T>
inline constexpr bool is_on_device<OnDevice<T>> = true;

/// Of a pointer or an `OnDevice`.
template <class Given>
struct ElementOfGiven {
  using type = std::remove_cv_t<std::remove_pointer_t<Given>>;
};
template <class T>
struct ElementOfGiven<OnDevice<T>> {
  using type = T;
};
template <class Given>
using ElementOf = typename ElementOfGiven<Given>::type;

/// A container has to have enough of them.
template <class Given>
void check_size(const char* what, const Given& given, long size_of_sample, int batch) {
  if (batch <= 0) fail_batch(batch);
  if constexpr (is_on_device<Given>)
    if (given.size >= 0 && given.size < size_of_sample * batch)
      fail(what, "on the device, for " + std::to_string(batch) + " samples",
           "at least " + std::to_string(size_of_sample * batch) + " numbers", std::to_string(given.size));
}

/// Labels are looked at by the host, wherever they lie: a kernel would read beyond its row.
template <class Target, class Output, class Executor, class Given>
void check_targets_there(Executor& executor, const Given& targets, int batch) {
  if constexpr (!is_on_device<Given>) {
    check_targets<Target, Output>(targets, batch);
  } else if constexpr (std::is_same_v<typename Target::Element, std::int32_t>) {
    std::vector<std::int32_t> here(static_cast<std::size_t>(Target::size * batch));
    executor.copy_out(here.data(), targets.data, static_cast<long>(here.size()) * 4);
    executor.synchronize();
    check_targets<Target, Output>(here.data(), batch);
  }
}

template <class Execution, class Given>
void give_to(Execution& execution, int index, const Given& given) {
  if constexpr (is_on_device<Given>)
    execution.give_there(index, given.data);
  else
    execution.give(index, given);
}

/// Runs a program for inference, and leaves its output where it is.
template <class Output, class Execution, class T>
OnDevice<float> run_there(Execution& execution, OnDevice<T> inputs, int batch) {
  execution.give_there(0, inputs.data);
  execution.run_there(batch);
  return OnDevice<float>(execution.result_there(0), Output::size * (Output::batched ? batch : 1));
}

}  // namespace tenet::detail
