#include "tenet/core/function.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <string>

using namespace tenet;

namespace {

int twice(int number) { return 2 * number; }

struct Takes {
  Function<int(int)> function = {};
};

}  // namespace

TEST_CASE("a function calls what it was made of", "[function]") {
  int sum = 0;
  const Function<void(int)> add = [&](int number) { sum += number; };
  add(3);
  add(4);
  CHECK(sum == 7);
  CHECK(Function<int(int)>(twice)(4) == 8);
  CHECK(Function<double(int)>(twice)(4) == 8.0);  // what is returned is converted
  const Function<int(std::unique_ptr<int>)> read = [](std::unique_ptr<int> number) { return *number; };
  CHECK(read(std::make_unique<int>(5)) == 5);
  const Function<void(std::string&)> change = [](std::string& text) { text += "!"; };
  std::string text = "so";
  change(text);
  CHECK(text == "so!");
  CHECK(Takes{.function = [](int number) { return number + 1; }}.function(1) == 2);
}

TEST_CASE("a function may be nothing", "[function]") {
  CHECK_FALSE(Function<void()>());
  CHECK_FALSE(Function<void()>(nullptr));
  CHECK_FALSE(Takes{}.function);
  CHECK_FALSE(Function<int(int)>(static_cast<int (*)(int)>(nullptr)));
  CHECK_FALSE(Function<int(int)>(std::function<int(int)>()));
  Function<int(int)> function = twice;
  CHECK(function);
  function = {};
  CHECK_FALSE(function);
}

TEST_CASE("a function keeps what it calls, large or small", "[function]") {
  const auto counted = std::make_shared<int>(0);
  {
    long large[4] = {1, 2, 3, 4};
    const Function<long()> function = [large, counted, at = 0]() mutable { return large[at++ % 4] + *counted; };
    const Function<long()> copy = function;
    CHECK(counted.use_count() == 2);
    CHECK(function() == 1);
    CHECK(copy() == 2);  // copies share it
    *counted = 10;
    CHECK(function() == 13);
  }
  CHECK(counted.use_count() == 1);
  const Function<int()> small = [at = 0]() mutable { return ++at; };
  const Function<int()> copy = small;
  CHECK(small() == 1);
  CHECK(copy() == 2);  // they do, too
}

TEST_CASE("a function that was moved is nothing, and keeps nothing", "[function]") {
  const auto counted = std::make_shared<int>(0);
  int here = 0;
  Function<int()> small = [at = &here] { return ++*at; }, large = [counted] { return ++*counted; };
  Function<int()> constructed = std::move(small), assigned;
  assigned = std::move(large);
  CHECK_FALSE(small);
  CHECK_FALSE(large);
  CHECK(constructed() == 1);
  CHECK(assigned() == 1);
  assigned = std::move(constructed);
  CHECK(counted.use_count() == 1);
  CHECK(assigned() == 2);
}

TEST_CASE("a function takes what it can call", "[function]") {
  STATIC_REQUIRE(std::is_constructible_v<Function<int(int)>, int (*)(short)>);
  STATIC_REQUIRE(!std::is_constructible_v<Function<int(int)>, int (*)(int, int)>);
  STATIC_REQUIRE(!std::is_constructible_v<Function<int(int)>, std::string (*)(int)>);
  STATIC_REQUIRE(!std::is_constructible_v<Function<int(std::string)>, std::size_t (std::string::*)()>);
  STATIC_REQUIRE(std::is_copy_constructible_v<Function<void()>>);
}
