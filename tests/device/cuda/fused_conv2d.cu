#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <string_view>

#include "../../support/narrow_device.hpp"
#include "../random_numbers.hpp"
#include "tenet/cuda.hpp"
#include "tenet/device/cuda/conv2d.hpp"
#include "tenet/device/cuda/fused_conv2d.hpp"
#include "tenet/device/cuda_on_host.hpp"
#include "tenet/tenet.hpp"

using namespace tenet;

namespace {

using Input = Image<2, 6, 5>;

/// A residual unit between convolutions.
struct Unit {
  Conv2d<2, 4, 3, Padding<1>> stem;
  Conv2d<4, 4, 3, Padding<1>> conv;
  Conv2d<4, 3, 1> head;
  BatchNorm2d<4> norm1, norm2;
  constexpr auto forward(auto x) const {
    const auto y = relu(norm1(stem(x)));
    return head(relu(norm2(conv(y)) + y));
  }
};

/// Operations behind each convolution that its kernel does, 0 where it does none.
template <class Device, class... Options>
std::vector<int> fused_operations() {
  using Kernels = typename Policies<Input, Device, Options...>::Kernels;
  using Program = tenet::Program<InferenceProgram<Unit, Input, Kernels>>;
  std::vector<int> found;
  for (int s = 0; s < Program::lowered.used.steps; ++s) {
    const auto& step = Program::lowered.steps[s];
    if (step.kind == Kind::kernel && std::string_view(step.name) == "conv2d")
      found.push_back(step.pointwise.operations);
  }
  return found;
}

/// Statistics of batch norm that are neither 0 nor 1.
template <class Model>
void give_statistics(Model& model) {
  for (const char* norm : {"norm1", "norm2"}) {
    float value = 0.1f;
    for (float& mean : model.weights()[std::string(norm) + ".running_mean"]) mean = value += 0.2f;
    for (float& variance : model.weights()[std::string(norm) + ".running_var"]) variance = value += 0.3f;
  }
}

template <class Device, class Expected, class... Options>
void check_predictions(double tolerance) {
  Model<Unit, Input, Expected, Options...> expected(3);
  Model<Unit, Input, Device, FusedConvolution, Options...> found(3);
  CHECK(fused_operations<Device, FusedConvolution, Options...>() == std::vector<int>{3, 4, 0});
  give_statistics(expected);
  give_statistics(found);
  const auto images = random_floats(5 * Input::size, 1);
  for (const int batch : {5, 5, 2, 1, 5}) {  // some of them recorded
    const auto wanted = expected(images.data(), batch), given = found(images.data(), batch);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      CHECK(given[i] == Approx(wanted[i]).epsilon(tolerance).margin(tolerance));
  }
}

/// What an H200 says of itself, in the library's words.
constexpr std::string_view h200 =
    R"({"deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0,
        "multiProcessorCount": 132, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
        "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
        "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "isTccDriver": 0,
        "supportCoopLaunch": 1, "totalGlobalMem": 150000000000, "smClockRateKHz": 1980000,
        "memClockRateKHz": 3201000, "l2CacheSize": 62914560})";

/// Without a driver cuDNN compiles kernels where it finds a library that stands for the driver; the kernel's loading is
/// what then fails.
bool load_stand_in_of_driver() {
  const std::filesystem::path libraries = TENET_CUDA_LIBRARIES;
  return dlopen((libraries / "stubs/libcuda.so").c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr &&
         dlopen((libraries / "libnvrtc.so.13").c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr;
}

/// (result - mean)·scale + shift of the result with a bias; what is added to that; ReLU.
PointwiseForm normalized(bool adds, bool narrow) {
  PointwiseForm form;
  form.result = 0;
  form.rows = 0b11110;
  form.narrow_output = narrow;
  const auto operation = [&](Pointwise kind, int a, int b, int c, int d) {
    signed char* const source = form.source[form.operations];
    form.kinds[form.operations++] = kind;
    source[0] = static_cast<signed char>(a);
    source[1] = static_cast<signed char>(b);
    source[2] = static_cast<signed char>(c);
    source[3] = static_cast<signed char>(d);
  };
  operation(Pointwise::add, 0, 1, 0, 0);
  operation(Pointwise::normalize, -1, 2, 3, 4);
  if (adds) operation(Pointwise::add, 5, -2, 5, 5);
  if (adds && narrow) form.narrow_inputs = 1 << 5;
  operation(Pointwise::relu, -form.operations, -form.operations, -form.operations, -form.operations);
  return form;
}

constexpr Conv2dGeometry same{64, 28, 28, 64, 3, 3, 1, 1}, halved{128, 14, 14, 256, 3, 3, 2, 1};

/// Calls run(device) with this machine's GPU, or else an H200.
template <class Run>
void with_device(Run run) {
  if (gpu::device_count() == 0) return run(gpu::device_properties(h200));
  cudnnHandle_t handle = nullptr;
  gpu::check(cudnnCreate(&handle), "starting cuDNN");
  run(gpu::device_properties(handle));
  cudnnDestroy(handle);
}

/// Whether plans give the same bits each time, need at most a stream's workspace, and, unless `rounds`, multiply whole
/// floats.
bool are_as_wanted(const std::vector<gpu::CudnnDescriptor>& plans, bool rounds) {
  for (const gpu::CudnnDescriptor& plan : plans) {
    gpu::CudnnDescriptor choice(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR), engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t to = choice.get();
    if (plan.get(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, &to, 1) != 1) return false;
    to = engine.get();
    if (choice.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &to, 1) != 1) return false;
    std::int64_t bytes = -1;
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes, 1);
    if (bytes < 0 || bytes > gpu::Stream::workspace_bytes) return false;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    const long count =
        engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    for (long i = 0; i < count; ++i)
      if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
          (!rounds && notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE))
        return false;
  }
  return true;
}

}  // namespace

TEST_CASE("what is behind a convolution is done by its kernel, if a policy says so", "[cuda][conv2d]") {
  CHECK(fused_operations<CudaOnHost<>>() == std::vector<int>{0, 0, 0});
  check_predictions<CudaOnHost<>, Reference>(1e-5);
  check_predictions<CudaOnHost<>, narrow::Device, BFloat16>(2e-2);
  if (gpu::device_count() == 0) return;
  check_predictions<Cuda<0>, Reference>(1e-4);
  check_predictions<Cuda<0>, narrow::Device, BFloat16>(2e-2);
  check_predictions<Cuda<0>, narrow::Device, BFloat16, CudnnBenchmark>(2e-2);
}

TEST_CASE("cuDNN compiles convolutions with batch norm, a sum and ReLU for Hopper", "[cuda][conv2d]") {
  const bool on_gpu = gpu::device_count() > 0;
  if (!on_gpu && !load_stand_in_of_driver()) {
    WARN("no library here stands for the driver: not run");
    return;
  }
  const cudnnStatus_t compiled = on_gpu ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
  with_device([&](const gpu::CudnnDescriptor& device) {
    const auto check_compiled = [&](cudnnDataType_t number, const Conv2dGeometry& g, const PointwiseForm& form) {
      std::vector<gpu::CudnnDescriptor> plans;
      CHECK(gpu::fused_graph(number, g, 32, form).compile(device, true, 1, plans) == compiled);
      CHECK(plans.size() == (on_gpu ? 1 : 0));
    };
    check_compiled(CUDNN_DATA_BFLOAT16, same, normalized(false, true));
    check_compiled(CUDNN_DATA_BFLOAT16, halved, normalized(true, true));
    check_compiled(CUDNN_DATA_FLOAT, same, normalized(true, false));
  });
}

TEST_CASE("cuDNN has a plan for each pass of a convolution on Hopper", "[cuda][conv2d]") {
  constexpr Conv2dGeometry first{1, 28, 28, 64, 3, 3, 1, 1}, shortcut{128, 14, 14, 256, 1, 1, 2, 0},
      odd{7, 10, 6, 5, 3, 2, 3, 2};
  struct Case {
    cudnnDataType_t number;
    bool rounds;
  };
  with_device([&](const gpu::CudnnDescriptor& device) {
    for (const Conv2dGeometry& g : {first, same, halved, shortcut, odd})
      for (const Case& each : {Case{CUDNN_DATA_BFLOAT16, true}, {CUDNN_DATA_FLOAT, true}, {CUDNN_DATA_FLOAT, false}})
        for (const auto pass :
             {gpu::Conv2dPass::result, gpu::Conv2dPass::input_gradient, gpu::Conv2dPass::weight_gradient}) {
          CAPTURE(g.channels, g.out_channels, each.number, each.rounds, static_cast<int>(pass));
          const gpu::CudnnGraph graph = gpu::convolution_graph(each.number, pass, g, 32);
          std::vector<gpu::CudnnDescriptor> plans;
          CHECK(graph.compile(device, each.rounds, 1, plans) == CUDNN_STATUS_SUCCESS);
          CHECK(plans.size() == 1);
          CHECK(are_as_wanted(plans, each.rounds));
        }
    // To be measured, there are several of each estimate.
    for (const auto pass :
         {gpu::Conv2dPass::result, gpu::Conv2dPass::input_gradient, gpu::Conv2dPass::weight_gradient}) {
      std::vector<gpu::CudnnDescriptor> plans;
      CHECK(gpu::convolution_graph(CUDNN_DATA_BFLOAT16, pass, same, 256).compile(device, true, 8, plans) ==
            CUDNN_STATUS_SUCCESS);
      CHECK(plans.size() == 16);
      CHECK(are_as_wanted(plans, true));
    }
  });
}
