"""PyTorch modules as ONNX files; of those layers that the networks here have."""
import pathlib

import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import nn

import networks


class Graph:
    """The nodes and weights of a module."""

    def __init__(self, net: nn.Module):
        self.nodes, self.weights = [], []
        self.input = "input"
        self.output = self.add(net, self.input)

    def node(self, operation: str, *inputs: str, **attributes) -> str:
        output = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [output], **attributes))
        return output

    def weight(self, values) -> str:
        name = f"weight{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.detach().numpy().copy(), name))
        return name

    def add(self, layer: nn.Module, x: str) -> str:
        if isinstance(layer, nn.Sequential):
            for child in layer:
                x = self.add(child, x)
            return x
        if isinstance(layer, networks.ResidualUnit):
            y = self.node("Relu", self.add(layer.bn1, self.add(layer.conv1, x)))
            y = self.add(layer.bn2, self.add(layer.conv2, y))
            return self.node("Relu", self.node("Add", y, self.add(layer.conv3, x)))
        if isinstance(layer, nn.Linear):
            return self.node("Gemm", x, self.weight(layer.weight), self.weight(layer.bias), transB=1)
        if isinstance(layer, nn.Conv2d):
            padding = list(layer.padding) * 2
            return self.node("Conv", x, self.weight(layer.weight), self.weight(layer.bias), pads=padding,
                             strides=list(layer.stride), kernel_shape=list(layer.kernel_size))
        if isinstance(layer, nn.BatchNorm2d):
            parts = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
            return self.node("BatchNormalization", x, *map(self.weight, parts), epsilon=layer.eps)
        if isinstance(layer, nn.AvgPool2d):
            return self.node("AveragePool", x, kernel_shape=[layer.kernel_size] * 2, strides=[layer.stride] * 2)
        if isinstance(layer, nn.AdaptiveAvgPool2d):
            return self.node("GlobalAveragePool", x)
        simple = {nn.ReLU: "Relu", nn.Flatten: "Flatten", nn.Identity: "Identity"}
        return self.node(simple[type(layer)], x)


def write(name: str, batch: int, folder: pathlib.Path) -> None:
    """folder/model.onnx, from "input" to "output"."""
    graph = Graph(networks.load(name, folder).eval())
    graph.nodes.append(helper.make_node("Identity", [graph.output], ["output"]))
    shape = [batch, *networks.NETWORKS[name].input]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "net", [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
                          [helper.make_tensor_value_info("output", TensorProto.FLOAT, [batch, "outputs"])],
                          graph.weights),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
