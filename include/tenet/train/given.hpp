#pragma once

#include <memory>
#include <span>
#include <tenet/core/error.hpp>
#include <tenet/device/own_memory.hpp>
#include <tenet/ops/mistake.hpp>
#include <tenet/train/batch_checks.hpp>
#include <utility>
#include <vector>

/// Batches as trainers and models are given them: by pointers of the host, or as numbers of their device.
namespace tenet::detail {

template <class T>
inline constexpr bool is_on_device = false;
template <class T, class Device>
inline constexpr bool is_on_device<OnDevice<T, Device>> = true;
/// An `OnDevice`, or an array there.
template <class Given>
inline constexpr bool lies_on_device = is_on_device<Given> || OwnsOnDevice<Given>;

/// Of a pointer, an `OnDevice` or an array there: its elements, and the device's name if there is one.
template <class Given>
struct OfGiven {
  using Element = std::remove_cv_t<std::remove_pointer_t<std::decay_t<Given>>>;
  using Device = UnnamedDevice;
};
template <class T, class D>
struct OfGiven<OnDevice<T, D>> {
  using Element = T;
  using Device = D;
};
template <OwnsOnDevice Array>
struct OfGiven<Array> : OfGiven<decltype(std::declval<const Array&>().on_device())> {};
template <class Given>
using ElementOf = typename OfGiven<Given>::Element;

/// Whether what a trainer or model with these policies is given is another device's.
template <class Chosen, class Given>
constexpr bool lies_elsewhere() {
  using Found = typename OfGiven<Given>::Device;
  if constexpr (std::is_same_v<Found, UnnamedDevice>)
    return false;
  else
    return !is_device_of<Found, typename Chosen::Device, Chosen::Strategy::replicas>;
}
/// Whether its kernels read it: what has no device's name may be a GPU's.
template <class Chosen, class Given>
inline constexpr bool is_readable =
    Chosen::has_own_memory || !lies_on_device<Given> || !std::is_same_v<typename OfGiven<Given>::Device, UnnamedDevice>;

/// Whether inputs, or inputs and targets, have the elements that `Runs`, a trainer or model, works with.
template <class Runs, class Inputs, class... Targets>
constexpr bool elements_fit() {
  return std::is_same_v<ElementOf<Inputs>, typename Runs::Input::Element> &&
         (std::is_same_v<ElementOf<Targets>, typename Runs::Target::Element> && ...);
}
/// Some of it lies on a device, and it takes all.
template <class Runs, class... Given>
concept TakenThere = (lies_on_device<Given> || ...) && !(lies_elsewhere<typename Runs::Chosen, Given>() || ...) &&
                     (is_readable<typename Runs::Chosen, Given> && ...) && elements_fit<Runs, Given...>();
/// What looks like a batch, but is none that it takes.
template <class Runs, class... Given>
concept NotTaken = ((lies_on_device<Given> || ...) ||
                    ((std::is_pointer_v<std::decay_t<Given>> && ...) && !elements_fit<Runs, Given...>())) &&
                   !TakenThere<Runs, Given...>;

/// The element types of a batch, for messages.
template <class...>
struct Of;

/// What a call with it gives, in place of `Instead`: it says what is wrong.
template <class Instead, class Runs, class Inputs, class... Targets>
constexpr auto explanation_of_given() {
  using Device = typename Runs::Device;
  constexpr bool elsewhere =
      lies_elsewhere<typename Runs::Chosen, Inputs>() || (lies_elsewhere<typename Runs::Chosen, Targets>() || ...);
  constexpr bool readable =
      is_readable<typename Runs::Chosen, Inputs> && (is_readable<typename Runs::Chosen, Targets> && ...);
  if constexpr (elsewhere)
    return std::type_identity<mistake::NumbersOfAnotherDevice<Instead, Device, typename OfGiven<Inputs>::Device,
                                                              typename OfGiven<Targets>::Device...>>{};
  else if constexpr (!readable)
    return std::type_identity<mistake::NumbersOfNoDevice<Instead, Device>>{};
  else if constexpr (sizeof...(Targets) == 0)
    return std::type_identity<
        mistake::ElementsDiffer<Instead, Of<ElementOf<Inputs>>, Of<typename Runs::Input::Element>>>{};
  else
    return std::type_identity<
        mistake::ElementsDiffer<Instead, Of<ElementOf<Inputs>, ElementOf<Targets>...>,
                                Of<typename Runs::Input::Element, typename Runs::Target::Element>>>{};
}
template <class Instead, class Runs, class... Given>
using Explained = typename decltype(explanation_of_given<Instead, Runs, Given...>())::type;

/// Of an array its numbers; anything else as it is.
template <class Given>
auto numbers_of(const Given& given) {
  if constexpr (OwnsOnDevice<Given>)
    return given.on_device();
  else
    return given;
}
template <class Given>
const void* address_of(const Given& given) {
  if constexpr (lies_on_device<Given>)
    return numbers_of(given).data;
  else
    return given;
}

/// Inputs or targets, as a step takes them: where they lie.
struct GivenPart {
  const void* data = nullptr;
  bool is_there = false;   ///< in the device's own memory; else in the host's
  bool is_checked = true;  ///< else, if they are labels, a step looks at them
  GivenPart(const void* numbers) : data(numbers) {}
  GivenPart(const void* numbers, bool there, bool checked) : data(numbers), is_there(there), is_checked(checked) {}
};
template <class Chosen, class Given>
GivenPart given_part_of(const Given& given) {
  return {address_of(given), Chosen::has_own_memory && lies_on_device<Given>, false};
}

/// Inputs or targets of a step that is queued: they are copied, or stay where they are.
struct QueuedPart {
  std::span<const std::byte> bytes{};    ///< to be copied
  GivenPart stays{nullptr};              ///< unless its data is null
  std::shared_ptr<const void> memory{};  ///< which is kept until the step has run

  QueuedPart(std::span<const std::byte> copied) : bytes(copied) {}
  QueuedPart(const GivenPart& part, std::shared_ptr<const void> kept) : stays(part), memory(std::move(kept)) {}
};
/// Of a batch of so many numbers.
template <class Chosen, class Given>
QueuedPart queued_part_of(const Given& given, long numbers) {
  if constexpr (OwnsOnDevice<Given>)
    return {given_part_of<Chosen>(given), given.memory()};
  else if constexpr (lies_on_device<Given>)
    return {given_part_of<Chosen>(given), nullptr};
  else
    return std::as_bytes(std::span(given, static_cast<std::size_t>(numbers)));
}

/// What has been queued before for the device of an array has run then: copies to it, say.
template <class Given>
void await_queued(const Given& given) {
  if constexpr (OwnsOnDevice<Given>) given.wait();
}

/// A container has to have enough of them.
template <class Given>
void check_size(const char* what, const Given& given, long size_of_sample, int batch) {
  if (batch <= 0) fail_batch(batch);
  if constexpr (lies_on_device<Given>)
    if (const long size = numbers_of(given).size; size >= 0 && size < size_of_sample * batch)
      fail(what, {"on the device, for ", batch, " samples"}, {"at least ", size_of_sample * batch, " numbers"}, size);
}

template <class Trainer, class Inputs, class Targets>
void check_sizes(const Inputs& inputs, const Targets& targets, int batch) {
  check_size("inputs", inputs, Trainer::Input::size, batch);
  check_size("targets", targets, Trainer::Target::size, batch);
}

/// Labels are looked at by the host, wherever they lie: a kernel would read beyond its row.
template <class Target, class Output, class Executor>
void check_targets_there(Executor& executor, const GivenPart& targets, int batch) {
  using Element = typename Target::Element;
  if constexpr (std::is_same_v<Element, std::int32_t>) {
    const auto* labels = static_cast<const Element*>(targets.data);
    if constexpr (HasOwnMemory<Executor>) {
      std::vector<Element> here;
      if (targets.is_there) {
        here.resize(static_cast<std::size_t>(Target::size * batch));
        executor.copy_out(here.data(), labels, static_cast<long>(here.size()) * 4);
        executor.synchronize();
        labels = here.data();
      }
      check_targets<Target, Output>(labels, batch);
    } else {
      check_targets<Target, Output>(labels, batch);
    }
  }
}

template <class Execution>
void give_to(Execution& execution, int index, const GivenPart& part) {
  if constexpr (requires { execution.give_there(index, part.data); })
    if (part.is_there) return execution.give_there(index, part.data);
  execution.give(index, part.data);
}

/// Runs a program for inference, and leaves its output where it is.
template <class Output, class Device, class Execution>
OnDevice<float, Device> run_there(Execution& execution, const GivenPart& inputs, int batch) {
  give_to(execution, 0, inputs);
  const long size = Output::size * (Output::batched ? batch : 1);
  if constexpr (requires { execution.run_there(batch); }) {
    execution.run_there(batch);
    return OnDevice<float, Device>(execution.result_there(0), size);
  } else {
    execution.run(batch);
    return OnDevice<float, Device>(execution.result(0), size);
  }
}

}  // namespace tenet::detail
