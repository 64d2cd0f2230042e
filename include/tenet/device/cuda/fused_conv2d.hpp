#pragma once

#include <cudnn.h>

#include <cstdint>
#include <string_view>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/plans.hpp>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/device/element.hpp>
#include <type_traits>
#include <utility>
#include <vector>

/// A convolution and the region behind it as one kernel, which cuDNN compiles at run time for the shape: its graph
/// interface, of operations on tensors of which those between them are virtual, that is, never in memory.
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
    check(cudnnBackendCreateDescriptor(type, &made_), "describing a fused convolution");
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
    check(cudnnBackendSetAttribute(made_, name, type, count, values), "describing a fused convolution");
    return *this;
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, const CudnnDescriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &other.made_);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, std::int64_t value) {
    return set(name, CUDNN_TYPE_INT64, &value);
  }
  CudnnDescriptor& set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, &value);
  }
  /// What does not fit together fails here.
  CudnnDescriptor& finalize() {
    check(try_finalize(), "describing a fused convolution");
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

/// The GPU that kernels are compiled for: that of a handle, or as the library's JSON describes it.
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

/// The numbers by which tensors in memory are known: the inputs of the region from `region` on.
enum class FusedTensor : std::int64_t { input = 1, weight = 2, output = 3, region = 16, between = 64 };

/// The operations of a convolution, whose images have their channels last, and of the region behind it.
class FusedGraph {
 public:
  FusedGraph(cudnnDataType_t number, const Conv2dGeometry& g, int batch, const PointwiseForm& form)
      : number_(number), result_{batch, g.out_channels, g.out_height(), g.out_width()}, form_(form) {
    const auto result = tensor(next(), CUDNN_DATA_FLOAT, result_, true);
    convolve(g, batch, result);
    for (int k = 0; k < form.operations; ++k) {
      const auto output = k + 1 < form.operations ? between()
                                                  : tensor(static_cast<std::int64_t>(FusedTensor::output),
                                                           number_of(form.narrow_output), result_, false);
      const auto operand = [&](int j) { return value(form.source[k][j], result); };
      if (form.kinds[k] == Pointwise::add) {
        pointwise(CUDNN_POINTWISE_ADD, operand(0), operand(1), output);
      } else if (form.kinds[k] == Pointwise::relu) {
        pointwise(CUDNN_POINTWISE_RELU_FWD, operand(0), nullptr, output);
      } else {
        const auto centered = between(), scaled = between();
        pointwise(CUDNN_POINTWISE_SUB, operand(0), operand(1), centered);
        pointwise(CUDNN_POINTWISE_MUL, centered, operand(2), scaled);
        pointwise(CUDNN_POINTWISE_ADD, scaled, operand(3), output);
      }
      values_[k] = output;
    }
    graph_ = CudnnDescriptor(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph_
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_.data(),
             static_cast<long>(operations_.size()))
        .finalize();
  }

  /// Has the library compile a kernel for the device, the quickest by its estimate that gives the same bits each time,
  /// needs at most `workspace` bytes, and, unless `rounds`, multiplies whole floats. The last try's status, success if
  /// there is one.
  cudnnStatus_t compile(const CudnnDescriptor& device, bool rounds, long workspace, CudnnDescriptor& plan) const {
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_)
          .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode)
          .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
      if (heuristic.try_finalize() != CUDNN_STATUS_SUCCESS) continue;
      constexpr long most = 8;  // each that is tried takes the library up to a second
      std::vector<CudnnDescriptor> choices;
      cudnnBackendDescriptor_t handles[most];
      for (cudnnBackendDescriptor_t& handle : handles)
        handle = choices.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get();
      const long found = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, handles, most);
      for (long i = 0; i < found && i < most; ++i) {
        const CudnnDescriptor& choice = choices[static_cast<std::size_t>(i)];
        if (!serves(choice, rounds)) continue;
        CudnnDescriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        status = made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice)
                     .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device)
                     .try_finalize();
        std::int64_t bytes = 0;
        if (status != CUDNN_STATUS_SUCCESS) continue;
        made.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes, 1);
        if (bytes > workspace) continue;
        plan = std::move(made);
        return status;
      }
    }
    return status == CUDNN_STATUS_SUCCESS ? CUDNN_STATUS_NOT_SUPPORTED : status;  // those that need more
  }

 private:
  struct Extents {
    std::int64_t batch, channels, height, width;
  };
  using Handle = cudnnBackendDescriptor_t;

  cudnnDataType_t number_of(bool narrow) const { return narrow ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }
  std::int64_t next() { return static_cast<std::int64_t>(FusedTensor::between) + between_++; }
  Handle between() { return tensor(next(), CUDNN_DATA_FLOAT, result_, true); }
  Handle keep(CudnnDescriptor& made) { return parts_.emplace_back(std::move(made.finalize())).get(); }

  /// A tensor with its channels last.
  Handle tensor(std::int64_t number, cudnnDataType_t type, const Extents& e, bool is_virtual) {
    const std::int64_t extents[] = {e.batch, e.channels, e.height, e.width},
                       steps[] = {e.channels * e.height * e.width, 1, e.channels * e.width, e.channels};
    CudnnDescriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, extents, 4)
        .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, steps, 4)
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, number)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16})
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &is_virtual);
    return keep(made);
  }

  void convolve(const Conv2dGeometry& g, int batch, Handle result) {
    const Handle input =
        tensor(static_cast<std::int64_t>(FusedTensor::input), number_, {batch, g.channels, g.height, g.width}, false);
    const Handle weight = tensor(static_cast<std::int64_t>(FusedTensor::weight), number_,
                                 {g.out_channels, g.channels, g.kernel_height, g.kernel_width}, false);
    const std::int64_t padding[] = {g.padding, g.padding}, stride[] = {g.stride, g.stride}, one[] = {1, 1};
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    CudnnDescriptor how(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
        .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, &mode)
        .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, padding, 2)
        .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, padding, 2)
        .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, stride, 2)
        .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, one, 2);
    const Handle kept = keep(how);
    const float times = 1, added = 0;
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_TYPE_BACKEND_DESCRIPTOR, &input)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_TYPE_BACKEND_DESCRIPTOR, &weight)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, &result)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &kept)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, CUDNN_TYPE_FLOAT, &times)
        .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_TYPE_FLOAT, &added);
    operations_.push_back(keep(operation));
  }

  /// What an operation of the region reads.
  Handle value(int from, Handle result) {
    if (from < 0) return values_[-1 - from];
    if (from == form_.result) return result;
    Handle& input = inputs_[from];
    const Extents row{1, result_.channels, 1, 1};
    if (input == nullptr)
      input = tensor(static_cast<std::int64_t>(FusedTensor::region) + from, number_of(form_.is_narrow(from)),
                     form_.is_row(from) ? row : result_, false);
    return input;
  }

  void pointwise(cudnnPointwiseMode_t mode, Handle a, Handle b, Handle to) {
    CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    const Handle kept = keep(how);
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, &kept)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &a)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &to);
    if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, &b);
    operations_.push_back(keep(operation));
  }

  /// Whether an engine gives the same bits each time, and, unless `rounds`, multiplies whole floats.
  static bool serves(const CudnnDescriptor& choice, bool rounds) {
    CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    Handle handle = engine.get();
    if (choice.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, &handle, 1) == 0) return false;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    const long count =
        engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
    for (long i = 0; i < count; ++i) {
      if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
      if (!rounds &&
          (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
        return false;
    }
    return true;
  }

  cudnnDataType_t number_;
  Extents result_;
  PointwiseForm form_;
  std::int64_t between_ = 0;
  std::vector<CudnnDescriptor> parts_;
  std::vector<Handle> operations_;
  Handle values_[PointwiseForm::most]{}, inputs_[max_region_inputs]{};
  CudnnDescriptor graph_;
};

/// Convolutions with the region behind them, each compiled when it is met first.
class FusedConvolutions {
 public:
  explicit FusedConvolutions(const Stream& stream) : tensor_float32_(stream.tensor_float32()) {
    check(cudnnCreate(&handle_), "starting cuDNN");
    device_ = device_properties(handle_);
  }
  FusedConvolutions(const FusedConvolutions&) = delete;
  FusedConvolutions& operator=(const FusedConvolutions&) = delete;
  ~FusedConvolutions() {
    plans_.clear();
    device_ = {};
    cudnnDestroy(handle_);
  }

  /// False, and nothing done, where the library has no kernel for it.
  template <class Number>
  bool run(Stream& stream, const Conv2dGeometry& g, int batch, const Number* input, const Number* weight,
           const RegionEpilogue& region) {
    const PointwiseForm& form = *region.form;
    std::vector<std::int64_t> numbers;
    std::vector<const void*> places;
    bool aligned = true;
    const auto place = [&](FusedTensor tensor, int index, const void* at) {
      numbers.push_back(static_cast<std::int64_t>(tensor) + index);
      places.push_back(at);
      aligned = aligned && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
    };
    place(FusedTensor::input, 0, input);
    place(FusedTensor::weight, 0, weight);
    place(FusedTensor::output, 0, region.arguments->outputs[0]);
    std::uint32_t read = 0;
    for (int k = 0; k < form.operations; ++k)
      for (const signed char from : form.source[k])
        if (from >= 0 && from != form.result) read |= 1u << from;
    for (int i = 0; i < max_region_inputs; ++i)
      if ((read >> i & 1) != 0) place(FusedTensor::region, i, region.arguments->inputs[i].data);
    if (!aligned) return false;
    const Plan& plan =
        planned(std::is_same_v<Number, bfloat16> ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT, g, batch, form);
    if (!plan.serves) return false;
    check(cudnnSetStream(handle_, stream.get()), "choosing cuDNN's stream");
    const void* const workspace = stream.workspace();
    CudnnDescriptor given(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    given.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, numbers.data(), static_cast<long>(numbers.size()))
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, places.data(),
             static_cast<long>(places.size()))
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace)
        .finalize();
    check(cudnnBackendExecute(handle_, plan.compiled.get(), given.get()), "starting a fused convolution");
    return true;
  }

 private:
  struct Plan {
    CudnnDescriptor compiled;
    bool serves = false;
  };
  using Key = std::vector<int>;

  const Plan& planned(cudnnDataType_t number, const Conv2dGeometry& g, int batch, const PointwiseForm& form) {
    Key key{number,          batch,
            g.channels,      g.height,
            g.width,         g.out_channels,
            g.kernel_height, g.kernel_width,
            g.stride,        g.padding,
            form.result,     form.narrow_output,
            form.rows,       form.narrow_inputs};
    for (int k = 0; k < form.operations; ++k) {
      key.push_back(static_cast<int>(form.kinds[k]));
      for (const signed char from : form.source[k]) key.push_back(from);
    }
    return plans_.get(key, [&](Plan& made) {
      const FusedGraph graph(number, g, batch, form);
      const bool rounds = tensor_float32_ || number == CUDNN_DATA_BFLOAT16;
      made.serves = graph.compile(device_, rounds, Stream::workspace_bytes, made.compiled) == CUDNN_STATUS_SUCCESS;
    });
  }

  bool tensor_float32_;
  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor device_;
  Plans<Key, Plan> plans_;
};

/// A convolution with the region behind it; false, and nothing done, where the library has no kernel for it.
template <class Number>
bool run_fused_convolution(Stream& stream, const Conv2dGeometry& g, int batch, const Number* input,
                           const Number* weight, const RegionEpilogue& region) {
  return stream.library<FusedConvolutions>().run(stream, g, batch, input, weight, region);
}

}  // namespace tenet::gpu
