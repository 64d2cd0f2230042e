#include "tenet/ops/symbol.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

namespace {
struct Context {};
static_assert(AnySymbol<Symbol<Context, Batched<3>>>);
static_assert(!AnySymbol<int> && !AnySymbol<Context> && !AnySymbol<Batched<3>>);
static_assert(std::is_same_v<Symbol<Context, Fixed<2>>::Type, Fixed<2>>);
}  // namespace

TEST_CASE("a symbol without a context stands for nothing") {
  const Symbol<Context, Batched<3>> symbol;
  CHECK(symbol.context == nullptr);
  CHECK(symbol.id == -1);
}
