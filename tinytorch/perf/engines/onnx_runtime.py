"""ONNX Runtime as an engine: our models as ONNX graphs with the same weights, with all of its optimizations."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.layers import Flatten, LayerNorm, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.transformers import GPT, FeedForward, TransformerBlock
from tinytorch.perf.host.pinned_threads import usable_cores

#: The operators of ONNX 1.19 and those that ONNX Runtime adds.
OPSET, IR_VERSION, MICROSOFT = 23, 11, "com.microsoft"


@dataclass
class _Graph:
    """Nodes and weights so far."""

    nodes: list[Any] = field(default_factory=list)
    weights: dict[str, Any] = field(default_factory=dict)

    def weight(self, name: str, values: Array) -> str:
        """Return the name of a constant that holds ``values``."""
        self.weights.setdefault(name, numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Return the name of the output of a new node."""
        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output, domain=domain, **attributes))
        return output

    def add(self, model: Module, name: str, x: str) -> str:
        """Return the name of the output of the module at ``name``."""
        dot = f"{name}." if name else ""
        match model:
            case Sequential():
                for index, layer in enumerate(model):
                    x = self.add(layer, f"{dot}{index}", x)
                return x
            case Linear():
                return self._linear(model, dot, x)
            case LayerNorm():
                weights = self._tensors(model, dot)
                return self.node("LayerNormalization", x, *weights, axis=-1, epsilon=model.eps)
            case Conv2d():
                return self._convolution(model, dot, x)
            case BatchNorm2d():
                weights = self._tensors(model, dot, ("weight", "bias", "running_mean", "running_var"))
                return self.node("BatchNormalization", x, *weights, epsilon=model.eps)
            case MaxPool2d():
                pads = [*model.padding, *model.padding]
                return self.node("MaxPool", x, kernel_shape=model.kernel_size, strides=model.strides, pads=pads)
            case ReLU():
                return self.node("Relu", x)
            case GELU():
                return self.node("Gelu", x, approximate="tanh")
            case Flatten():
                return self.node("Flatten", x)
            case FeedForward():
                hidden = self.add(model.activation, "", self._linear(model.expand, f"{dot}expand.", x))
                return self._linear(model.contract, f"{dot}contract.", hidden)
            case MultiHeadAttention():
                return self._attention(model, dot, x)
            case TransformerBlock():
                attended = self.add(model.attention, f"{dot}attention", self.add(model.norm1, f"{dot}norm1", x))
                x = self.node("Add", x, attended)
                return self.node("Add", x, self.add(model.mlp, f"{dot}mlp", self.add(model.norm2, f"{dot}norm2", x)))
            case GPT():
                return self._gpt(model, dot, x)
        raise TypeError(f"model must be made of layers that the ONNX graph knows, not {type(model).__name__}")

    def _tensors(self, layer: Any, dot: str, parts: tuple[str, ...] = ("weight", "bias")) -> list[str]:
        names = [part for part in parts if getattr(layer, part) is not None]
        return [self.weight(f"{dot}{part}", getattr(layer, part).data) for part in names]

    def _linear(self, layer: Linear, dot: str, x: str) -> str:
        weight, *bias = self._tensors(layer, dot)
        output = self.node("MatMul", x, weight)
        return self.node("Add", output, bias[0]) if bias else output

    def _convolution(self, layer: Conv2d, dot: str, x: str) -> str:
        pads = [*layer.padding, *layer.padding]
        return self.node(
            "Conv",
            x,
            *self._tensors(layer, dot),
            kernel_shape=layer.kernel_size,
            strides=layer.stride,
            pads=pads,
            dilations=layer.dilation,
            group=layer.groups,
        )

    def _attention(self, layer: MultiHeadAttention, dot: str, x: str) -> str:
        """ONNX Runtime's own attention, which holds the product that makes queries, keys and values."""
        packed = self._tensors(layer.qkv, f"{dot}qkv.")
        mixed = self.node(
            "Attention", x, *packed, domain=MICROSOFT, num_heads=layer.num_heads, unidirectional=int(layer.causal)
        )
        return self._linear(layer.projection, f"{dot}projection.", mixed)

    def _gpt(self, model: GPT, dot: str, tokens: str) -> str:
        table = self.weight(f"{dot}token_embedding.weight", model.token_embedding.weight.data)
        positions = self.weight(f"{dot}position_embedding.weight", model.position_embedding.weight.data)
        length = self.node("Shape", tokens, start=1, end=2)
        zero = self.weight("zero", np.zeros(1, np.int64))
        used = self.node("Slice", positions, zero, length)
        x = self.node("Add", self.node("Gather", table, tokens), used)
        for index, block in enumerate(model.blocks):
            x = self.add(block, f"{dot}blocks.{index}", x)
        x = self.add(model.norm, f"{dot}norm", x)
        return self.node("MatMul", x, self.weight("logits", model.token_embedding.weight.data.T))


def onnx_model(model: Module, inputs: Array) -> ModelProto:
    """Return ``model`` as an ONNX model from ``x``, of the shape and dtype of ``inputs``, to ``output``.

    Raises:
        TypeError: if it holds a layer that has no translation here.
    """
    graph = _Graph()
    last = graph.add(model, "", "x")
    graph.nodes.append(helper.make_node("Identity", [last], ["output"]))
    kind = TensorProto.INT64 if inputs.dtype.kind in "iu" else TensorProto.FLOAT
    made = helper.make_graph(
        graph.nodes,
        type(model).__name__,
        [helper.make_tensor_value_info("x", kind, inputs.shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        list(graph.weights.values()),
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION)


def scope(setting: str) -> AbstractContextManager[None]:
    """Return a context without effect: a session has its own threads."""
    del setting
    return nullcontext()


def session_of(model: Module, inputs: Array) -> Any:
    """Return the session of ``model``, with a thread for each core."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = len(usable_cores())
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    made = onnx_model(model, inputs).SerializeToString()
    return onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])


def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
    """Return a call of the session with input and output bound to arrays: each call overwrites the last output."""
    del setting
    session = session_of(model.eval(), inputs)
    output: Array = session.run(None, {"x": inputs})[0]
    bound = session.io_binding()
    bound.bind_cpu_input("x", inputs)
    bound.bind_output("output", "cpu", 0, np.float32, output.shape, output.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(bound)
        return output

    return call
