#include "tenet/io/safetensors_header.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace tenet;
using Catch::Matchers::Contains;
using tenet::detail::SafetensorsHeader;

namespace {

SafetensorsHeader parse(const std::string& json, long data_bytes = 0) { return {"here", json, data_bytes}; }

std::string tensor(const std::string& name, long begin, long end) {
  return "\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + std::to_string(end - begin) + "],\"data_offsets\":[" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// The name of an empty tensor, as it is written in JSON.
std::string name_of_json(const std::string& written) {
  return parse("{" + tensor(written, 0, 0) + "}").entries.at(0).name;
}

}  // namespace

TEST_CASE("headers are read in any layout JSON allows") {
  const SafetensorsHeader header = parse(
      "{ \"b\" :\t{ \"data_offsets\":[ 8 , 16 ],\n\"shape\":[],\r\n\"dtype\":\"I64\"}, "
      "\"__metadata__\":{\"format\":\"pt\",\"\":\"\"},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}   \n",
      16);
  REQUIRE(header.entries.size() == 2);
  CHECK(header.entries[0].name == "b");
  CHECK(header.entries[0].shape.empty());
  CHECK(header.entries[0].begin == 8);
  CHECK(header.entries[1].dtype == "F32");
  CHECK(header.entries[1].shape == std::vector<long>{1, 2});
  CHECK(header.metadata == SafetensorsMetadata{{"format", "pt"}, {"", ""}});
  CHECK(parse("{}").entries.empty());
  CHECK(parse("{\"__metadata__\":{}}").metadata.empty());
}

TEST_CASE("names with escapes are decoded") {
  CHECK(name_of_json(R"(a\"\\\/\b\f\n\r\tz)") == "a\"\\/\b\f\n\r\tz");
  CHECK(name_of_json(R"(\u0041\u00e9\u20AC\ud83d\ude00)") == "A\u00e9\u20ac\U0001f600");
  CHECK(name_of_json("\u00e9\U0001f600") == "\u00e9\U0001f600");
  CHECK(name_of_json(R"(\u0000)") == std::string(1, '\0'));
}

TEST_CASE("text that is not JSON is refused, and where") {
  const auto fault = [](const std::string& json, const std::string& expected) {
    INFO(json);
    CHECK_THROWS_WITH(parse(json), Contains("here, header byte") && Contains(expected));
  };
  fault("", "expected '{', found the end of the header");
  fault(" {}", "header byte 0");
  fault("[]", "expected '{', found '['");
  fault("{", "expected '\"', found the end");
  fault("{\"a", "found the end of the header");
  fault("{} x", "nothing but spaces");
  fault("{}{}", "nothing but spaces");
  fault("{" + tensor("a", 0, 0) + ",}", "expected '\"', found '}'");
  fault("{" + tensor("a", 0, 0) + " " + tensor("b", 0, 0) + "}", "expected '}'");
  fault("{\"a\" {}}", "expected ':'");
  fault("{'a':{}}", "expected '\"'");
  fault("{\"a\":1}", "expected '{', found '1'");
  fault("{\"a\":null}", "expected '{', found 'n'");
  fault("{\"a\n\":{}}", "found byte 10");
  fault("{\"\xff\":{}}", "expected UTF-8");
  fault("{\"\xc0\x80\":{}}", "expected UTF-8");
  fault("{\"\xed\xa0\x80\":{}}", "expected UTF-8");
  fault("{\"\xe2\x82\":{}}", "expected UTF-8");
  fault("{\"\xe0\x9f\xbf\":{}}", "expected UTF-8");      // longer than it need be
  fault("{\"\xf0\x8f\xbf\xbf\":{}}", "expected UTF-8");  // the same
  fault("{\"\xf4\x90\x80\x80\":{}}", "expected UTF-8");  // above U+10FFFF
  fault("{\"\xf5\x80\x80\x80\":{}}", "expected UTF-8");
  fault("{\"\\x\":{}}", "in a string, found 'x'");
  fault("{\"\\u12g4\":{}}", "four hexadecimal digits after \\u, found 'g'");
  fault("{\"\\u12", "four hexadecimal digits");
  fault("{\"\\ud83d\":{}}", "second half of a surrogate pair, found none");
  fault("{\"\\ud83d\\u0041\":{}}", "second half of a surrogate pair, found another code");
  fault("{\"\\ud83d\\ue000\":{}}", "second half of a surrogate pair, found another code");
  fault("{\"\\ude00\":{}}", "alone");
  fault("{\"__metadata__\":{\"a\":1}}", "expected '\"', found '1'");
  fault("{\"__metadata__\":{\"a\":\"b\",\"a\":\"c\"}}", "each metadata key once, found 'a' again");
  fault("{\"__metadata__\":{},\"__metadata__\":{}}", "each tensor name once");
  fault(std::string(100000, '{'), "expected '\"'");
}

TEST_CASE("tensors that are not described as they should be are refused") {
  const auto fault = [](const std::string& body, const std::string& expected) {
    INFO(body);
    CHECK_THROWS_WITH(parse("{\"a\":{" + body + "}}", 8), Contains("here") && Contains(expected));
  };
  const std::string dtype = "\"dtype\":\"F32\"", shape = "\"shape\":[2]", offsets = "\"data_offsets\":[0,8]";
  CHECK_NOTHROW(parse("{\"a\":{" + dtype + "," + shape + "," + offsets + "}}", 8));
  fault("", "found no dtype");
  fault(dtype + "," + offsets, "found no shape");
  fault(dtype + "," + shape, "found no data_offsets");
  fault(dtype + "," + shape + "," + offsets + ",\"more\":1", "found 'more'");
  fault(dtype + "," + shape + "," + offsets + "," + dtype, "each key once, found 'dtype' again");
  fault("\"dtype\":32," + shape + "," + offsets, "expected '\"', found '3'");
  fault("\"dtype\":\"F31\"," + shape + "," + offsets, "tensor 'a': dtype; expected F32");
  fault("\"dtype\":\"\"," + shape + "," + offsets, "found ''");
  fault(dtype + ",\"shape\":2," + offsets, "expected '[', found '2'");
  fault(dtype + ",\"shape\":[-2]," + offsets, "whole number from 0 to 2^63 - 1, found '-'");
  fault(dtype + ",\"shape\":[2.0]," + offsets, "found '.'");
  fault(dtype + ",\"shape\":[2e0]," + offsets, "found 'e'");
  fault(dtype + ",\"shape\":[02]," + offsets, "leading zeros");
  fault(dtype + ",\"shape\":[2,]," + offsets, "found ']'");
  fault(dtype + ",\"shape\":[9223372036854775808]," + offsets, "a larger one");
  fault(dtype + ",\"shape\":[99999999999999999999999999]," + offsets, "a larger one");
  fault(dtype + ",\"shape\":[4294967296,4294967296]," + offsets, "fewer than 2^63 bytes");
  fault(dtype + ",\"shape\":[9223372036854775807]," + offsets, "fewer than 2^63 bytes");
  fault(dtype + ",\"shape\":[3]," + offsets, "12 bytes for its shape and dtype, found 0 to 8");
  fault(dtype + ",\"shape\":[1]," + offsets, "4 bytes for its shape and dtype, found 0 to 8");
  fault(dtype + "," + shape + ",\"data_offsets\":[0]", "two data_offsets of 'a', found 1");
  fault(dtype + "," + shape + ",\"data_offsets\":[0,8,16]", "two data_offsets of 'a', found 3");
  fault(dtype + "," + shape + ",\"data_offsets\":[8,0]", "outside the file");
  fault(dtype + "," + shape + ",\"data_offsets\":[4,12]", "0 <= begin <= end <= 8, found 4 to 12");
  fault(dtype + "," + shape + ",\"data_offsets\":[9223372036854775800,9223372036854775807]", "outside the file");
}

TEST_CASE("tensors must tile the data") {
  CHECK_NOTHROW(parse("{" + tensor("b", 4, 8) + "," + tensor("empty", 4, 4) + "," + tensor("a", 0, 4) + "}", 8));
  CHECK_NOTHROW(parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807,0],\"data_offsets\":[0,0]}}"));
  const auto fault = [](const std::string& body, const std::string& expected) {
    INFO(body);
    CHECK_THROWS_WITH(parse("{" + body + "}", 8), Contains(expected));
  };
  fault(tensor("a", 0, 4) + "," + tensor("b", 0, 4), "overlap another tensor; expected begin 4, found 0");
  fault(tensor("a", 0, 5) + "," + tensor("b", 4, 8), "tensor 'b': data_offsets overlap");
  fault(tensor("a", 0, 3) + "," + tensor("b", 4, 8), "leave a hole; expected begin 3, found 4");
  fault(tensor("a", 1, 8), "leave a hole");
  fault(tensor("a", 0, 7), "bytes after the header; expected 7 in tensors, found 8");
  fault("", "expected 0 in tensors, found 8");
  fault(tensor("a", 0, 4) + "," + tensor("a", 4, 8), "each tensor name once, found 'a' again");
  fault(tensor("a", 0, 4) + "," + tensor("\\u0061", 4, 8), "'a' again");
}

TEST_CASE("no change of one byte, and no cut, gets past the reader unnoticed or breaks it") {
  const std::string json = "{\"__metadata__\":{\"k\":\"v\"}," + tensor("a", 0, 4) + "," + tensor("\\u00e9", 4, 8) + "}";
  REQUIRE_NOTHROW(parse(json, 8));
  for (std::size_t length = 0; length < json.size(); ++length) CHECK_THROWS_AS(parse(json.substr(0, length), 8), Error);
  int accepted = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = json;
      changed[i] = static_cast<char>(byte);
      try {
        const SafetensorsHeader header = parse(changed, 8);
        long bytes = 0;
        for (const auto& entry : header.entries) bytes += entry.end - entry.begin;
        REQUIRE(bytes == 8);
        ++accepted;
      } catch (const Error&) {
      }
    }
  }
  CHECK(accepted > 0);  // other names and metadata
}
