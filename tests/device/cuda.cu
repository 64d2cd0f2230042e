#include <catch2/catch.hpp>

#include "tenet/cuda.hpp"
#include "tenet/device/cuda.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

struct Net : Sequential<Linear<8, 16>, ReLU, Linear<16, 3>> {};

}  // namespace

TEST_CASE("GPUs have numbers, which the policy names", "[cuda]") {
  static_assert(Cuda<>::index == 0 && Cuda<3>::index == 3);
  static_assert(HasOwnMemory<Cuda<1>::Kernels::Executor>);
  static_assert(!Policies<Features<8>, Cuda<>>::Kernels::uses_tensor_float32);
  static_assert(Policies<Features<8>, Cuda<>, TensorFloat32>::Kernels::uses_tensor_float32);
  static_assert(std::is_same_v<Policies<Features<8>, TensorFloat32>::Kernels, CpuKernels>);
  static_assert(std::string_view(Cuda<>::Kernels::name) == "cuda");
  SUCCEED();
}

TEST_CASE("the plan for a GPU is known without one", "[cuda]") {
  const std::string text = summary<Net, Features<8>, Cuda<5>>();
  CAPTURE(text);
  CHECK(text.find("device: cuda\n") != std::string::npos);
  CHECK(text.find("parameters: 195 ") != std::string::npos);
}

TEST_CASE("a model on a GPU that is not there is an error that says so", "[cuda]") {
  const int count = gpu::device_count();
  if (count > 5) return;
  try {
    Model<Net, Features<8>, Cuda<5>> model;
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) ==
          "Cuda<5>: no such device; expected one of " + std::to_string(count) + " GPUs, found 5");
  }
}

TEST_CASE("a model on a GPU computes what the processor does", "[cuda]") {
  if (gpu::device_count() == 0) return;
  Model<Net, Features<8>, Cuda<0>> there(7);
  Model<Net, Features<8>, Cuda<0>, TensorFloat32> roughly(7);
  Model<Net, Features<8>, Reference> here(7);
  const float numbers[16]{1, -2, 3, -4, 5, -6, 7, -8, 8, 7, 6, 5, 4, 3, 2, 1};
  for (int run = 0; run < 3; ++run) {
    const auto expected = here(numbers, 2), found = there(numbers, 2);
    const auto near = roughly(numbers, 2);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      CHECK(found[i] == Approx(expected[i]).epsilon(1e-4));
      CHECK(near[i] == Approx(expected[i]).epsilon(1e-2).margin(1e-2));
    }
  }
}
