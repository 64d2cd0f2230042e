#pragma once

#include <tenet/ops/arithmetic.hpp>

/// Element-wise functions.
namespace tenet {
namespace ops {

struct Exp : ElementOperation {
  static constexpr const char* name = "exp";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return exp(x); }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return upstream * y; });
  }
};

struct Log : ElementOperation {
  static constexpr const char* name = "log";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return log(x); }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return upstream / x; });
  }
};

struct Sqrt : ElementOperation {
  static constexpr const char* name = "sqrt";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return sqrt(x); }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return 0.5f * upstream / y; });
  }
};

struct Rsqrt : ElementOperation {
  static constexpr const char* name = "rsqrt";
  static constexpr bool cheap = false;
  static constexpr auto element(auto x) { return 1.0f / sqrt(x); }
  static constexpr auto gradient(auto y, auto upstream, auto) {
    return gradients([=] { return -0.5f * upstream * (y * y * y); });
  }
};

struct Square : ElementOperation {
  static constexpr const char* name = "square";
  static constexpr bool foldable = true;
  static constexpr auto element(auto x) { return x * x; }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return 2.0f * x * upstream; });
  }
};

struct Copysign : ElementOperation {
  static constexpr const char* name = "abs_gradient";
  static constexpr auto element(auto x, auto upstream) {
    return select(x > 0.0f, upstream, select(x < 0.0f, -upstream, broadcast<decltype(x)>(0.0f)));
  }
};

struct Abs : ElementOperation {
  static constexpr const char* name = "abs";
  static constexpr auto element(auto x) { return abs(x); }
  static constexpr auto gradient(auto, auto upstream, auto x) {
    return gradients([=] { return apply<Copysign>(x, upstream); });
  }
};

/// The upstream where `chosen` is the result: the larger (smaller) operand; ties go to the first.
struct WhereGreater : ElementOperation {
  static constexpr const char* name = "where_greater";
  static constexpr auto element(auto a, auto b, auto upstream) {
    return select(a > b, upstream, broadcast<decltype(upstream)>(0.0f));
  }
};
struct WhereNotGreater : ElementOperation {
  static constexpr const char* name = "where_not_greater";
  static constexpr auto element(auto a, auto b, auto upstream) {
    return select(a > b, broadcast<decltype(upstream)>(0.0f), upstream);
  }
};

struct Maximum : ElementOperation {
  static constexpr const char* name = "maximum";
  static constexpr auto element(auto a, auto b) { return select(b > a, b, a); }
  static constexpr auto gradient(auto, auto upstream, auto a, auto b) {
    return gradients([=] { return apply<WhereNotGreater>(b, a, upstream); },
                     [=] { return apply<WhereGreater>(b, a, upstream); });
  }
};

struct Minimum : ElementOperation {
  static constexpr const char* name = "minimum";
  static constexpr auto element(auto a, auto b) { return select(a > b, b, a); }
  static constexpr auto gradient(auto, auto upstream, auto a, auto b) {
    return gradients([=] { return apply<WhereNotGreater>(a, b, upstream); },
                     [=] { return apply<WhereGreater>(a, b, upstream); });
  }
};

}  // namespace ops

constexpr auto exp(AnySymbol auto x) { return apply<ops::Exp>(x); }
constexpr auto log(AnySymbol auto x) { return apply<ops::Log>(x); }
constexpr auto sqrt(AnySymbol auto x) { return apply<ops::Sqrt>(x); }
/// 1 / sqrt(x)
constexpr auto rsqrt(AnySymbol auto x) { return apply<ops::Rsqrt>(x); }
constexpr auto square(AnySymbol auto x) { return apply<ops::Square>(x); }
constexpr auto abs(AnySymbol auto x) { return apply<ops::Abs>(x); }
constexpr auto maximum(AnySymbol auto a, AnySymbol auto b) { return apply_broadcast<ops::Maximum>(0, a, b); }
constexpr auto minimum(AnySymbol auto a, AnySymbol auto b) { return apply_broadcast<ops::Minimum>(0, a, b); }

}  // namespace tenet
