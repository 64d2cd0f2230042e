#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string_view>
#include <tenet/core/error.hpp>
#include <utility>

/// What cuDNN's graph interface is told, and asked, by: descriptors with attributes.
namespace tenet::gpu {

inline void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) fail("Cuda", what, "success", cudnnGetErrorString(status));
}

static_assert(CUDNN_VERSION >= 90800, "tenet::cuda wants cuDNN 9.8 or newer, which plans for a described device");

/// A description that cuDNN reads: attributes, and then `finalize`.
class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;
  explicit CudnnDescriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &made_), "describing a convolution");
  }
  CudnnDescriptor(CudnnDescriptor&& other) noexcept : made_(std::exchange(other.made_, nullptr)) {}
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept {
    std::swap(made_, other.made_);
    return *this;
  }
  ~CudnnDescriptor() {
    if (made_ != nullptr) cudnnBackendDestroyDescriptor(made_);
  }

  template <class Value>
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const Value* values,
                       long count = 1) {
    check(cudnnBackendSetAttribute(made_, name, type, count, values), "describing a convolution");
    return *this;
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    return set(name, other.made_);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &other);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::int64_t value) {
    return set(name, CUDNN_TYPE_INT64, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, &value);
  }
  /// What does not fit together fails here.
  CudnnDescriptor& finalize() {
    check(try_finalize(), "describing a convolution");
    return *this;
  }
  cudnnStatus_t try_finalize() { return cudnnBackendFinalize(made_); }

  /// Up to `count` values of an attribute; returns how many there are.
  template <class Value>
  long get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, Value* values, long count) const {
    std::int64_t found = 0;
    return cudnnBackendGetAttribute(made_, name, type, count, &found, values) == CUDNN_STATUS_SUCCESS ? found : 0;
  }
  cudnnBackendDescriptor_t get() const { return made_; }

 private:
  cudnnBackendDescriptor_t made_ = nullptr;
};

/// The GPU that kernels are made for: that of a handle, or as the library's JSON describes it.
inline CudnnDescriptor device_properties(cudnnHandle_t handle) {
  CudnnDescriptor made(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  made.set(CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, &handle).finalize();
  return made;
}
inline CudnnDescriptor device_properties(std::string_view json) {
  CudnnDescriptor made(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  made.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.data(), static_cast<long>(json.size()))
      .finalize();
  return made;
}

}  // namespace tenet::gpu
