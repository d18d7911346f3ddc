"""ONNX operators with weights as layers of the framework, and windows over images and lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.elementwise import tensor_of
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable
from tinytorch.perf.onnx.recurrent import gated, long_short_term, plain_recurrent
from tinytorch.perf.onnx.shapes import gather, reshaped
from tinytorch.perf.ops import picking
from tinytorch.perf.ops.transposed import conv2d_transposed

Widths = tuple[tuple[int, int], tuple[int, int]]


def linear_of(weight: Array, bias: Array | None) -> Linear:
    """Return the layer x W + b with the given weights, (in, out) and (out,)."""
    layer = Linear(1, 1, bias=False)
    layer.in_features, layer.out_features = weight.shape
    layer.weight = Parameter(weight)
    layer.bias = None if bias is None else Parameter(bias)
    return layer


def _product(node: Node) -> Runner:
    """MatMul; with a third operand, the constant row that an Add behind it adds."""
    weight, bias = node.constant(1), node.constant(2)
    if weight is not None and weight.ndim == 2 and weight.dtype.kind == "f":
        return linear_of(weight, bias)
    return lambda a, b: apply(ops.matmul, a, b)


def _general_product(node: Node) -> Runner:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    turn_a, turn_b = node.get("transA", 0), node.get("transB", 0)
    weight, bias = node.constant(1), node.constant(2)
    if not turn_a and weight is not None and (bias is not None or not node.has(2)):
        matrix = weight.T if turn_b else weight
        row = None if bias is None or beta == 0 else bias.reshape(-1) if bias.ndim < 2 or bias.shape[0] == 1 else None
        if row is not None and row.size == 1:
            row = np.repeat(row, matrix.shape[1])
        if row is not None or bias is None or beta == 0:
            scaled = matrix if alpha == 1 else matrix * matrix.dtype.type(alpha)
            return linear_of(scaled, row if row is None or beta == 1 else row * row.dtype.type(beta))

    def run(a: Any, b: Any, c: Operand = None) -> Tensor:
        left = apply(ops.transpose, a, axes=(1, 0)) if turn_a else a
        right = apply(ops.transpose, b, axes=(1, 0)) if turn_b else b
        made = apply(ops.matmul, left, right)
        made = made if alpha == 1 else apply(ops.multiply, made, alpha)
        if c is None:
            return made
        return apply(ops.add, made, c if beta == 1 else apply(ops.multiply, c, beta))

    return run


@dataclass(frozen=True)
class Window:
    """Window over the last one or two axes, as two: kernel, stride, dilation, and what lies around the image."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Widths
    automatic: str
    ceil: bool

    @classmethod
    def of(cls, node: Node, kernel: tuple[int, ...]) -> Window:
        """Return the window of a node; along a line it has one row."""
        rank = len(kernel)
        if rank not in (1, 2):
            raise Untranslatable(f"over {rank} axes")
        automatic = node.only("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
        pads = tuple(node.get("pads", (0,) * 2 * rank)) if automatic == "NOTSET" else (0,) * 2 * rank
        ends = [(pads[axis], pads[axis + rank]) for axis in range(rank)]
        return cls(
            _two(kernel, 1),
            _two(tuple(node.get("strides", (1,) * rank)), 1),
            _two(tuple(node.get("dilations", (1,) * rank)), 1),
            (ends[0], ends[1]) if rank == 2 else ((0, 0), ends[0]),
            automatic,
            bool(node.get("ceil_mode", 0)),
        )

    def widths(self, lengths: tuple[int, ...]) -> Widths:
        """Return how many rows and columns lie before and behind an image of ``lengths``."""
        rows, columns = (self._ends(axis, length) for axis, length in enumerate(lengths))
        return rows, columns

    def _ends(self, axis: int, length: int) -> tuple[int, int]:
        (before, after), stride = self.pads[axis], self.stride[axis]
        reach = self.dilation[axis] * (self.kernel[axis] - 1) + 1
        if self.automatic.startswith("SAME"):
            missing = max((-(-length // stride) - 1) * stride + reach - length, 0)
            less = missing // 2
            return (less, missing - less) if self.automatic == "SAME_UPPER" else (missing - less, less)
        if self.ceil:
            positions = -(-(length + before + after - reach) // stride) + 1
            if (positions - 1) * stride >= length + before:  # no window begins behind the image
                positions -= 1
            after = max(after, (positions - 1) * stride + reach - length - before)
        return before, after

    def symmetric(self) -> tuple[int, int] | None:
        """Return rows and columns on each side if they are the same on both for every image, else None."""
        (top, bottom), (left, right) = self.pads
        fixed = top == bottom and left == right and not self.ceil and not self.automatic.startswith("SAME")
        return (top, left) if fixed else None


def _two(values: tuple[int, ...], row: int) -> tuple[int, int]:
    return (int(values[0]), int(values[1])) if len(values) == 2 else (row, int(values[0]))


def _as_image(x: Any) -> Tensor:
    """Return (N, C), (N, C, L) or (N, C, H, W) as (N, C, H, W)."""
    if x.ndim == 4:
        return tensor_of(x)
    if x.ndim not in (2, 3):
        raise ValueError(f"an image or a line must have 2 to 4 axes, not shape {x.shape}")
    return reshaped(x, (*x.shape[:2], 1, x.shape[2] if x.ndim == 3 else 1))


def _from_image(maps: Tensor, rank: int) -> Tensor:
    """Undo `_as_image`."""
    return maps if rank == 4 else reshaped(maps, maps.shape[:2] if rank == 2 else (*maps.shape[:2], maps.shape[3]))


def _surrounded(x: Tensor, widths: Widths, value: float) -> Tensor:
    if not any(map(any, widths)):
        return x
    return apply(picking.pad, x, widths=((0, 0), (0, 0), *widths), mode="constant", value=value)


class OnImage(Module):
    """A layer of images for inputs of other ranks, or with other zeros around them than the layer can have."""

    def __init__(self, layer: Module, window: Window | None) -> None:
        self.layer, self.window = layer, window

    def forward(self, x: Any) -> Tensor:
        """Return the layer's output in the rank of the input."""
        image = _as_image(x)
        if self.window is not None:
            image = _surrounded(image, self.window.widths(image.shape[2:]), 0.0)
        return _from_image(self.layer(image), x.ndim)


class BatchNorm(BatchNorm2d):
    """Batch normalization of images, of lines, and of rows of features."""

    def forward(self, x: Any) -> Tensor:
        """Return each channel normalized."""
        return _from_image(super().forward(_as_image(x)), x.ndim)


def _convolution(node: Node) -> Runner:
    groups = node.get("group", 1)
    weight, bias = node.constant(1), node.constant(2)
    if weight is None or (bias is None and node.has(2)):
        raise Untranslatable("weights that are no constant")
    window = Window.of(node, weight.shape[2:])
    shape = (*weight.shape[:2], *window.kernel)
    layer = Conv2d(1, 1, 1, stride=window.stride, dilation=window.dilation, bias=False)
    layer.in_channels, layer.out_channels, layer.groups = shape[1] * groups, shape[0], groups
    layer.kernel_size = window.kernel
    layer.weight = Parameter(weight.reshape(shape))
    layer.bias = None if bias is None else Parameter(bias)
    padding = window.symmetric()
    if padding is not None:
        layer.padding = padding
    if weight.ndim == 4 and padding is not None:
        return layer
    return OnImage(layer, window if padding is None else None)


def _transposed_convolution(node: Node) -> Runner:
    weight, groups = node.weights(1), node.get("group", 1)
    node.only("auto_pad", "NOTSET")
    if node.get("output_shape", None) is not None:
        raise Untranslatable("output_shape")
    window = Window.of(node, weight.shape[2:])
    added = _two(tuple(node.get("output_padding", (0,) * (weight.ndim - 2))), 0)
    (top, bottom), (left, right) = window.pads

    def run(x: Any, given: Any, bias: Operand = None) -> Tensor:
        image = _as_image(x)
        whole = [
            window.stride[axis] * (image.shape[2 + axis] - 1) + window.dilation[axis] * (window.kernel[axis] - 1) + 1
            for axis in range(2)
        ]
        filters = reshaped(given, (*given.shape[:2], *window.kernel))
        how = {"stride": window.stride, "dilation": window.dilation, "groups": groups}
        operands = (image, filters) if bias is None else (image, filters, bias)
        lengths = (whole[0] + added[0], whole[1] + added[1])
        made = apply(conv2d_transposed, *operands, padding=(0, 0), lengths=lengths, **how)
        if any((top, bottom, left, right)):
            inside = (slice(top, lengths[0] - bottom), slice(left, lengths[1] - right))
            made = apply(ops.getitem, made, index=(slice(None), slice(None), *inside))
        return _from_image(made, x.ndim)

    return run


def _pool_window(node: Node) -> Window:
    window = Window.of(node, tuple(node.get("kernel_shape", ())))
    if window.dilation != (1, 1):
        raise Untranslatable(f"dilations={window.dilation}")
    return window


def _max_pool(node: Node) -> Runner:
    window = _pool_window(node)
    if len(node.outputs) > 1 and node.outputs[1]:
        raise Untranslatable("places of the maxima")

    def run(x: Any) -> Tensor:
        image = _as_image(x)
        padding = window.symmetric()
        if padding is None:
            image = _surrounded(image, window.widths(image.shape[2:]), -math.inf)
        made = apply(ops.max_pool2d, image, kernel=window.kernel, stride=window.stride, padding=padding or (0, 0))
        return _from_image(made, x.ndim)

    return run


def _average_pool(node: Node) -> Runner:
    window, counts_pads = _pool_window(node), bool(node.get("count_include_pad", 0))

    def run(x: Any) -> Tensor:
        image = _as_image(x)
        lengths = (image.shape[2], image.shape[3])
        widths, padding = window.widths(lengths), window.symmetric()
        if padding is None:
            image = _surrounded(image, widths, 0.0)
        made = apply(ops.avg_pool2d, image, kernel=window.kernel, stride=window.stride, padding=padding or (0, 0))
        factors = [
            _over_counted(axis, lengths[axis], widths[axis], made.shape[2 + axis], window, counts_pads)
            for axis in range(2)
        ]
        if any((factor != 1).any() for factor in factors):
            made = apply(ops.multiply, made, np.outer(factors[0], factors[1]).astype(made.dtype))
        return _from_image(made, x.ndim)

    return run


def _over_counted(
    axis: int, length: int, widths: tuple[int, int], positions: int, window: Window, counts_pads: bool
) -> Array:
    """Return, for each position, the kernel's length over the number of elements that the mean is of."""
    low, high = (-window.pads[axis][0], length + window.pads[axis][1]) if counts_pads else (0, length)
    first = np.arange(positions) * window.stride[axis] - widths[0]
    kernel = window.kernel[axis]
    return kernel / (np.minimum(first + kernel, high) - np.maximum(first, low))


def _global_average(node: Node) -> Runner:
    def run(x: Any) -> Tensor:
        if x.ndim == 4:
            return apply(ops.adaptive_avg_pool2d, x, size=(1, 1))
        return apply(ops.mean, x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return run


def _global_maximum(node: Node) -> Runner:
    return lambda x: apply(ops.max_, x, axis=tuple(range(2, x.ndim)), keepdims=True)


def _batch_norm(node: Node) -> Runner:
    if node.get("training_mode", 0):
        raise Untranslatable("training_mode=1")
    weight, bias, mean, variance = (node.weights(index) for index in range(1, 5))
    layer = BatchNorm(len(weight), eps=node.get("epsilon", 1e-5), momentum=1 - node.get("momentum", 0.9))
    layer.weight, layer.bias = Parameter(weight), Parameter(bias)
    layer.running_mean, layer.running_var = Tensor(mean.copy()), Tensor(variance.copy())
    return layer


class JoinedNorm(Module):
    """Layer normalization over several last axes."""

    def __init__(self, layer: LayerNorm, axes: int) -> None:
        self.layer, self.axes = layer, axes

    def forward(self, x: Any) -> Tensor:
        """Return the normalized input, of the same shape."""
        rows = reshaped(x, (*x.shape[: -self.axes], math.prod(x.shape[-self.axes :])))
        return reshaped(self.layer(rows), x.shape)


def _layer_norm(node: Node) -> Runner:
    weight = node.weights(1)
    bias = node.weights(2) if node.has(2) else np.zeros_like(weight)
    if any(node.outputs[1:]):
        raise Untranslatable("mean and deviation as outputs")
    layer = LayerNorm(1, eps=node.get("epsilon", 1e-5))
    layer.weight, layer.bias = Parameter(weight.reshape(-1)), Parameter(np.broadcast_to(bias, weight.shape).reshape(-1))
    return layer if weight.ndim == 1 else JoinedNorm(layer, weight.ndim)


def _root_mean_square_norm(node: Node) -> Runner:
    first, epsilon = node.get("axis", -1), node.get("epsilon", 1e-5)

    def run(x: Any, weight: Any) -> Tensor:
        along = tuple(range(first % x.ndim, x.ndim))
        axis = along if len(along) > 1 else along[0]
        mean = apply(ops.mean, apply(ops.multiply, x, x), axis=axis, keepdims=True)
        root = apply(ops.sqrt, apply(ops.add, mean, epsilon))
        return apply(ops.multiply, apply(ops.divide, x, root), weight)

    return run


def _instance_norm(node: Node) -> Runner:
    epsilon = node.get("epsilon", 1e-5)

    def run(x: Any, weight: Any, bias: Any) -> Tensor:
        count, channels = x.shape[:2]
        normal = _normal(x, count * channels, epsilon)
        return _by_channel(normal, weight, bias)

    return run


def _group_norm(node: Node) -> Runner:
    groups, epsilon = node.get("num_groups", 1), node.get("epsilon", 1e-5)
    if node.version < 21:
        raise Untranslatable(f"version {node.version}, with a weight for each group")
    return lambda x, weight, bias: _by_channel(_normal(x, x.shape[0] * groups, epsilon), weight, bias)


def _normal(x: Any, rows: int, epsilon: float) -> Tensor:
    """Return x with each of ``rows`` parts normalized."""
    parts = reshaped(x, (rows, math.prod(x.shape) // rows))
    width, dtype = parts.shape[1], parts.dtype
    made = apply(ops.layer_norm, parts, np.ones(width, dtype), np.zeros(width, dtype), epsilon=epsilon)
    return reshaped(made, x.shape)


def _by_channel(x: Tensor, weight: Any, bias: Any) -> Tensor:
    """Return x times the weight and plus the bias of each channel."""
    lengths = (-1, *[1] * (x.ndim - 2))
    scaled = apply(ops.multiply, x, apply(ops.reshape, weight, shape=lengths))
    return apply(ops.add, scaled, apply(ops.reshape, bias, shape=lengths))


def _local_response_norm(node: Node) -> Runner:
    """x over a power of the mean of squares of the channels around it. Source: A. Krizhevsky et al., 2012."""
    size, alpha, beta, bias = (node.get(name, usual) for name, usual in _RESPONSE.items())
    beside = ((0, 0), ((size - 1) // 2, size // 2))

    def run(x: Any) -> Tensor:
        rows = reshaped(apply(ops.multiply, x, x), (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])))
        around = _surrounded(rows, beside[::-1], 0.0)
        means = apply(ops.avg_pool2d, around, kernel=(size, 1), stride=(1, 1), padding=(0, 0))
        scale = apply(ops.add, apply(ops.multiply, reshaped(means, x.shape), alpha), bias)
        return apply(ops.divide, x, apply(ops.power, scale, exponent=float(beta)))

    return run


_RESPONSE = {"size": 1, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}


def _lookup(node: Node) -> Runner:
    """Gather: rows of a constant table are an embedding."""
    table = node.constant(0)
    rows = node.get("axis", 0) == 0 and node.constant(1) is None
    if table is None or table.ndim != 2 or table.dtype.kind != "f" or not rows:
        return gather(node)
    layer = Embedding(1, 1)
    layer.num_embeddings, layer.embedding_dim = table.shape
    layer.weight = Parameter(table)
    return layer


TRANSLATIONS: dict[str, Translation] = {
    "AveragePool": Translation(_average_pool),
    "BatchNormalization": Translation(_batch_norm),
    "Conv": Translation(_convolution),
    "ConvTranspose": Translation(_transposed_convolution),
    "GRU": Translation(gated, reads=(0, 5)),
    "Gather": Translation(_lookup, reads=(1,)),
    "Gemm": Translation(_general_product),
    "GlobalAveragePool": Translation(_global_average),
    "GlobalMaxPool": Translation(_global_maximum),
    "GroupNormalization": Translation(_group_norm),
    "InstanceNormalization": Translation(_instance_norm),
    "LRN": Translation(_local_response_norm),
    "LSTM": Translation(long_short_term, reads=(0, 5, 6)),
    "LayerNormalization": Translation(_layer_norm),
    "MatMul": Translation(_product),
    "MaxPool": Translation(_max_pool),
    "RMSNormalization": Translation(_root_mean_square_norm),
    "RNN": Translation(plain_recurrent, reads=(0, 5)),
}
