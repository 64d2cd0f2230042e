#include <catch2/catch.hpp>

#include "tenet/device/cuda/runtime.hpp"

using tenet::Error;
namespace gpu = tenet::gpu;

TEST_CASE("a failed call of the runtime is an error that says what and why", "[cuda][runtime]") {
  gpu::check(cudaSuccess, "nothing");
  try {
    gpu::check(cudaErrorInvalidValue, "copying in");
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.find("Cuda: copying in; expected success, found cudaErrorInvalidValue") == 0);
  }
}

TEST_CASE("numbers of bytes as text", "[cuda][runtime]") {
  CHECK(gpu::bytes_text(512) == "512.00 B");
  CHECK(gpu::bytes_text(12'500'000) == "12.50 MB");
  CHECK(gpu::bytes_text(139e9) == "139.00 GB");
  CHECK(gpu::bytes_text(2e12) == "2000.00 GB");
}

TEST_CASE("more memory than a GPU has is an error that says for what", "[cuda][runtime]") {
  if (gpu::device_count() == 0) return;
  try {
    gpu::allocate(1l << 50, "the activations of a batch");
    FAIL("no error");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(message.find("no room for the activations of a batch; expected 1125899.90 GB") != std::string::npos);
    CHECK(message.find(" free of ") != std::string::npos);
  }
  gpu::check(cudaGetLastError(), "the next call");  // the failure is not reported again
}
