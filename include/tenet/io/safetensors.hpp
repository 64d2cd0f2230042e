#pragma once

#include <algorithm>
#include <cerrno>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/io/atomic_file.hpp"
#include "tenet/io/safetensors_header.hpp"

namespace tenet {

/// A tensor in memory of its owner: row-major, in the machine's byte order.
struct NamedTensor {
  std::string name;         ///< As in PyTorch's state_dict, e.g. "layer1.0.conv1.weight".
  std::string dtype;        ///< "F32", "I32", "I64", … as the format names them.
  std::vector<long> shape;  ///< Empty for a single number.
  const void* data = nullptr;
};

/// Writes tensors to a safetensors file, which appears whole or not at all.
///
/// The file holds the length of the header as 8 bytes, the lowest first; the header, JSON padded with spaces to a
/// multiple of 8; and the tensors without gaps, those of larger elements first, so that each is aligned. Throws `Error`
/// for names that are taken, reserved or not UTF-8, unknown types, shapes that cannot be counted, and if the file
/// cannot be written. Source: https://github.com/huggingface/safetensors. It is a template, as the reader's
/// constructor, so that only programs with such files compile it.
template <class Tensors = std::vector<NamedTensor>>
void write_safetensors(const std::string& path, const Tensors& tensors, const SafetensorsMetadata& metadata = {}) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
                "safetensors: the format is little-endian, as memory must be");
  const std::string where = "write_safetensors '" + path + "'";
  const auto check_name = [&](std::set<std::string>& taken, const std::string& name, const char* kind) {
    if (detail::find_invalid_utf8(name) != std::string_view::npos) fail(where, kind, "UTF-8", {"'", name, "'"});
    if (!taken.insert(name).second) fail(where, kind, "each once", {"'", name, "' again"});
  };

  std::string header = "{";
  if (!metadata.empty()) {
    std::set<std::string> keys;
    header += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      check_name(keys, key, "metadata key");
      if (detail::find_invalid_utf8(value) != std::string_view::npos)
        fail(where, {"metadata of '", key, "'"}, "UTF-8", "other bytes");
      if (keys.size() > 1) header += ',';
      header += detail::json_string(key);
      header += ':';
      header += detail::json_string(value);
    }
    header += '}';
  }

  std::set<std::string> names;
  for (const NamedTensor& tensor : tensors) {
    check_name(names, tensor.name, "tensor name");
    if (tensor.name == "__metadata__") fail(where, "tensor name", "another: this one is reserved", "'__metadata__'");
    const long bytes = detail::safetensors_bytes(where + ", tensor '" + tensor.name + "'", tensor.dtype, tensor.shape);
    if (bytes > 0 && !tensor.data) fail(where, {"data of '", tensor.name, "'"}, "a pointer", "null");
  }
  std::vector<const NamedTensor*> order;
  for (int element_bytes : {8, 4, 2, 1}) {
    for (const NamedTensor& tensor : tensors) {
      if (detail::safetensors_element_bytes(tensor.dtype) == element_bytes) order.push_back(&tensor);
    }
  }

  long offset = 0;
  for (const NamedTensor* tensor : order) {
    if (header.size() > 1) header += ',';
    header += detail::json_string(tensor->name);
    header += ":{\"dtype\":\"" + tensor->dtype + "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor->shape.size(); ++i) {
      header += (i == 0 ? "" : ",") + std::to_string(tensor->shape[i]);
    }
    header += "],\"data_offsets\":[" + std::to_string(offset);
    offset += detail::safetensors_bytes(where, tensor->dtype, tensor->shape);
    header += "," + std::to_string(offset) + "]}";
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');

  AtomicFile file(path);
  const std::uint64_t length = header.size();
  file.write(&length, 8);
  file.write(header.data(), header.size());
  for (const NamedTensor* tensor : order) {
    file.write(tensor->data, static_cast<std::size_t>(detail::safetensors_bytes(where, tensor->dtype, tensor->shape)));
  }
  file.commit();
}

/// A safetensors file read into memory; its tensors are views which live as long as it does.
///
/// Every number in the header is checked before it is used; a file which is cut, malformed or contradicts itself throws
/// an `Error` that says where, what was expected and what was found.
class SafetensorsFile {
 public:
  template <std::convertible_to<std::string> Path>
  explicit SafetensorsFile(const Path& of) {
    const std::string path = of, where = "safetensors file '" + path + "'";
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
    if (!file) fail(where, "cannot open it", "a readable file", std::strerror(errno));
    if (std::fseek(file.get(), 0, SEEK_END) != 0)
      fail(where, "cannot find its size", "a regular file", std::strerror(errno));
    const long size = std::ftell(file.get());
    std::rewind(file.get());
    const auto read = [&](void* memory, long bytes) {
      const std::size_t got = std::fread(memory, 1, static_cast<std::size_t>(bytes), file.get());
      if (got != static_cast<std::size_t>(bytes)) {
        fail(where, "cannot read it", {bytes, " bytes more"}, got);
      }
    };

    if (size < 8) fail(where, "it is cut", "8 bytes with the header's length", {size, " bytes"});
    std::uint64_t length = 0;
    read(&length, 8);
    const auto room = static_cast<std::uint64_t>(size - 8);
    if (length > room) fail(where, "header length", {"at most the file's ", room, " bytes"}, std::to_string(length));
    if (length > header_limit) fail(where, "header length", {"at most ", header_limit}, length);
    std::string json(length, ' ');
    read(json.data(), static_cast<long>(length));
    detail::SafetensorsHeader header(where, json, size - 8 - static_cast<long>(length));
    metadata_ = std::move(header.metadata);

    // Each tensor gets a 64-byte aligned place, wherever it is in the file, which is read in its order.
    long total = 0;
    for (const detail::SafetensorsEntry* entry : header.order) total += round_up(entry->end - entry->begin);
    data_.reset(
        static_cast<std::byte*>(::operator new(static_cast<std::size_t>(std::max(total, 64L)), std::align_val_t(64))));
    tensors_.resize(header.entries.size());
    std::byte* place = data_.get();
    for (const detail::SafetensorsEntry* entry : header.order) {
      const long bytes = entry->end - entry->begin;
      read(place, bytes);
      tensors_[static_cast<std::size_t>(entry - header.entries.data())] = {entry->name, entry->dtype, entry->shape,
                                                                           place};
      place += round_up(bytes);
    }
  }

  /// All tensors, in the header's order; each is aligned to 64 bytes.
  const std::vector<NamedTensor>& tensors() const { return tensors_; }

  /// Their names, in the same order.
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const NamedTensor& tensor : tensors_) result.push_back(tensor.name);
    return result;
  }

  /// The tensor of that name, or null.
  const NamedTensor* find(const std::string& name) const {
    for (const NamedTensor& tensor : tensors_) {
      if (tensor.name == name) return &tensor;
    }
    return nullptr;
  }

  /// The text kept with the tensors.
  const SafetensorsMetadata& metadata() const { return metadata_; }

 private:
  static constexpr std::uint64_t header_limit = 100'000'000;  // the reference implementation's

  static long round_up(long bytes) { return (bytes + 63) / 64 * 64; }

  struct Release {
    void operator()(std::byte* memory) const { ::operator delete(memory, std::align_val_t(64)); }
  };
  std::vector<NamedTensor> tensors_;
  SafetensorsMetadata metadata_;
  std::unique_ptr<std::byte, Release> data_;
};

}  // namespace tenet
