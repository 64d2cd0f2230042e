#include "tenet/io/json_string.hpp"

#include <catch2/catch.hpp>

#include "../support/json.hpp"

using namespace tenet;
using detail::json_string;

TEST_CASE("texts become JSON strings", "[json_string]") {
  CHECK(json_string("conv2d conv1") == "\"conv2d conv1\"");
  CHECK(json_string("a\"b\\c/") == "\"a\\\"b\\\\c/\"");
  CHECK(json_string(std::string_view("\n\t\x01\x1f\0", 5)) == "\"\\u000a\\u0009\\u0001\\u001f\\u0000\"");
  CHECK(json_string("\u00fcber \u2211 \U0001f600") == "\"\u00fcber \u2211 \U0001f600\"");
  CHECK(json_string("a\xff"
                    "b") == "\"a\\ufffdb\"");
  CHECK(json_string("\xc3") == "\"\\ufffd\"");                        // cut in two
  CHECK(json_string("\xc0\x80") == "\"\\ufffd\\ufffd\"");             // longer than needed
  CHECK(json_string("\xed\xa0\x80") == "\"\\ufffd\\ufffd\\ufffd\"");  // half of a pair
  for (const char* text : {"a\"b\\c/", "\n\t\x01\x1f", "\u00fcber \u2211 \U0001f600"})
    CHECK(json::parse(json_string(text)).text == text);
}

TEST_CASE("the first byte that is not UTF-8 is found", "[json_string]") {
  CHECK(detail::find_invalid_utf8("\u00fcber \u2211 \U0001f600") == std::string_view::npos);
  CHECK(detail::find_invalid_utf8("ab\xff") == 2);
  CHECK(detail::find_invalid_utf8("\u00fc\xe2\x88") == 2);     // cut in three
  CHECK(detail::find_invalid_utf8("a\xf4\x90\x80\x80") == 1);  // above U+10FFFF
}
