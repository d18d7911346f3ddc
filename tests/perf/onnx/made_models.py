"""Small models as exporters write them: an MLP, an image net, and a net of tokens with attention."""

import math

import numpy as np
from onnx import TensorProto, helper

from tests.perf.onnx.graphs import Made, normal
from tinytorch.core.op import Array


def mlp() -> Made:
    """Return 6 to 5, ReLU, 5 to 3: one layer as Gemm, the other as MatMul and Add, as PyTorch writes both."""
    graph = Made()
    x = graph.input("x", ["batch", 6])
    first = graph.node(
        "Gemm", x, graph.constant(normal(5, 6), "up.weight"), graph.constant(normal(5), "up.bias"), name="/up/Gemm",
        transB=1,
    )  # fmt: skip
    hidden = graph.node("Relu", first, name="/Relu")
    product = graph.node("MatMul", hidden, graph.constant(normal(5, 3), "down"), name="/down/MatMul")
    graph.output(graph.node("Add", graph.constant(normal(3), "row"), product, name="/down/Add"))
    return graph


def image_net() -> Made:
    """Return a stem, a depthwise convolution with hard-swish, squeeze and excitation, and a head."""
    graph = Made()
    x = graph.input("image", ["N", 3, 16, 16])
    stem = graph.node("Conv", x, graph.constant(normal(8, 3, 3, 3)), name="/stem/Conv", pads=[1] * 4, strides=[2, 2])
    numbers = [graph.constant(np.abs(normal(8, seed=i)) + 0.5) for i in range(4)]
    x = graph.node("HardSwish", graph.node("BatchNormalization", stem, *numbers, name="/stem/norm"), name="/stem/act")
    weight, bias = graph.constant(normal(8, 1, 3, 3)), graph.constant(normal(8))
    x = graph.node("Conv", x, weight, bias, name="/depth/Conv", pads=[1] * 4, group=8)
    mean = graph.node("GlobalAveragePool", x, name="/se/pool")
    down = graph.node("Relu", graph.node("Conv", mean, graph.constant(normal(2, 8, 1, 1)), name="/se/down"))
    gate = graph.node("HardSigmoid", graph.node("Conv", down, graph.constant(normal(8, 2, 1, 1)), name="/se/up"))
    x = graph.node("Mul", x, gate, name="/se/Mul")
    flat = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    graph.output(graph.node("Gemm", flat, graph.constant(normal(8, 4)), name="/head/Gemm"))
    return graph


def plain_net() -> Made:
    """Return a convolution with batch normalization and ReLU, pooled, and a head: ops that a plan can run."""
    graph = Made()
    x = graph.input("image", ["N", 3, 12, 12])
    x = graph.node("Conv", x, graph.constant(normal(8, 3, 3, 3)), graph.constant(normal(8)), pads=[1] * 4)
    x = graph.node("BatchNormalization", x, *(graph.constant(np.abs(normal(8, seed=i)) + 0.5) for i in range(4)))
    x = graph.node("MaxPool", graph.node("Relu", x), kernel_shape=[2, 2], strides=[2, 2])
    length = graph.node("Shape", x, start=0, end=1)
    flat = graph.node("Reshape", x, graph.node("Concat", length, graph.constant(np.array([-1])), axis=0))
    graph.output(graph.node("Gemm", flat, graph.constant(normal(8 * 36, 4)), graph.constant(normal(4))))
    return graph


def token_net(width: int = 8, heads: int = 2) -> Made:
    """Return tokens and places, one layer of attention whose shapes are worked out in the graph, and exact GELU."""
    graph = Made()
    tokens = graph.input("tokens", ["batch", "time"], np.int64)
    mask = graph.input("attention_mask", ["batch", "time"], np.int64)
    zero, one = graph.constant(np.array([0])), graph.constant(np.array([1]))
    shape = graph.node("Shape", tokens)
    batch, time = graph.node("Slice", shape, zero, one), graph.node("Shape", tokens, start=1, end=2)
    x = graph.node("Gather", graph.constant(normal(20, width)), tokens, name="/embedding/Gather")
    x = graph.node("Add", x, graph.node("Slice", graph.constant(normal(16, width)), zero, time), name="/places/Add")
    weights = [graph.constant(np.abs(normal(width))), graph.constant(normal(width))]
    normed = graph.node("LayerNormalization", x, *weights, name="/norm/LayerNormalization", axis=-1)
    split = graph.node("Concat", batch, time, graph.constant(np.array([heads, width // heads])), axis=0)
    parts = []
    for number, (name, order) in enumerate((("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3]))):
        made = graph.node(
            "MatMul", normed, graph.constant(normal(width, width, seed=number)), name=f"/attention/{name}"
        )
        parts.append(graph.node("Transpose", graph.node("Reshape", made, split), perm=order))
    scores = graph.node("MatMul", parts[0], parts[1], name="/attention/scores")
    scores = graph.node("Div", scores, graph.constant(np.float32(math.sqrt(width / heads))))
    seen = graph.node("Cast", graph.node("Unsqueeze", mask, graph.constant(np.array([1, 2]))), to=1)
    late = graph.node("Equal", seen, graph.constant(np.float32(0)))
    scores = graph.node("Where", late, graph.constant(np.float32(-1e9)), scores)
    mixed = graph.node("MatMul", graph.node("Softmax", scores, axis=-1), parts[2], name="/attention/mix")
    joined = graph.node("Concat", batch, time, graph.constant(np.array([width])), axis=0)
    mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    x = graph.node("Add", x, mixed)
    up = graph.node("MatMul", x, graph.constant(normal(width, 4 * width)), name="/up/MatMul")
    far = graph.node("Erf", graph.node("Div", up, graph.constant(np.float32(math.sqrt(2)))))
    wide = graph.node("Add", far, graph.constant(np.float32(1)))
    gelu = graph.node("Mul", graph.node("Mul", up, wide), graph.constant(np.float32(0.5)))
    graph.output(graph.node("MatMul", gelu, graph.constant(normal(4 * width, 3)), name="/down/MatMul"))
    return graph


def loop(operator: str, other: Array) -> Made:
    """Return a loop of three turns, each of which does an operator on numbers (4, 8) and ``other``."""
    value = helper.make_tensor_value_info
    turn, go = value("turn", TensorProto.INT64, []), value("go", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node(operator, ["x", "other"], ["y"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [turn, go, value("x", TensorProto.FLOAT, [4, 8])],
        [value("on", TensorProto.BOOL, []), value("y", TensorProto.FLOAT, [4, 8])],
    )
    graph = Made()
    x = graph.input("start", [4, 8])
    graph.constant(other, "other")
    graph.output(graph.node("Loop", graph.constant(np.array(3)), graph.constant(np.array(True)), x, body=body))
    return graph
