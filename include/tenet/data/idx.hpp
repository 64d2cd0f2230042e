#pragma once

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"

namespace tenet {

/// An array of unsigned bytes from an IDX file, row-major.
struct IdxArray {
  std::vector<int> extents;
  std::vector<unsigned char> bytes;
};

namespace detail {

/// A file read through zlib, which passes plain files on as they are.
class GzipFile {
 public:
  explicit GzipFile(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) fail("IDX file '" + path + "'", "cannot open it", "a readable file", std::strerror(errno));
    gzbuffer(file_, 1 << 17);
  }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;
  ~GzipFile() { gzclose_r(file_); }

  /// Reads up to `count` bytes; fewer mean the end of the file, cut or not.
  std::size_t read(void* memory, std::size_t count) {
    std::size_t done = 0;
    while (done < count) {
      const auto ask = static_cast<unsigned>(std::min<std::size_t>(count - done, 1u << 30));
      const int got = gzread(file_, static_cast<char*>(memory) + done, ask);
      if (got < 0)
        fail("IDX file '" + path_ + "'", "cannot read on after byte " + std::to_string(done), "data", message());
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  /// Whether the file's compressed data is whole, once its end was reached; throws `Error` if not.
  void check_end() {
    int code = Z_OK;
    gzerror(file_, &code);
    if (code != Z_OK && code != Z_STREAM_END)
      fail("IDX file '" + path_ + "'", "end of the data", "a whole file", message());
  }

 private:
  std::string message() {
    int code = Z_OK;
    const char* text = gzerror(file_, &code);
    return code == Z_ERRNO ? std::strerror(errno) : text;
  }

  std::string path_;
  gzFile file_;
};

}  // namespace detail

/// Reads an IDX file of unsigned bytes, plain or compressed with gzip.
///
/// The file has two zero bytes, the element type (8: unsigned byte), the number of extents, each extent as four bytes,
/// the highest first, and the elements. Throws `Error` if the file is missing, is not of this kind, or is shorter or
/// longer than its extents say. Source: http://yann.lecun.com/exdb/mnist/.
inline IdxArray read_idx(const std::string& path) {
  const std::string where = "IDX file '" + path + "'";
  detail::GzipFile file(path);

  unsigned char magic[4];
  const std::size_t got = file.read(magic, 4);
  if (got < 4) fail(where, "its header is cut", "4 bytes", std::to_string(got));
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || magic[3] < 1 || magic[3] > 8) {
    char found[16];
    std::snprintf(found, sizeof found, "%02x %02x %02x %02x", magic[0], magic[1], magic[2], magic[3]);
    fail(where, "wrong magic number", "00 00 08 and 1 to 8 extents (an IDX file of unsigned bytes)", found);
  }

  IdxArray array;
  std::size_t total = 1;
  for (int i = 0; i < magic[3]; ++i) {
    unsigned char digits[4];
    if (file.read(digits, 4) < 4) {
      fail(where, "its header is cut", std::to_string(magic[3]) + " extents", std::to_string(i));
    }
    const std::size_t extent =
        std::size_t{digits[0]} << 24 | std::size_t{digits[1]} << 16 | std::size_t{digits[2]} << 8 | digits[3];
    if (extent == 0 || extent > 0x7fffffff || extent > (std::size_t{1} << 40) / total) {
      fail(where, "extent " + std::to_string(i), "at least 1, and at most 2^40 elements in all",
           std::to_string(extent));
    }
    total *= extent;
    array.extents.push_back(static_cast<int>(extent));
  }

  // In pieces, so that a header which lies about its size costs no more memory than the file has data.
  while (array.bytes.size() < total) {
    const std::size_t before = array.bytes.size();
    const std::size_t ask = std::min(total - before, std::max<std::size_t>(before, std::size_t{1} << 26));
    array.bytes.resize(before + ask);
    const std::size_t read = file.read(array.bytes.data() + before, ask);
    if (read < ask) fail(where, "its data is cut", std::to_string(total) + " elements", std::to_string(before + read));
  }
  unsigned char more;
  if (file.read(&more, 1) != 0) fail(where, "data after the end", std::to_string(total) + " elements", "more");
  file.check_end();
  return array;
}

/// Reads an IDX file as `read_idx(path)` does; throws `Error` unless it has as many extents as `extents` and each
/// equals the one there, where -1 stands for any.
inline IdxArray read_idx(const std::string& path, const std::vector<int>& extents) {
  IdxArray array = read_idx(path);
  const auto text = [](const std::vector<int>& sizes) {
    std::string result;
    for (int size : sizes)
      result += (result.empty() ? "" : " x ") + (size < 0 ? std::string("any") : std::to_string(size));
    return result;
  };
  const bool same = std::equal(extents.begin(), extents.end(), array.extents.begin(), array.extents.end(),
                               [](int wanted, int found) { return wanted < 0 || wanted == found; });
  if (!same) fail("IDX file '" + path + "'", "its extents", text(extents), text(array.extents));
  return array;
}

}  // namespace tenet
