#include "tenet/core/any_object.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <utility>

using namespace tenet;

namespace {

struct Counted {
  Counted(int& alive, int given) : alive_objects(&alive), number(given) { ++alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --*alive_objects; }

  int* alive_objects;
  int number;
};

struct Thrower {
  Thrower() { throw std::runtime_error("no"); }
};

}  // namespace

TEST_CASE("an object of any type is what it was made as, and ends once", "[core]") {
  int alive = 0;
  {
    AnyObject object;
    CHECK(!object.has_value());
    CHECK(object.emplace<Counted>(alive, 7).number == 7);
    CHECK(object.has_value());
    CHECK(object.as<Counted>().number == 7);
    object.emplace<Counted>(alive, 8);
    CHECK(alive == 1);
    AnyObject moved = std::move(object);
    CHECK(moved.as<Counted>().number == 8);
    CHECK(alive == 1);
    moved.emplace<int>(3);
    CHECK(alive == 0);
    moved.emplace<Counted>(alive, 9);
  }
  CHECK(alive == 0);
}

TEST_CASE("an object that cannot be made leaves the one before", "[core]") {
  AnyObject object;
  object.emplace<int>(5);
  CHECK_THROWS_AS(object.emplace<Thrower>(), std::runtime_error);
  CHECK(object.as<int>() == 5);
}
