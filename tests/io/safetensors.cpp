#include "tenet/io/safetensors.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "../temporary_folder.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

template <class T>
std::vector<T> values(const NamedTensor* tensor) {
  REQUIRE(tensor != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(tensor->data) % 64 == 0);
  std::size_t count = 1;
  for (long extent : tensor->shape) count *= static_cast<std::size_t>(extent);
  const T* first = static_cast<const T*>(tensor->data);
  return {first, first + count};
}

// A file with this header and data.
std::string file_of(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

}  // namespace

TEST_CASE("what is written is read again") {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6};
  const std::int64_t tracked = 1L << 40;
  const std::int32_t tokens[] = {7, -8, 9};
  write_safetensors(path,
                    {{"weight", "F32", {2, 3}, weight.data()},
                     {"tokens", "I32", {3}, tokens},
                     {"odd \"\\\n\x01 \u00e9", "U8", {0}, nullptr},
                     {"tracked", "I64", {}, &tracked}},
                    {{"format", "pt"}, {"k\"", "v\t"}});
  CHECK(folder.files() == 1);
  const SafetensorsFile file(path);
  // Larger elements come first, and otherwise the order is kept.
  CHECK(file.names() == std::vector<std::string>{"tracked", "weight", "tokens", "odd \"\\\n\x01 \u00e9"});
  CHECK(file.find("weight")->dtype == "F32");
  CHECK(file.find("weight")->shape == std::vector<long>{2, 3});
  CHECK(values<float>(file.find("weight")) == weight);
  CHECK(values<std::int64_t>(file.find("tracked")) == std::vector<std::int64_t>{1L << 40});
  CHECK(values<std::int32_t>(file.find("tokens")) == std::vector<std::int32_t>{7, -8, 9});
  CHECK(file.find("bias") == nullptr);
  CHECK(file.metadata() == SafetensorsMetadata{{"format", "pt"}, {"k\"", "v\t"}});

  // The layout: the data begins at a multiple of eight bytes.
  const std::string bytes = read_file(path);
  std::uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(bytes[8] == '{');
  CHECK(bytes.size() == 8 + length + 8 + 24 + 12);
  CHECK(std::memcmp(bytes.data() + 8 + length, &tracked, 8) == 0);

  write_safetensors(path, {});
  CHECK(SafetensorsFile(path).tensors().empty());
}

TEST_CASE("a file of the Python package is read") {
  const SafetensorsFile file(TENET_TEST_DATA "/data/reference.safetensors");
  CHECK(file.tensors().size() == 6);
  CHECK(file.find("conv.weight")->shape == std::vector<long>{1, 2, 3});
  CHECK(values<float>(file.find("conv.weight")) == std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f});
  CHECK(file.find("bn.num_batches_tracked")->dtype == "I64");
  CHECK(file.find("bn.num_batches_tracked")->shape.empty());
  CHECK(values<std::int64_t>(file.find("bn.num_batches_tracked")) == std::vector<std::int64_t>{1234567890123});
  CHECK(values<std::int32_t>(file.find("tokens")) == std::vector<std::int32_t>{3, -1, 2});
  CHECK(file.find("mask")->dtype == "BOOL");
  CHECK(values<std::uint8_t>(file.find("mask")) == std::vector<std::uint8_t>{1, 0, 1});
  CHECK(file.find("empty")->shape == std::vector<long>{0, 4});
  CHECK(values<std::uint16_t>(file.find("na\u00efve \"\u20ac\"\n\U0001f600")) == std::vector<std::uint16_t>{0x3800});
  SafetensorsMetadata metadata = file.metadata();
  std::sort(metadata.begin(), metadata.end());
  CHECK(metadata == SafetensorsMetadata{{"format", "np"}, {"note", "line 1\nline 2 \u00e9"}});
}

TEST_CASE("a header may list tensors in another order than that of their data") {
  const TemporaryFolder folder;
  const std::string header =
      R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const SafetensorsFile file(folder.write("file", file_of(header, "xyz")));
  CHECK(file.names() == std::vector<std::string>{"b", "a"});
  CHECK(values<char>(file.find("a")) == std::vector<char>{'x'});
  CHECK(values<char>(file.find("b")) == std::vector<char>{'y', 'z'});
}

TEST_CASE("tensors that cannot be written are refused, and the old file stays") {
  const TemporaryFolder folder;
  const std::string path = folder.write("model", "old");
  const float x[2] = {};
  const auto fault = [&](const std::vector<NamedTensor>& tensors, const SafetensorsMetadata& metadata,
                         const char* expected) {
    CHECK_THROWS_WITH(write_safetensors(path, tensors, metadata),
                      Contains("write_safetensors '" + path) && Contains(expected));
    CHECK(read_file(path) == "old");
    CHECK(folder.files() == 1);
  };
  fault({{"a", "F32", {2}, x}, {"a", "F32", {2}, x}}, {}, "'a' again");
  fault({{"__metadata__", "F32", {2}, x}}, {}, "reserved");
  fault({{"\xff", "F32", {2}, x}}, {}, "UTF-8");
  fault({{"a", "float", {2}, x}}, {}, "'float'");
  fault({{"a", "F32", {-2}, x}}, {}, "found -2");
  fault({{"a", "F32", {1L << 40, 1L << 40}, x}}, {}, "2^63");
  fault({{"a", "F32", {2}, nullptr}}, {}, "null");
  fault({}, {{"k", "1"}, {"k", "2"}}, "'k' again");
  fault({}, {{"k", "\xff"}}, "UTF-8");
  CHECK_THROWS_WITH(write_safetensors(folder / "no/model", {}), Contains("No such file"));
}

TEST_CASE("a file that is not whole or not of the format is refused") {
  const TemporaryFolder folder;
  const auto fault = [&](const std::string& bytes, const char* expected) {
    CHECK_THROWS_WITH(SafetensorsFile(folder.write("file", bytes)),
                      Contains("safetensors file '") && Contains(expected));
  };
  CHECK_THROWS_WITH(SafetensorsFile(folder / "missing"), Contains("No such file"));
  CHECK_THROWS_AS(SafetensorsFile(folder.path()), Error);
  fault("", "found 0 bytes");
  fault("1234567", "found 7 bytes");
  fault(std::string(8, '\0'), "expected '{'");
  fault(file_of("{}").replace(0, 1, "\x10"), "header length; expected at most the file's");
  fault(file_of("{}").replace(0, 8, std::string(8, '\xff')), "found 18446744073709551615");
  fault(file_of("{}", "x"), "bytes after the header; expected 0 in tensors, found 1");
  CHECK_NOTHROW(SafetensorsFile(folder.write("file", file_of("{}  "))));

  // A header beyond the format's limit is not even read.
  const std::uint64_t length = 100'000'001;
  const std::string path = folder.write("file", std::string(reinterpret_cast<const char*>(&length), 8));
  std::filesystem::resize_file(path, length + 8);
  CHECK_THROWS_WITH(SafetensorsFile(path), Contains("header length; expected at most 100000000, found 100000001"));
}

TEST_CASE("a file cut anywhere is refused") {
  const TemporaryFolder folder;
  const std::string whole = read_file(TENET_TEST_DATA "/data/reference.safetensors");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_THROWS_AS(SafetensorsFile(folder.write("cut", whole.substr(0, length))), Error);
  }
}
