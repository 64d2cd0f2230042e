#include "tenet/data/idx.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "../temporary_folder.hpp"

using namespace tenet;
using Catch::Matchers::Contains;

namespace {

// An IDX file of 2 x 3 bytes.
const std::string plain = std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03", 12) + "abcdef";

std::string compress(const TemporaryFolder& folder, const std::string& bytes) {
  const std::string path = folder / "compressed";
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return read_file(path);
}

}  // namespace

TEST_CASE("IDX files are read, plain and compressed") {
  const TemporaryFolder folder;
  for (const std::string& path : {folder.write("plain", plain), folder.write("packed.gz", compress(folder, plain))}) {
    const IdxArray array = read_idx(path);
    CHECK(array.extents == std::vector<int>{2, 3});
    CHECK(std::string(array.bytes.begin(), array.bytes.end()) == "abcdef");
    CHECK_NOTHROW(read_idx(path, {-1, 3}));
  }
}

TEST_CASE("every fault of an IDX file is named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_idx(folder / "missing"), Contains("cannot open") && Contains("No such file"));
  CHECK_THROWS_WITH(read_idx(folder.path()), Contains("IDX file"));

  const auto read = [&](const std::string& bytes) { read_idx(folder.write("file", bytes)); };
  CHECK_THROWS_WITH(read(""), Contains("header is cut") && Contains("found 0"));
  CHECK_THROWS_WITH(read(plain.substr(0, 10)), Contains("header is cut") && Contains("2 extents, found 1"));
  CHECK_THROWS_WITH(read("PNG\n1234"), Contains("wrong magic number") && Contains("50 4e 47 0a"));
  std::string wrong = plain;
  wrong[2] = 0x0d;  // floats
  CHECK_THROWS_WITH(read(wrong), Contains("wrong magic number") && Contains("00 00 0d 02"));
  wrong = plain;
  wrong[3] = 0;
  CHECK_THROWS_WITH(read(wrong), Contains("wrong magic number"));
  wrong = plain;
  wrong[11] = 0;
  CHECK_THROWS_WITH(read(wrong), Contains("extent 1") && Contains("found 0"));
  CHECK_THROWS_WITH(read(plain.substr(0, 17)), Contains("data is cut") && Contains("expected 6 elements, found 5"));
  CHECK_THROWS_WITH(read(plain + "g"), Contains("data after the end"));

  // A header which promises 1.9 GB or 2^62 bytes costs neither memory nor time.
  wrong = plain;
  wrong[4] = 0x2f;
  CHECK_THROWS_WITH(read(wrong), Contains("data is cut"));
  wrong[8] = 0x7f;
  CHECK_THROWS_WITH(read(wrong), Contains("extent 1"));
  wrong[4] = '\x80';
  CHECK_THROWS_WITH(read(wrong), Contains("extent 0"));

  const std::string path = folder.write("shape", plain);
  CHECK_THROWS_WITH(read_idx(path, {-1, 4}), Contains("its extents; expected any x 4, found 2 x 3"));
  CHECK_THROWS_WITH(read_idx(path, {2}), Contains("expected 2, found 2 x 3"));
}

TEST_CASE("a damaged compressed file is found out wherever it is cut or changed") {
  const TemporaryFolder folder;
  const std::string packed = compress(folder, plain);
  for (std::size_t length = 1; length < packed.size(); ++length) {
    CHECK_THROWS_AS(read_idx(folder.write("cut.gz", packed.substr(0, length))), Error);
  }
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // in the checksum
  CHECK_THROWS_WITH(read_idx(folder.write("changed.gz", changed)), Contains("IDX file"));
}
