#include "tenet/core/reflect.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

struct Inner {
  int slot = -1;
};
struct Empty {};
struct One {
  Inner only;
};
struct Module {
  Inner conv1;
  Empty relu_2;
  One Nested;
  int count = 3;
};
struct Derived : Module {};  // not asked: bases are not members
template <class T, int n>
struct Generic {
  T value_of_t;
  Inner last;
};
struct Most {  // as many as a module may have
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s;
};

using namespace tenet::reflect;

static_assert(member_count<Empty> == 0);
static_assert(member_count<One> == 1);
static_assert(member_count<Module> == 4);
static_assert(member_count<Generic<One, 3>> == 2);
static_assert(member_count<Most> == 19 && max_members == 20);

static_assert(member_name<Module, 0> == "conv1");
static_assert(member_name<Module, 1> == "relu_2");
static_assert(member_name<Module, 2> == "Nested");
static_assert(member_name<Module, 3> == "count");
static_assert(member_name<Generic<One, 3>, 0> == "value_of_t");
static_assert(member_name<Most, 18> == "s");

// Members are visited during constant evaluation, too, and may be changed there.
constexpr int numbered = [] {
  Module module;
  int next = 10;
  visit_members(module, [&](Inner& a, Empty&, One& b, int& c) {
    a.slot = next++;
    b.only.slot = next++;
    c = next++;
  });
  return module.conv1.slot * 10000 + module.Nested.only.slot * 100 + module.count;
}();
static_assert(numbered == 101112);

}  // namespace

TEST_CASE("members are visited in the order of declaration, by reference and by name", "[reflect]") {
  Module module;
  std::vector<std::string> names;
  std::vector<const void*> places;
  for_each_member(module, [&](std::string_view name, auto& member) {
    names.emplace_back(name);
    places.push_back(&member);
  });
  CHECK(names == std::vector<std::string>{"conv1", "relu_2", "Nested", "count"});
  CHECK(places == std::vector<const void*>{&module.conv1, &module.relu_2, &module.Nested, &module.count});
}

TEST_CASE("members of constants are constants", "[reflect]") {
  const Module module;
  int constants = 0;
  for_each_member(module, [&]<class Member>(std::string_view, Member&) { constants += std::is_const_v<Member>; });
  CHECK(constants == 4);
}

TEST_CASE("visiting gives back what the function gives", "[reflect]") {
  Most most{};
  CHECK(visit_members(most, [](auto&... members) { return (0 + ... + members++); }) == 0);
  CHECK(visit_members(most, [](auto&... members) { return (0 + ... + members); }) == 19);
  Empty empty;
  int calls = 0;
  for_each_member(empty, [&](std::string_view, auto&) { ++calls; });
  CHECK(calls == 0);
}

TEST_CASE("identifiers at the end of what compilers print", "[reflect]") {
  using tenet::reflect::detail::last_identifier;
  CHECK(last_identifier("f() [wrapped = Wrapped<int*>{&example<Net>.Net::conv1}]") == "conv1");
  CHECK(last_identifier("f() [with auto wrapped = {(& x.N::bn_2)}; std::string_view = std::basic_string_view<char>]") ==
        "bn_2");
}
