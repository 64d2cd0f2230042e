#include <catch2/catch.hpp>
#include <utility>

#include "tenet/core/error.hpp"
#include "tenet/device/cuda/cudnn_descriptor.hpp"

namespace gpu = tenet::gpu;

TEST_CASE("cuDNN's descriptors move, and refuse what is not complete", "[cuda][conv2d]") {
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  gpu::CudnnDescriptor made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  made.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
      .finalize();
  const cudnnBackendDescriptor_t held = made.get();
  const gpu::CudnnDescriptor moved = std::move(made);
  CHECK(moved.get() == held);
  CHECK(made.get() == nullptr);
  gpu::CudnnDescriptor empty(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  CHECK(empty.try_finalize() != CUDNN_STATUS_SUCCESS);
  CHECK_THROWS_AS(empty.finalize(), tenet::Error);
}
