#pragma once

#include <cudnn.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tenet/core/bfloat16.hpp>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/cudnn_descriptor.hpp>
#include <tenet/device/cuda/event.hpp>
#include <tenet/device/cuda/plans.hpp>
#include <tenet/device/cuda/stream.hpp>
#include <type_traits>
#include <utility>
#include <vector>

/// cuDNN's graph interface: operations on tensors, from which the library makes one kernel. Tensors between operations
/// are virtual, that is, never in memory.
namespace tenet::gpu {

/// Which of a convolution's three kernels: the result, or the gradient by input or weight.
enum class Conv2dPass : int { result, input_gradient, weight_gradient };

/// The numbers by which a graph's tensors are known: the inputs of the region behind a convolution from `region` on,
/// those that are virtual from `between` on.
enum class GraphTensor : std::int64_t { input = 1, weight = 2, result = 3, region = 16, between = 64 };

/// Where a graph's tensors are in memory: first the one that is written.
class GraphOperands {
 public:
  void add(GraphTensor tensor, const void* at, int index = 0) {
    numbers_.push_back(static_cast<std::int64_t>(tensor) + index);
    places_.push_back(at);
  }
  /// Whether they lie where the library's kernels can read them, 16 bytes at once. Some of these do so whatever
  /// alignment a graph speaks of (seen with cuDNN 9.19: gradients by the weight in whole floats).
  bool are_aligned() const {
    std::uintptr_t address = 0;
    for (const void* const at : places_) address |= reinterpret_cast<std::uintptr_t>(at);
    return address % 16 == 0;
  }
  /// Whether a run changes what it has read, so that the next one gives something else.
  bool overwrites_input() const {
    for (std::size_t i = 1; i < places_.size(); ++i)
      if (places_[i] == places_[0]) return true;
    return false;
  }
  CudnnDescriptor with_workspace(const void* workspace) const {
    CudnnDescriptor made(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    const auto count = static_cast<long>(places_.size());
    made.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, numbers_.data(), count)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, places_.data(), count)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, &workspace)
        .finalize();
    return made;
  }

 private:
  std::vector<std::int64_t> numbers_;
  std::vector<const void*> places_;
};

/// Operations on tensors of images with their channels last.
class CudnnGraph {
 public:
  using Tensor = cudnnBackendDescriptor_t;
  struct Extents {
    std::int64_t batch, channels, height, width;
  };

  Tensor tensor(GraphTensor number, cudnnDataType_t type, const Extents& extents, int index = 0) {
    return tensor(static_cast<std::int64_t>(number) + index, type, extents, false);
  }
  Tensor between(const Extents& extents) {
    return tensor(static_cast<std::int64_t>(GraphTensor::between) + between_++, CUDNN_DATA_FLOAT, extents, true);
  }

  static Extents result_extents(const Conv2dGeometry& g, int batch) {
    return {batch, g.out_channels, g.out_height(), g.out_width()};
  }

  /// A convolution's pass: of its input and weight, of type `number`, and its result two are read, one is written. Sums
  /// are floats.
  void convolve(Conv2dPass pass, const Conv2dGeometry& g, int batch, cudnnDataType_t number, Tensor result) {
    const Tensor input = tensor(GraphTensor::input, number, {batch, g.channels, g.height, g.width}),
                 weight =
                     tensor(GraphTensor::weight, number, {g.out_channels, g.channels, g.kernel_height, g.kernel_width});
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
    const Names& names = names_of[static_cast<int>(pass)];
    const float times = 1, added = 0;
    CudnnDescriptor operation(names.operation);
    operation.set(names.input, input)
        .set(names.weight, weight)
        .set(names.result, result)
        .set(names.how, keep(how))
        .set(names.times, CUDNN_TYPE_FLOAT, &times)
        .set(names.added, CUDNN_TYPE_FLOAT, &added);
    operations_.push_back(keep(operation));
  }

  /// to = mode(a, b); b may be null.
  void pointwise(cudnnPointwiseMode_t mode, Tensor a, Tensor b, Tensor to) {
    CudnnDescriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
    CudnnDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(how))
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, a)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
    if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    operations_.push_back(keep(operation));
  }

  /// Has the library make kernels for the device that give the same bits each time, need at most the workspace of a
  /// stream, and, unless `rounds`, multiply whole floats: the quickest by its estimate, or with `most` > 1 up to so
  /// many of each of its two ways of estimating. The last try's status, success if there is one.
  cudnnStatus_t compile(const CudnnDescriptor& device, bool rounds, int most,
                        std::vector<CudnnDescriptor>& plans) const {
    CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph
        .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations_.data(),
             static_cast<long>(operations_.size()))
        .finalize();
    cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
    const auto add_plans = [&](cudnnBackendHeurMode_t mode) {
      int wanted = most, tries = 8;  // each takes the library up to a second
      for (const CudnnDescriptor& choice : choices(graph, mode, device)) {
        if (!serves(choice, rounds)) continue;
        if (wanted == 0 || tries-- == 0) return;
        CudnnDescriptor made(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        const cudnnStatus_t found = made.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, choice)
                                        .set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device)
                                        .try_finalize();
        if (plans.empty()) status = found;
        if (found != CUDNN_STATUS_SUCCESS || workspace_bytes(made) > Stream::workspace_bytes) continue;
        plans.push_back(std::move(made));
        --wanted;
      }
    };
    add_plans(CUDNN_HEUR_MODE_A);
    if (most > 1) add_plans(CUDNN_HEUR_MODE_B);
    if (plans.empty()) add_plans(CUDNN_HEUR_MODE_FALLBACK);
    return plans.empty() && status == CUDNN_STATUS_SUCCESS ? CUDNN_STATUS_NOT_SUPPORTED : status;  // all need more
  }
  /// What a plan needs.
  static long workspace_bytes(const CudnnDescriptor& plan) {
    std::int64_t bytes = 0;
    plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &bytes, 1);
    return static_cast<long>(bytes);
  }

 private:
  /// What the library calls the parts of a convolution's pass.
  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t input, weight, result, how, times, added;
  };
  static constexpr Names names_of[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA}};

  cudnnBackendDescriptor_t keep(CudnnDescriptor& made) { return parts_.emplace_back(std::move(made.finalize())).get(); }

  Tensor tensor(std::int64_t number, cudnnDataType_t type, const Extents& e, bool is_virtual) {
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

  /// Ways to compute a graph, the quickest first by one of the library's estimates.
  static std::vector<CudnnDescriptor> choices(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode,
                                              const CudnnDescriptor& device) {
    CudnnDescriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
        .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode)
        .set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    std::vector<CudnnDescriptor> found;
    if (heuristic.try_finalize() != CUDNN_STATUS_SUCCESS) return found;
    const auto results = [&](cudnnBackendDescriptor_t* to, long most) {
      return heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, to, most);
    };
    std::vector<cudnnBackendDescriptor_t> handles;
    for (long i = results(nullptr, 0); i > 0; --i)
      handles.push_back(found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
    found.resize(static_cast<std::size_t>(results(handles.data(), static_cast<long>(handles.size()))));
    return found;
  }

  /// Whether an engine gives the same bits each time, and, unless `rounds`, multiplies whole floats.
  static bool serves(const CudnnDescriptor& choice, bool rounds) {
    CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = engine.get();
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

  std::int64_t between_ = 0;
  std::vector<CudnnDescriptor> parts_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

/// The graphs that a stream runs, each planned when it is met first: by the library's estimate, which is the same in
/// each process, or, if the stream measures convolutions, by the time that kernels take on the operands at hand.
class CudnnGraphs {
 public:
  /// What tells a graph from others.
  using Key = std::vector<int>;

  explicit CudnnGraphs(const Stream& stream)
      : tensor_float32_(stream.tensor_float32()), measures_(stream.measures_convolutions()) {
    check(cudnnCreate(&handle_), "starting cuDNN");
    device_ = device_properties(handle_);
  }
  CudnnGraphs(const CudnnGraphs&) = delete;
  CudnnGraphs& operator=(const CudnnGraphs&) = delete;
  ~CudnnGraphs() {
    plans_.clear();
    device_ = {};
    cudnnDestroy(handle_);
  }

  /// Runs the graph describe(), of factors of type `number`; measures up to `most` kernels of each estimate. False, and
  /// nothing done, where the library has no kernel for it.
  template <class Describe>
  bool run(Stream& stream, cudnnDataType_t number, Key key, const GraphOperands& operands, int most,
           const Describe& describe) {
    if (!operands.are_aligned()) return false;
    key.push_back(number);
    check(cudnnSetStream(handle_, stream.get()), "choosing cuDNN's stream");
    const CudnnDescriptor& plan = plans_.get(key, [&](CudnnDescriptor& made) {
      const bool rounds = tensor_float32_ || number == CUDNN_DATA_BFLOAT16;
      std::vector<CudnnDescriptor> plans;
      const CudnnGraph graph = describe();
      graph.compile(device_, rounds, measures_ && !operands.overwrites_input() ? most : 1, plans);
      if (!plans.empty())
        made = std::move(
            plans[plans.size() > 1 ? quickest(stream, plans, operands.with_workspace(stream.workspace())) : 0]);
    });
    if (plan.get() == nullptr) return false;
    void* const own = stream.own_workspace(CudnnGraph::workspace_bytes(plan));
    const CudnnDescriptor given = operands.with_workspace(own != nullptr ? own : stream.workspace());
    check(cudnnBackendExecute(handle_, plan.get(), given.get()), "starting a convolution");
    return true;
  }

 private:
  /// The plan that takes the least time: of three rounds, in each of which a plan runs twice. In turns, as a device's
  /// clock rises meanwhile.
  std::size_t quickest(Stream& stream, const std::vector<CudnnDescriptor>& plans, const CudnnDescriptor& given) {
    Event begin, end;
    const auto starts = [&](std::size_t i) {
      return cudnnBackendExecute(handle_, plans[i].get(), given.get()) == CUDNN_STATUS_SUCCESS;
    };
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<double> least(plans.size(), never);
    std::vector<bool> serves(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) serves[i] = starts(i);
    for (int round = 0; round < 3; ++round)
      for (std::size_t i = 0; i < plans.size(); ++i) {
        if (!serves[i]) continue;
        begin.record(stream);
        serves[i] = starts(i) && starts(i);
        end.record(stream);
        least[i] = serves[i] ? std::min(least[i], begin.elapsed_seconds(end)) : never;
      }
    return static_cast<std::size_t>(std::min_element(least.begin(), least.end()) - least.begin());
  }

  bool tensor_float32_, measures_;
  cudnnHandle_t handle_ = nullptr;
  CudnnDescriptor device_;
  Plans<Key, CudnnDescriptor> plans_;  ///< null: the library has none
};

/// What tells convolutions from each other.
inline CudnnGraphs::Key convolution_key(Conv2dPass pass, const Conv2dGeometry& g, int batch) {
  return {static_cast<int>(pass), batch,           g.channels,     g.height, g.width,
          g.out_channels,         g.kernel_height, g.kernel_width, g.stride, g.padding};
}

template <class Number>
inline constexpr cudnnDataType_t cudnn_number =
    std::is_same_v<Number, bfloat16> ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;

}  // namespace tenet::gpu
