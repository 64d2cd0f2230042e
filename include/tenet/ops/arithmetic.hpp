#pragma once

#include <concepts>
#include <tenet/ops/instance.hpp>

/// Broadcasted arithmetic: +, -, *, / between symbols and numbers, negation.
namespace tenet {
namespace ops {

struct Add : ElementOperation {
  static constexpr const char* name = "add";
  static constexpr Algebra algebra = Algebra::add;
  static constexpr bool foldable = true;
  static constexpr auto element(auto a, auto b) { return a + b; }
  static constexpr auto gradient(auto, auto upstream, auto, auto) {
    return gradients([=] { return upstream; }, [=] { return upstream; });
  }
};

struct Negate : ElementOperation {
  static constexpr const char* name = "negate";
  static constexpr Algebra algebra = Algebra::negate;
  static constexpr bool foldable = true;
  static constexpr auto element(auto a) { return -a; }
  static constexpr auto gradient(auto, auto upstream, auto) {
    return gradients([=] { return -upstream; });
  }
};

struct Subtract : ElementOperation {
  static constexpr const char* name = "subtract";
  static constexpr Algebra algebra = Algebra::subtract;
  static constexpr bool foldable = true;
  static constexpr auto element(auto a, auto b) { return a - b; }
  static constexpr auto gradient(auto, auto upstream, auto, auto b) {
    return gradients([=] { return upstream; }, [=] { return -sum_to<typename decltype(b)::Type>(upstream); });
  }
};

struct Multiply : ElementOperation {
  static constexpr const char* name = "multiply";
  static constexpr Algebra algebra = Algebra::multiply;
  static constexpr bool foldable = true;
  static constexpr auto element(auto a, auto b) { return a * b; }
  static constexpr auto gradient(auto, auto upstream, auto a, auto b) {
    return gradients([=] { return upstream * b; }, [=] { return upstream * a; });
  }
};

struct Divide : ElementOperation {
  static constexpr const char* name = "divide";
  static constexpr Algebra algebra = Algebra::divide;
  static constexpr bool cheap = false;
  static constexpr bool foldable = true;
  static constexpr auto element(auto a, auto b) { return a / b; }
  static constexpr auto gradient(auto y, auto upstream, auto, auto b) {
    return gradients([=] { return upstream / b; }, [=] { return -(upstream * y / b); });  // d(a/b)/db = -y/b
  }
};

}  // namespace ops

/// A number as a symbol of the same computation as `like`; equal numbers are one node.
template <class Context, class Type>
constexpr auto constant(Symbol<Context, Type> like, float value) {
  return Symbol<Context, Scalar>{like.context, like.context->constant(value)};
}

template <class Number>
concept Numeric = std::integral<Number> || std::floating_point<Number>;

constexpr auto operator-(AnySymbol auto a) { return apply<ops::Negate>(a); }

constexpr auto operator+(AnySymbol auto a, AnySymbol auto b) { return apply_broadcast<ops::Add>(0, a, b); }
constexpr auto operator+(AnySymbol auto a, Numeric auto b) { return a + constant(a, static_cast<float>(b)); }
constexpr auto operator+(Numeric auto a, AnySymbol auto b) { return b + a; }

constexpr auto operator-(AnySymbol auto a, AnySymbol auto b) { return apply_broadcast<ops::Subtract>(0, a, b); }
constexpr auto operator-(AnySymbol auto a, Numeric auto b) { return a - constant(a, static_cast<float>(b)); }
constexpr auto operator-(Numeric auto a, AnySymbol auto b) { return constant(b, static_cast<float>(a)) - b; }

constexpr auto operator*(AnySymbol auto a, AnySymbol auto b) { return apply_broadcast<ops::Multiply>(0, a, b); }
constexpr auto operator*(AnySymbol auto a, Numeric auto b) { return a * constant(a, static_cast<float>(b)); }
constexpr auto operator*(Numeric auto a, AnySymbol auto b) { return b * a; }

constexpr auto operator/(AnySymbol auto a, AnySymbol auto b) { return apply_broadcast<ops::Divide>(0, a, b); }
constexpr auto operator/(AnySymbol auto a, Numeric auto b) { return a / constant(a, static_cast<float>(b)); }
constexpr auto operator/(Numeric auto a, AnySymbol auto b) { return constant(b, static_cast<float>(a)) / b; }

}  // namespace tenet
