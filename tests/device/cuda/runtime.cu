#include <catch2/catch.hpp>
#include <tenet/data/data_loader.hpp>

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

TEST_CASE("batches of a loader lie in page-locked memory", "[cuda][runtime]") {
  const tenet::TensorDataset data(std::vector<float>(12), {3}, std::vector<std::int32_t>(4));
  const auto load = [&] {
    tenet::DataLoader loader{data, {.batch_size = 2, .memory = {gpu::allocate_page_locked, gpu::free_page_locked}}};
    for (const tenet::Batch& batch : loader.epoch(0)) {
      cudaPointerAttributes found{};
      CHECK(cudaPointerGetAttributes(&found, batch.input) == cudaSuccess);
      CHECK(found.type == cudaMemoryTypeHost);
    }
  };
  if (gpu::device_count() > 0)
    load();
  else
    CHECK_THROWS_AS(load(), Error);  // there is nobody to lock the pages for
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
