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

TEST_CASE("parts of a message are texts, numbers, or up to three of these", "[error]") {
  const std::string name = "image.bin";
  const std::size_t found = 7;
  CHECK_THROWS_WITH(tenet::fail({"load '", name, "'"}, name, {-3, " to ", 4}, found),
                    "load 'image.bin': image.bin; expected -3 to 4, found 7");
  CHECK_THROWS_WITH(tenet::fail("Reader", "size", "0", 1L << 40), "Reader: size; expected 0, found 1099511627776");
  CHECK_THROWS_WITH(tenet::fail("Reader", {"label ", found}, {"at most ", 2L}, true),
                    "Reader: label 7; expected at most 2, found 1");
}
