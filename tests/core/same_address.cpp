#include "tenet/core/same_address.hpp"

#include <catch2/catch.hpp>

using namespace tenet;

namespace {

struct Number {
  int value;
  const Number* next = nullptr;
};
template <int i>
struct Holds {
  static constexpr Number number{i};
  static constexpr Number before{i, &number};
};
template <int i>
int function() {
  return i;
}

constexpr int count_equal() {
  const Number* const all[]{&Holds<1>::number, &Holds<2>::number, &Holds<1>::number, nullptr};
  int count = 0;
  for (const Number* one : all) count += same_address(one, &Holds<1>::number) + 10 * is_null(one);
  return count;
}

static_assert(count_equal() == 12);
static_assert(is_null(Holds<1>::number.next) && !is_null(Holds<1>::before.next));
static_assert(same_address(&function<1>, &function<1>) && !same_address(&function<1>, &function<2>));

}  // namespace

TEST_CASE("addresses are compared while a program runs as in constant expressions") {
  CHECK(count_equal() == 12);
  const Number *one = &Holds<1>::number, *other = &Holds<2>::number;
  CHECK_FALSE(same_address(one, other));
  CHECK_FALSE(is_null(one));
  other = one;
  CHECK(same_address(one, other));
  other = nullptr;
  CHECK(is_null(other));
  int (*chosen)() = &function<1>;
  CHECK(same_address(chosen, &function<1>));
  CHECK_FALSE(same_address(chosen, &function<2>));
}
