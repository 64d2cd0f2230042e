#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenet/core/error.hpp"
#include "tenet/data/dataset.hpp"

namespace tenet {

/// Images kept as bytes, with labels, and read as float: x = (byte / 255 - mean) / deviation; copies share the memory.
class ByteImages {
 public:
  using Input = float;
  using Target = std::int32_t;

  /// `pixels` holds labels.size() images of channels x rows x columns; throws `Error` if it does not, or if a label is
  /// not below `classes`.
  ByteImages(const std::string& name, std::vector<unsigned char> pixels, std::vector<unsigned char> labels,
             std::vector<int> image_extents, int classes, float mean = 0, float deviation = 1)
      : layout_{std::move(image_extents), DataKind::float32, {}, DataKind::int32}, classes_(classes) {
    layout_.check(name);
    image_size_ = static_cast<std::size_t>(layout_.input_size());
    if (pixels.size() != labels.size() * image_size_) {
      fail(name, "number of pixels", {labels.size(), " labels x ", image_size_}, pixels.size());
    }
    for (std::size_t i = 0; i < labels.size(); ++i) {
      if (labels[i] >= classes) {
        fail(name, {"label ", i}, {"0 to ", classes - 1}, labels[i]);
      }
    }
    for (std::size_t byte = 0; byte < 256; ++byte) {
      values_[byte] = (static_cast<float>(byte) / 255.0f - mean) / deviation;
    }
    data_ = std::make_shared<const Data>(Data{std::move(pixels), std::move(labels)});
  }

  /// Number of images.
  long size() const { return static_cast<long>(data_->labels.size()); }
  /// Inputs of channels x rows x columns floats, and one label.
  const SampleLayout& layout() const { return layout_; }
  /// Number of classes.
  int classes() const { return classes_; }
  /// The float that each byte stands for.
  const std::array<float, 256>& values() const { return values_; }
  /// The label of image `index`; throws `Error` if there is none.
  int label(long index) const {
    detail::check_index("ByteImages::label", index, size());
    return data_->labels[static_cast<std::size_t>(index)];
  }

  /// The bytes of image `index`; throws `Error` if there is none.
  const unsigned char* bytes(long index) const {
    detail::check_index("ByteImages::bytes", index, size());
    return data_->pixels.data() + static_cast<std::size_t>(index) * image_size_;
  }

  /// Converts image `index`; throws `Error` if there is none.
  void read(long index, void* input, void* target) const {
    detail::check_index("ByteImages::read", index, size());
    const unsigned char* bytes = data_->pixels.data() + static_cast<std::size_t>(index) * image_size_;
    float* x = static_cast<float*>(input);
    for (std::size_t i = 0; i < image_size_; ++i) x[i] = values_[bytes[i]];
    *static_cast<std::int32_t*>(target) = data_->labels[static_cast<std::size_t>(index)];
  }

 private:
  struct Data {
    std::vector<unsigned char> pixels;
    std::vector<unsigned char> labels;
  };
  SampleLayout layout_;
  int classes_;
  std::size_t image_size_ = 0;
  std::array<float, 256> values_{};  // what each byte means
  std::shared_ptr<const Data> data_;
};

}  // namespace tenet
