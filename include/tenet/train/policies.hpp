#pragma once

#include <type_traits>

#include <tenet/core/tensor_type.hpp>
#include <tenet/device/cpu.hpp>

/// The unordered list of tags behind Trainer<Net, Loss, Optimizer, …>: the input's shape, and a policy for each axis.
namespace tenet {

namespace detail {

struct NoInput {};
struct Missing {};

template <class T>
concept DevicePolicy = requires {
  typename T::Kernels;
  T::threads();
};

template <class Otherwise>
struct Nothing {
  using type = Otherwise;
};

/// The first of the tags that is a tensor type, or NoInput.
template <class... Tags>
struct FindInput : Nothing<NoInput> {};
template <class First, class... Rest>
struct FindInput<First, Rest...>
    : std::conditional_t<is_tensor_type<First>, std::type_identity<First>, FindInput<Rest...>> {};

template <class... Tags>
struct FindDevice : Nothing<Cpu<>> {};
template <class First, class... Rest>
struct FindDevice<First, Rest...>
    : std::conditional_t<DevicePolicy<First>, std::type_identity<First>, FindDevice<Rest...>> {};

}  // namespace detail

/// What a list of tags says: `Input` and `Device`; every tag has to be one of them, and none may be given twice.
template <class... Tags>
struct Policies {
  using Input = typename detail::FindInput<Tags...>::type;
  using Device = typename detail::FindDevice<Tags...>::type;

  static_assert(!std::is_same_v<Input, detail::NoInput>,
                "the input's shape is missing: add Image<channels, height, width>, Features<count> or Tokens<length> to "
                "the template arguments");
  static_assert(((is_tensor_type<Tags> || detail::DevicePolicy<Tags>) && ...),
                "a template argument is neither an input shape (Image<…>, Features<…>, Tokens<…>) nor a policy (Cpu<…>)");
  static_assert((0 + ... + is_tensor_type<Tags>) <= 1 && (0 + ... + detail::DevicePolicy<Tags>) <= 1,
                "an input shape or a device is given twice");
};

}  // namespace tenet
