#include "tenet/core/error.hpp"

#include <catch2/catch.hpp>

TEST_CASE("errors say where, what, what was expected and what was found", "[error]") {
  CHECK_THROWS_WITH(tenet::fail("load 'a.bin'", "magic number", "2051", "7"),
                    "load 'a.bin': magic number; expected 2051, found 7");
}

TEST_CASE("errors are caught as what they are and as any run-time error", "[error]") {
  CHECK_THROWS_AS(tenet::fail("", "", "", ""), tenet::Error);
  CHECK_THROWS_AS(tenet::fail("", "", "", ""), std::runtime_error);
  CHECK(std::string(tenet::Error("text").what()) == "text");
}
