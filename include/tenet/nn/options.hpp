#pragma once

/// Options of layers, given as types in any order: Conv2d<64, 128, 3, Stride<2>, Padding<1>, Bias<false>>.
namespace tenet {

template <int Value>
struct Stride {
  static constexpr int value = Value;
};
template <int Value>
struct Padding {
  static constexpr int value = Value;
};
/// Whether a layer has a bias; `Bias<false>` is PyTorch's bias=False.
template <bool Value>
struct Bias {
  static constexpr bool value = Value;
};
/// Whether position r of a sequence sees the positions 0 … r only.
template <bool Value>
struct Causal {
  static constexpr bool value = Value;
};
/// A table whose updates leave alone the rows that no sample of a batch has chosen; PyTorch's sparse=True.
struct Sparse {};

namespace detail {
template <template <int> class Option, class Given>
inline constexpr bool is_int_option = false;
template <template <int> class Option, int value>
inline constexpr bool is_int_option<Option, Option<value>> = true;
template <template <bool> class Option, class Given>
inline constexpr bool is_bool_option = false;
template <template <bool> class Option, bool value>
inline constexpr bool is_bool_option<Option, Option<value>> = true;

template <class Given, template <int> class... Options>
inline constexpr bool is_one_of = (is_int_option<Options, Given> || ...);
}  // namespace detail

/// The value of an option among those given, or its default.
template <template <int> class Option, int otherwise, class... Given>
inline constexpr int int_option = [] {
  int value = otherwise;
  (
      [&] {
        if constexpr (detail::is_int_option<Option, Given>) value = Given::value;
      }(),
      ...);
  return value;
}();
template <template <bool> class Option, bool otherwise, class... Given>
inline constexpr bool bool_option = [] {
  bool value = otherwise;
  (
      [&] {
        if constexpr (detail::is_bool_option<Option, Given>) value = Given::value;
      }(),
      ...);
  return value;
}();

}  // namespace tenet
