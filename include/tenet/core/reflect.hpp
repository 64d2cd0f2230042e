#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

/// Members of aggregates, without macros: how many, which, and what they are called. C++20 has no reflection; this uses
/// that an aggregate of n members can be initialised from n values and taken apart by a structured binding of n names,
/// and that compilers print the member whose address is a template argument.
namespace tenet::reflect {

namespace detail {
struct Anything {
  template <class T>
  constexpr operator T() const;  // declared only: used where nothing is evaluated
};

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return requires { T{((void)I, Anything{})...}; };
}

// From few members on, as most modules have: an aggregate takes fewer values than it has members.
template <class T, std::size_t Count, std::size_t Most>
constexpr std::size_t count_members() {
  if constexpr (Count == Most)
    return Count;
  else if constexpr (takes<T>(std::make_index_sequence<Count + 1>{}))
    return count_members<T, Count + 1, Most>();
  else
    return Count;
}

template <std::size_t I, class First, class... Rest>
constexpr auto pick(First first, Rest... rest) {
  if constexpr (I == 0)
    return first;
  else
    return pick<I - 1>(rest...);
}
}  // namespace detail

inline constexpr std::size_t max_members = 20;

template <class T>
inline constexpr std::size_t member_count = detail::count_members<T, 0, max_members>();

/// Calls function(member...) with a reference to every member of the aggregate, in the order of declaration.
template <class T, class Function>
constexpr decltype(auto) visit_members(T& object, Function&& function) {
  constexpr std::size_t count = member_count<std::remove_const_t<T>>;
  static_assert(count < max_members,
                "a module has at most 19 members: put some of them into a Sequential or a module of its own");
  // clang-format off
  if constexpr (count == 0) return function();
  else if constexpr (count == 1) { auto& [a] = object; return function(a); }
  else if constexpr (count == 2) { auto& [a, b] = object; return function(a, b); }
  else if constexpr (count == 3) { auto& [a, b, c] = object; return function(a, b, c); }
  else if constexpr (count == 4) { auto& [a, b, c, d] = object; return function(a, b, c, d); }
  else if constexpr (count == 5) { auto& [a, b, c, d, e] = object; return function(a, b, c, d, e); }
  else if constexpr (count == 6) { auto& [a, b, c, d, e, f] = object; return function(a, b, c, d, e, f); }
  else if constexpr (count == 7) { auto& [a, b, c, d, e, f, g] = object; return function(a, b, c, d, e, f, g); }
  else if constexpr (count == 8) { auto& [a, b, c, d, e, f, g, h] = object; return function(a, b, c, d, e, f, g, h); }
  else if constexpr (count == 9) { auto& [a, b, c, d, e, f, g, h, i] = object; return function(a, b, c, d, e, f, g, h, i); }
  else if constexpr (count == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = object; return function(a, b, c, d, e, f, g, h, i, j); }
  else if constexpr (count == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = object; return function(a, b, c, d, e, f, g, h, i, j, k); }
  else if constexpr (count == 12) { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l); }
  else if constexpr (count == 13) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m); }
  else if constexpr (count == 14) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n); }
  else if constexpr (count == 15) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o); }
  else if constexpr (count == 16) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p); }
  else if constexpr (count == 17) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q); }
  else if constexpr (count == 18) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r); }
  else if constexpr (count == 19) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s] = object; return function(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s); }
  // clang-format on
}

namespace detail {
// A real object stands in for "some T": modules are literal types that can be made without arguments.
template <class T>
inline constexpr T example{};

template <class Pointer>
struct Wrapped {  // clang before 18 takes a member's address as a template argument only inside a class
  Pointer pointer;
};
template <class Pointer>
Wrapped(Pointer) -> Wrapped<Pointer>;

template <auto wrapped>
consteval std::string_view printed() {
  return __PRETTY_FUNCTION__;
}

constexpr bool in_identifier(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// "... = Wrapped{&example<Net>.Net::conv1}]" -> "conv1"; g++ appends "; std::string_view = ..." behind it.
constexpr std::string_view last_identifier(std::string_view text) {
  std::size_t end = text.find("; std::");
  if (end == text.npos) end = text.size();
  while (end && !in_identifier(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin && in_identifier(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

template <class T, std::size_t I>
constexpr auto member_address(const T& object) {
  return visit_members(object, [](auto&... members) { return pick<I>(&members...); });
}
}  // namespace detail

/// The name of member I of the aggregate T, as it is written in the source.
template <class T, std::size_t I>
inline constexpr std::string_view member_name =
    detail::last_identifier(detail::printed<detail::Wrapped{detail::member_address<T, I>(detail::example<T>)}>());

/// Calls function(name, member) for every member, in the order of declaration.
template <class T, class Function>
constexpr void for_each_member(T& object, Function&& function) {
  visit_members(object, [&](auto&... members) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (function(member_name<std::remove_const_t<T>, I>, members), ...);
    }(std::index_sequence_for<decltype(members)...>{});
  });
}

}  // namespace tenet::reflect
