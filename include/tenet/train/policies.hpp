#pragma once

#include <tenet/core/tensor_type.hpp>
#include <tenet/device/cpu.hpp>
#include <tenet/device/precision.hpp>
#include <tenet/ops/mistake.hpp>
#include <type_traits>

/// The unordered list of tags behind Trainer<Net, Loss, Optimizer, …>: the input's shape, and a policy for each axis.
namespace tenet {

/// Parameters are updated when all gradients are known. The gradients are kept until the next step.
struct UpdateAfterBackward {
  static constexpr bool keeps_gradients = true;
};

/// Each parameter is updated as soon as its gradient is known, while that is still in cache; a gradient's memory is
/// used again behind it. The same numbers, fewer passes over memory, and nothing to ask for the gradients afterwards.
struct UpdateInBackward {
  static constexpr bool keeps_gradients = false;
};

/// Everything is kept and computed as `float`.
struct Float32 {
  template <class Kernels>
  using KernelsOf = Kernels;
};

/// Mixed precision: activations and their gradients are kept as `bfloat16`, in half the memory. What is computed is
/// computed as `float`; parameters, their gradients, optimizer states, statistics and losses stay `float`.
struct BFloat16 {
  template <class Kernels>
  using KernelsOf = InPrecision<Kernels, bfloat16>;
};

/// The training step's plan takes at most so many bytes a sample for activations: where it would take more, values of
/// the forward pass are computed again in the backward pass instead of being kept.
template <long BytesPerSample>
struct MemoryBound {
  static_assert(BytesPerSample > 0, "MemoryBound<bytes>: a positive number of bytes a sample");
  static constexpr long memory_bound = BytesPerSample;
};

/// What the step needs is kept.
struct MemoryUnbounded {
  static constexpr long memory_bound = 0;
};

namespace detail {

template <class T>
concept DevicePolicy = requires {
  typename T::Kernels;
  T::threads();
};

template <class Otherwise>
struct Nothing {
  using type = Otherwise;
};

/// The first of the tags that is a tensor type, or void.
template <class... Tags>
struct FindInput : Nothing<void> {};
template <class First, class... Rest>
struct FindInput<First, Rest...>
    : std::conditional_t<is_tensor_type<First>, std::type_identity<First>, FindInput<Rest...>> {};

template <class... Tags>
struct FindDevice : Nothing<Cpu<>> {};
template <class First, class... Rest>
struct FindDevice<First, Rest...>
    : std::conditional_t<DevicePolicy<First>, std::type_identity<First>, FindDevice<Rest...>> {};

template <class T>
concept UpdatePolicy = requires { T::keeps_gradients; };

template <class... Tags>
struct FindUpdate : Nothing<UpdateAfterBackward> {};
template <class First, class... Rest>
struct FindUpdate<First, Rest...>
    : std::conditional_t<UpdatePolicy<First>, std::type_identity<First>, FindUpdate<Rest...>> {};

template <class T>
concept PrecisionPolicy = requires { typename T::template KernelsOf<CpuKernels>; };

template <class... Tags>
struct FindPrecision : Nothing<Float32> {};
template <class First, class... Rest>
struct FindPrecision<First, Rest...>
    : std::conditional_t<PrecisionPolicy<First>, std::type_identity<First>, FindPrecision<Rest...>> {};

template <class T>
concept MemoryPolicy = requires { T::memory_bound; };

template <class... Tags>
struct FindMemory : Nothing<MemoryUnbounded> {};
template <class First, class... Rest>
struct FindMemory<First, Rest...>
    : std::conditional_t<MemoryPolicy<First>, std::type_identity<First>, FindMemory<Rest...>> {};

template <class... Tags>
struct FindUnknown : Nothing<void> {};
template <class First, class... Rest>
struct FindUnknown<First, Rest...>
    : std::conditional_t<is_tensor_type<First> || DevicePolicy<First> || UpdatePolicy<First> ||
                             PrecisionPolicy<First> || MemoryPolicy<First>,
                         FindUnknown<Rest...>, std::type_identity<First>> {};

}  // namespace detail

/// What a list of tags says: `Input`, `Device`, `Update`, `Precision` and `Memory`; every tag has to be one of them,
/// none may be given twice. `Kernels` are the device's in that precision. `Explanation` is the struct that explains
/// what is wrong with the tags, or void.
template <class... Tags>
struct Policies {
  using Input = typename detail::FindInput<Tags...>::type;
  using Device = typename detail::FindDevice<Tags...>::type;
  using Update = typename detail::FindUpdate<Tags...>::type;
  using Precision = typename detail::FindPrecision<Tags...>::type;
  using Memory = typename detail::FindMemory<Tags...>::type;
  using Kernels = typename Precision::template KernelsOf<typename Device::Kernels>;

  template <class Instead>
  static constexpr auto explanation() {
    using Unknown = typename detail::FindUnknown<Tags...>::type;
    if constexpr (!std::is_void_v<Unknown>)
      return std::type_identity<mistake::ArgumentUnknown<Unknown, Instead>>{};
    else if constexpr (std::is_void_v<Input>)
      return std::type_identity<mistake::InputMissing<Instead>>{};
    else if constexpr ((0 + ... + is_tensor_type<Tags>) > 1)
      return std::type_identity<mistake::ArgumentGivenTwice<Input, Instead>>{};
    else if constexpr ((0 + ... + detail::DevicePolicy<Tags>) > 1)
      return std::type_identity<mistake::ArgumentGivenTwice<Device, Instead>>{};
    else if constexpr ((0 + ... + detail::UpdatePolicy<Tags>) > 1)
      return std::type_identity<mistake::ArgumentGivenTwice<Update, Instead>>{};
    else if constexpr ((0 + ... + detail::PrecisionPolicy<Tags>) > 1)
      return std::type_identity<mistake::ArgumentGivenTwice<Precision, Instead>>{};
    else if constexpr ((0 + ... + detail::MemoryPolicy<Tags>) > 1)
      return std::type_identity<mistake::ArgumentGivenTwice<Memory, Instead>>{};
    else
      return std::type_identity<void>{};
  }
};

}  // namespace tenet
