#pragma once

#include <type_traits>

/// Comparing addresses in constant expressions, for every compiler and option.
namespace tenet {

/// Whether two addresses are the same. With -fsanitize=undefined (its checks for null) GCC takes variables and
/// functions of templates for what the linker may have put anywhere: `&a == &b` of two of them, or `&a == nullptr`, is
/// no constant expression then. What it does not know is "different": the addresses of one and the same it knows to be
/// equal. (GCC's bug 71962.)
template <class T>
constexpr bool same_address(T* a, std::type_identity_t<T>* b) {
  if (std::is_constant_evaluated()) {
    if (__builtin_constant_p(a == b)) return a == b;
    return false;
  }
  return a == b;
}
template <class T>
constexpr bool is_null(T* address) {
  return same_address<T>(address, nullptr);
}

}  // namespace tenet
