#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace tenet {

/// Floats at an address that is a multiple of 64 bytes.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(long floats) { grow(floats); }

  /// At least so many floats; new ones are zero. When memory is taken, the old contents are lost.
  void grow(long floats) {
    if (floats <= size_) return;
    const std::size_t bytes = static_cast<std::size_t>(floats) * sizeof(float);
    memory_.reset();
    memory_.reset(static_cast<float*>(::operator new(bytes, std::align_val_t{64})));
    std::memset(memory_.get(), 0, bytes);
    size_ = floats;
  }

  float* data() { return memory_.get(); }
  const float* data() const { return memory_.get(); }
  long size() const { return size_; }

 private:
  struct Free {
    void operator()(float* memory) const { ::operator delete(memory, std::align_val_t{64}); }
  };
  std::unique_ptr<float, Free> memory_;
  long size_ = 0;
};

}  // namespace tenet
