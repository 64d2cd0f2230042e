#pragma once

#include <tenet/core/tensor_type.hpp>
#include <tenet/device/cpu.hpp>
#include <tenet/device/precision.hpp>
#include <tenet/exec/one_sample.hpp>
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

/// Convolutions by Winograd's algorithm where that is faster: 3x3, stride 1, many channels. Relative errors of 2e-6.
struct WinogradConvolution {
  template <class Kernels>
  using ConvolvingKernels = Kernels;
};

namespace detail {
template <class Kernels>
struct DirectOf {
  using type = Kernels;  // of a device that has no others
};
template <class Kernels>
  requires requires { typename Kernels::Direct; }
struct DirectOf<Kernels> {
  using type = typename Kernels::Direct;
};
}  // namespace detail

/// Convolutions that multiply as they are defined: two to three times slower for those shapes, relative errors of 5e-7.
struct DirectConvolution {
  template <class Kernels>
  using ConvolvingKernels = typename detail::DirectOf<Kernels>::type;
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
template <class T>
concept UpdatePolicy = requires { T::keeps_gradients; };
template <class T>
concept OneSamplePolicy = requires { T::most_flops; };
template <class T>
concept PrecisionPolicy = requires { typename T::template KernelsOf<CpuKernels>; };
template <class T>
concept ConvolutionPolicy = requires { typename T::template ConvolvingKernels<CpuKernels>; };
template <class T>
concept MemoryPolicy = requires { T::memory_bound; };

// What a tag is about.
template <class T>
using IsInput = std::bool_constant<is_tensor_type<T>>;
template <class T>
using IsDevice = std::bool_constant<DevicePolicy<T>>;
template <class T>
using IsUpdate = std::bool_constant<UpdatePolicy<T>>;
template <class T>
using IsOneSample = std::bool_constant<OneSamplePolicy<T>>;
template <class T>
using IsPrecision = std::bool_constant<PrecisionPolicy<T>>;
template <class T>
using IsConvolution = std::bool_constant<ConvolutionPolicy<T>>;
template <class T>
using IsMemory = std::bool_constant<MemoryPolicy<T>>;
template <class T>
using IsUnknown =
    std::bool_constant<!is_tensor_type<T> && !DevicePolicy<T> && !UpdatePolicy<T> && !OneSamplePolicy<T> &&
                       !PrecisionPolicy<T> && !ConvolutionPolicy<T> && !MemoryPolicy<T>>;

/// The first of the tags that is one, or what is to be otherwise.
template <template <class> class Is, class Otherwise, class... Tags>
struct Find {
  using type = Otherwise;
};
template <template <class> class Is, class Otherwise, class First, class... Rest>
struct Find<Is, Otherwise, First, Rest...>
    : std::conditional_t<Is<First>::value, std::type_identity<First>, Find<Is, Otherwise, Rest...>> {};

template <template <class> class Is, class... Tags>
inline constexpr bool given_twice = (0 + ... + Is<Tags>::value) > 1;

}  // namespace detail

/// What a list of tags says: `Input`, `Device`, `Update`, `OneSample`, `Precision`, `Convolution` and `Memory`; every
/// tag has to be one of them, none may be given twice. `Kernels` are the device's in that precision. `Explanation` is
/// the struct that explains what is wrong with the tags, or void.
template <class... Tags>
struct Policies {
  using Input = typename detail::Find<detail::IsInput, void, Tags...>::type;
  using Device = typename detail::Find<detail::IsDevice, Cpu<>, Tags...>::type;
  using Update = typename detail::Find<detail::IsUpdate, UpdateAfterBackward, Tags...>::type;
  using OneSample = typename detail::Find<detail::IsOneSample, OneSampleIfSmall, Tags...>::type;
  using Precision = typename detail::Find<detail::IsPrecision, Float32, Tags...>::type;
  using Memory = typename detail::Find<detail::IsMemory, MemoryUnbounded, Tags...>::type;
  using Convolution = typename detail::Find<detail::IsConvolution, WinogradConvolution, Tags...>::type;
  using Kernels = typename Precision::template KernelsOf<
      typename Convolution::template ConvolvingKernels<typename Device::Kernels>>;

  template <class Instead>
  static constexpr auto explanation() {
    using Unknown = typename detail::Find<detail::IsUnknown, void, Tags...>::type;
    if constexpr (!std::is_void_v<Unknown>)
      return std::type_identity<mistake::ArgumentUnknown<Unknown, Instead>>{};
    else if constexpr (std::is_void_v<Input>)
      return std::type_identity<mistake::InputMissing<Instead>>{};
    else if constexpr (detail::given_twice<detail::IsInput, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<Input, Instead>>{};
    else if constexpr (detail::given_twice<detail::IsDevice, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<Device, Instead>>{};
    else if constexpr (detail::given_twice<detail::IsUpdate, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<Update, Instead>>{};
    else if constexpr (detail::given_twice<detail::IsOneSample, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<OneSample, Instead>>{};
    else if constexpr (detail::given_twice<detail::IsPrecision, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<Precision, Instead>>{};
    else if constexpr (detail::given_twice<detail::IsConvolution, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<Convolution, Instead>>{};
    else if constexpr (detail::given_twice<detail::IsMemory, Tags...>)
      return std::type_identity<mistake::ArgumentGivenTwice<Memory, Instead>>{};
    else
      return std::type_identity<void>{};
  }
};

}  // namespace tenet
