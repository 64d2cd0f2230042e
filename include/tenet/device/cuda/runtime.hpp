#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <tenet/core/error.hpp>

/// The CUDA runtime, as far as the device uses it: statuses that become errors, and what is owned.
namespace tenet::gpu {

/// Throws `Error` if a call of the CUDA runtime has failed: "Cuda: what; expected success, found …".
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // else the next call that asks for it reports it again
  fail("Cuda", what, "success", std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status));
}

/// GPUs that this process can use; 0 also where there is no driver.
inline int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

/// "12.50 MB"
inline std::string bytes_text(double bytes) {
  const char* unit = "B";
  for (const char* larger : {"kB", "MB", "GB"})
    if (bytes >= 1e3) bytes /= 1e3, unit = larger;
  const std::string digits = std::to_string(bytes);
  return digits.substr(0, digits.find('.') + 3) + " " + unit;
}

/// Memory of the current device; throws `Error` that names what it is for, and how much the device has.
inline void* allocate(long bytes, const char* purpose) {
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "asking how much memory is free");
    fail("Cuda", std::string("no room for ") + purpose, bytes_text(static_cast<double>(bytes)),
         bytes_text(static_cast<double>(free)) + " free of " + bytes_text(static_cast<double>(total)));
  }
  check(status, purpose);
  return memory;
}

/// Page-locked memory of the host: copies from and to it run while the host goes on. For a loader's batches:
/// DataLoader{images, {.memory = {gpu::allocate_page_locked, gpu::free_page_locked}}}.
inline void* allocate_page_locked(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), "taking page-locked memory");
  return memory;
}
inline void free_page_locked(void* memory) { cudaFreeHost(memory); }

}  // namespace tenet::gpu
