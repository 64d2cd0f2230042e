#pragma once

#include <cstdint>
#include <tenet/core/geometry.hpp>
#include <tenet/device/cuda/cudnn_graph.hpp>
#include <tenet/device/cuda/stream.hpp>
#include <tenet/device/element.hpp>
#include <utility>

/// A convolution and the region behind it as one kernel, which cuDNN compiles at run time for the shape.
namespace tenet::gpu {

/// The operations of a convolution and of the region behind it.
inline CudnnGraph fused_graph(cudnnDataType_t number, const Conv2dGeometry& g, int batch, const PointwiseForm& form) {
  using Tensor = CudnnGraph::Tensor;
  CudnnGraph graph;
  const CudnnGraph::Extents of_result = CudnnGraph::result_extents(g, batch), of_row{1, g.out_channels, 1, 1};
  const auto number_of = [](bool narrow) { return narrow ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; };
  const auto between = [&] { return graph.between(of_result); };
  const Tensor result = between();
  graph.convolve(Conv2dPass::result, g, batch, number, result);

  Tensor values[PointwiseForm::most]{}, inputs[max_region_inputs]{};
  const auto operand = [&](int from) {
    if (from < 0) return values[-1 - from];
    if (from == form.result) return result;
    if (inputs[from] == nullptr)
      inputs[from] = graph.tensor(GraphTensor::region, number_of(form.is_narrow(from)),
                                  form.is_row(from) ? of_row : of_result, from);
    return inputs[from];
  };
  for (int k = 0; k < form.operations; ++k) {
    const signed char* const from = form.source[k];
    const Tensor output = k + 1 < form.operations
                              ? between()
                              : graph.tensor(GraphTensor::result, number_of(form.narrow_output), of_result);
    if (form.kinds[k] == Pointwise::add) {
      graph.pointwise(CUDNN_POINTWISE_ADD, operand(from[0]), operand(from[1]), output);
    } else if (form.kinds[k] == Pointwise::relu) {
      graph.pointwise(CUDNN_POINTWISE_RELU_FWD, operand(from[0]), nullptr, output);
    } else {
      const Tensor centered = between(), scaled = between();
      graph.pointwise(CUDNN_POINTWISE_SUB, operand(from[0]), operand(from[1]), centered);
      graph.pointwise(CUDNN_POINTWISE_MUL, centered, operand(from[2]), scaled);
      graph.pointwise(CUDNN_POINTWISE_ADD, scaled, operand(from[3]), output);
    }
    values[k] = output;
  }
  return graph;
}

/// A convolution with the region behind it; false, and nothing done, where the library has no kernel for it.
template <class Number>
bool run_fused_convolution(Stream& stream, const Conv2dGeometry& g, int batch, const Number* input,
                           const Number* weight, const RegionEpilogue& region) {
  const PointwiseForm& form = *region.form;
  GraphOperands operands;
  operands.add(GraphTensor::result, region.arguments->outputs[0]);
  operands.add(GraphTensor::input, input);
  operands.add(GraphTensor::weight, weight);
  CudnnGraphs::Key key = convolution_key(Conv2dPass::result, g, batch);
  key.insert(key.end(), {form.result, form.narrow_output, form.rows, form.narrow_inputs});
  std::uint32_t read = 0;
  for (int k = 0; k < form.operations; ++k) {
    key.push_back(static_cast<int>(form.kinds[k]));
    for (const signed char from : form.source[k]) {
      key.push_back(from);
      if (from >= 0 && from != form.result) read |= 1u << from;
    }
  }
  for (int i = 0; i < max_region_inputs; ++i)
    if ((read >> i & 1) != 0) operands.add(GraphTensor::region, region.arguments->inputs[i].data, i);
  constexpr cudnnDataType_t number = cudnn_number<Number>;
  constexpr int most = 3;  // each takes the library up to a second
  return stream.library<CudnnGraphs>().run(stream, number, std::move(key), operands, most,
                                           [&] { return fused_graph(number, g, batch, form); });
}

}  // namespace tenet::gpu
