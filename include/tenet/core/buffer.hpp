#pragma once

#include <cstddef>
#include <cstring>
#include <tenet/core/large_memory.hpp>

namespace tenet {

/// Floats at an address that is a multiple of 64 bytes; in huge pages where they are many.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(long floats) { grow(floats); }

  /// At least so many floats; new ones are zero. When memory is taken, the old contents are lost.
  void grow(long floats) {
    if (floats <= size_) return;
    memory_.reset();
    memory_ = take_floats(floats);
    std::memset(memory_.get(), 0, static_cast<std::size_t>(floats) * sizeof(float));
    size_ = floats;
  }

  float* data() { return memory_.get(); }
  const float* data() const { return memory_.get(); }
  long size() const { return size_; }

 private:
  FloatMemory memory_;
  long size_ = 0;
};

}  // namespace tenet
