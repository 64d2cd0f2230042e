#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/io/json_string.hpp"

namespace tenet {

/// Text kept with a safetensors file: pairs of key and value.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

namespace detail {

/// Bytes of one element of a safetensors type, 0 for a name that is none (or has less than a byte an element).
inline int safetensors_element_bytes(std::string_view dtype) {
  struct Type {
    std::string_view name;
    int bytes;
  };
  static constexpr Type types[] = {{"F32", 4},  {"I64", 8}, {"I32", 4},     {"F64", 8},     {"F16", 2},    {"BF16", 2},
                                   {"BOOL", 1}, {"U8", 1},  {"I8", 1},      {"I16", 2},     {"U16", 2},    {"U32", 4},
                                   {"U64", 8},  {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const Type& type : types) {
    if (type.name == dtype) return type.bytes;
  }
  return 0;
}

/// Bytes of a tensor; throws `Error` if the type is unknown, an extent negative, or the product does not fit.
inline long safetensors_bytes(const std::string& where, const std::string& dtype, const std::vector<long>& shape) {
  long bytes = safetensors_element_bytes(dtype);
  if (bytes == 0)
    fail(where, "dtype", "F32, F64, F16, BF16, F8_*, C64, I8 to I64, U8 to U64 or BOOL", {"'", dtype, "'"});
  bool empty = false;
  for (long extent : shape) {
    if (extent < 0) fail(where, "shape", "extents of 0 or more", extent);
    empty |= extent == 0;
  }
  for (long extent : shape) {
    if (!empty && bytes > std::numeric_limits<long>::max() / extent)
      fail(where, "shape", "fewer than 2^63 bytes", "more");
    bytes = empty ? 0 : bytes * extent;
  }
  return bytes;
}

/// A tensor as a header describes it.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<long> shape;
  long begin = 0, end = 0;  // bytes after the header
};

/// Reads the JSON of a safetensors header: an object of tensors and one of text, nothing else, nothing twice. A
/// template, so that only programs that read such a file compile it.
template <class Text = std::string_view>
class SafetensorsHeaderOf {
 public:
  std::vector<SafetensorsEntry> entries;       ///< In the header's order.
  std::vector<const SafetensorsEntry*> order;  ///< The same in the order of their data.
  SafetensorsMetadata metadata;

  SafetensorsHeaderOf(const SafetensorsHeaderOf&) = delete;  // `order` points into `entries`
  SafetensorsHeaderOf& operator=(const SafetensorsHeaderOf&) = delete;

  /// `data_bytes` is what the file has after the header; throws `Error` if the tensors do not tile it exactly.
  SafetensorsHeaderOf(std::string where, Text json, long data_bytes) : where_(std::move(where)), json_(json) {
    if (const std::size_t bad = find_invalid_utf8(json_); bad != std::string_view::npos) {
      at_ = bad;
      reject("UTF-8", "another byte");
    }
    if (json_.empty() || json_[0] != '{') reject("'{'", found());
    object("tensor name",
           [&](std::string key) { key == "__metadata__" ? read_metadata() : read_tensor(std::move(key)); });
    skip_space();
    if (at_ != json_.size()) reject("nothing but spaces after the object", found());
    check_tiling(data_bytes);
  }

 private:
  [[noreturn]] void reject(const Message& expected, const Message& found) const {
    fail({where_, ", header byte ", at_}, "malformed header", expected, found);
  }
  std::string found() const {
    if (at_ >= json_.size()) return "the end of the header";
    const auto code = static_cast<unsigned char>(json_[at_]);
    return code >= 0x20 && code < 0x7f ? std::string("'") + json_[at_] + "'" : "byte " + std::to_string(code);
  }

  void skip_space() {
    while (at_ < json_.size() && (json_[at_] == ' ' || json_[at_] == '\t' || json_[at_] == '\n' || json_[at_] == '\r'))
      ++at_;
  }
  bool accept(char wanted) {
    skip_space();
    if (at_ >= json_.size() || json_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) reject(std::string{'\'', wanted, '\''}, found());
  }

  // { key : member, … }, calling `member(key)` with the value to read.
  template <class Member>
  void object(const char* kind, Member member) {
    std::set<std::string> keys;
    expect('{');
    if (accept('}')) return;
    do {
      skip_space();
      const std::size_t start = at_;
      std::string key = string();
      if (!keys.insert(key).second) {
        at_ = start;
        reject({"each ", kind, " once"}, {"'", key, "' again"});
      }
      expect(':');
      member(std::move(key));
    } while (accept(','));
    expect('}');
  }

  void read_metadata() {
    object("metadata key", [&](std::string key) { metadata.emplace_back(std::move(key), string()); });
  }

  void read_tensor(std::string name) {
    SafetensorsEntry entry;
    entry.name = std::move(name);
    bool has_dtype = false, has_shape = false, has_offsets = false;
    skip_space();
    const std::size_t start = at_;
    object("key", [&](const std::string& key) {
      if (key == "dtype") {
        entry.dtype = string();
        has_dtype = true;
      } else if (key == "shape") {
        entry.shape = numbers();
        has_shape = true;
      } else if (key == "data_offsets") {
        const std::vector<long> offsets = numbers();
        if (offsets.size() != 2) reject({"two data_offsets of '", entry.name, "'"}, offsets.size());
        entry.begin = offsets[0];
        entry.end = offsets[1];
        has_offsets = true;
      } else {
        reject({"dtype, shape or data_offsets in '", entry.name, "'"}, {"'", key, "'"});
      }
    });
    if (!has_dtype || !has_shape || !has_offsets) {
      at_ = start;
      reject({"dtype, shape and data_offsets in '", entry.name, "'"}, {"no ", !has_dtype   ? "dtype"
                                                                              : !has_shape ? "shape"
                                                                                           : "data_offsets"});
    }
    entries.push_back(std::move(entry));
  }

  std::vector<long> numbers() {
    std::vector<long> values;
    expect('[');
    if (accept(']')) return values;
    do values.push_back(number());
    while (accept(','));
    expect(']');
    return values;
  }

  // A whole number from 0 to 2^63 - 1, in digits alone.
  long number() {
    skip_space();
    const std::size_t start = at_;
    constexpr const char* range = "a whole number from 0 to 2^63 - 1";
    long value = 0;
    for (; at_ < json_.size() && json_[at_] >= '0' && json_[at_] <= '9'; ++at_) {
      const long digit = json_[at_] - '0';
      if (value > (std::numeric_limits<long>::max() - digit) / 10) reject(range, "a larger one");
      value = value * 10 + digit;
    }
    if (at_ == start) reject(range, found());
    if (json_[start] == '0' && at_ - start > 1) reject(range, "leading zeros");
    if (at_ < json_.size() && (json_[at_] == '.' || json_[at_] == 'e' || json_[at_] == 'E')) reject(range, found());
    return value;
  }

  std::string string() {
    expect('"');
    std::string text;
    for (;; ++at_) {
      if (at_ >= json_.size() || static_cast<unsigned char>(json_[at_]) < 0x20)
        reject("'\"' at the end of a string", found());
      if (json_[at_] == '"') break;
      if (json_[at_] != '\\') {
        text += json_[at_];
        continue;
      }
      ++at_;
      constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
      const std::size_t simple = at_ < json_.size() ? letters.find(json_[at_]) : std::string_view::npos;
      if (simple != std::string_view::npos) {
        text += meanings[simple];
      } else if (at_ < json_.size() && json_[at_] == 'u') {
        append_code_point(text);
      } else {
        reject("one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u in a string", found());
      }
    }
    ++at_;
    return text;
  }

  // At the 'u' of \uXXXX, which is followed by a second one for code points above U+FFFF; ends at the last digit.
  void append_code_point(std::string& text) {
    std::uint32_t code = four_digits();
    if (code >= 0xdc00 && code < 0xe000)
      reject("a \\u escape with a character", "the second half of a surrogate pair alone");
    if (code >= 0xd800 && code < 0xdc00) {
      if (json_.substr(at_ + 1, 2) != "\\u") reject("the second half of a surrogate pair", "none");
      at_ += 2;
      const std::uint32_t low = four_digits();
      if (low < 0xdc00 || low >= 0xe000) reject("the second half of a surrogate pair", "another code");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    const auto put = [&](std::uint32_t bits) { text += static_cast<char>(bits); };
    if (code < 0x80) {
      put(code);
    } else {
      if (code < 0x800) {
        put(0xc0 | code >> 6);
      } else {
        if (code < 0x10000) {
          put(0xe0 | code >> 12);
        } else {
          put(0xf0 | code >> 18);
          put(0x80 | (code >> 12 & 0x3f));
        }
        put(0x80 | (code >> 6 & 0x3f));
      }
      put(0x80 | (code & 0x3f));
    }
  }

  std::uint32_t four_digits() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      ++at_;
      const char c = at_ < json_.size() ? json_[at_] : ' ';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) reject("four hexadecimal digits after \\u", found());
      code = code << 4 | static_cast<std::uint32_t>(digit);
    }
    return code;
  }

  // In the order of the data, each tensor begins where the one before ends, and the last ends with the file: so nothing
  // overlaps, leaves a hole, or lies outside.
  void check_tiling(long data_bytes) {
    for (const SafetensorsEntry& entry : entries) order.push_back(&entry);
    std::sort(order.begin(), order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->end < b->end;
    });
    long end = 0;
    for (const SafetensorsEntry* entry : order) {
      const std::string tensor = where_ + ", tensor '" + entry->name + "'";
      const Message offsets{entry->begin, " to ", entry->end};
      const long bytes = safetensors_bytes(tensor, entry->dtype, entry->shape);
      if (entry->end < entry->begin || entry->end > data_bytes) {
        fail(tensor, "data_offsets outside the file", {"0 <= begin <= end <= ", data_bytes}, offsets);
      }
      if (entry->end - entry->begin != bytes) {
        fail(tensor, "data_offsets", {bytes, " bytes for its shape and dtype"}, offsets);
      }
      if (entry->begin != end) {
        fail(tensor, entry->begin < end ? "data_offsets overlap another tensor" : "data_offsets leave a hole",
             {"begin ", end}, entry->begin);
      }
      end = entry->end;
    }
    if (end != data_bytes) {
      fail(where_, "bytes after the header", {end, " in tensors"}, data_bytes);
    }
  }

  std::string where_;
  Text json_;
  std::size_t at_ = 0;
};
using SafetensorsHeader = SafetensorsHeaderOf<>;

}  // namespace detail
}  // namespace tenet
