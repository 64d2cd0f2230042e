#pragma once

#include <tenet/core/tensor_type.hpp>
#include <tenet/device/cpu.hpp>
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

template <class... Tags>
struct FindUnknown : Nothing<void> {};
template <class First, class... Rest>
struct FindUnknown<First, Rest...>
    : std::conditional_t<is_tensor_type<First> || DevicePolicy<First> || UpdatePolicy<First>, FindUnknown<Rest...>,
                         std::type_identity<First>> {};

}  // namespace detail

/// What a list of tags says: `Input`, `Device` and `Update`; every tag has to be one of them, none may be given twice.
/// `Explanation` is the struct that explains what is wrong with the tags, or void.
template <class... Tags>
struct Policies {
  using Input = typename detail::FindInput<Tags...>::type;
  using Device = typename detail::FindDevice<Tags...>::type;
  using Update = typename detail::FindUpdate<Tags...>::type;

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
    else
      return std::type_identity<void>{};
  }
};

}  // namespace tenet
