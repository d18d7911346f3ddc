"""ONNX operators with weights as layers of the framework, and windows over images and lines."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, Op
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.elementwise import tensor_of, widened
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable
from tinytorch.perf.onnx.recurrent import gated, long_short_term, plain_recurrent
from tinytorch.perf.onnx.shapes import gather, reshaped, sum_of_squares
from tinytorch.perf.ops import gather_pad
from tinytorch.perf.ops.images import conv2d_transposed

Widths = tuple[tuple[int, int], ...]


def linear_of(weight: Parameter, bias: Parameter | None) -> Linear:
    """Return the layer x W + b with the given weights, (in, out) and (out,)."""
    layer = Linear(1, 1, bias=False)
    layer.in_features, layer.out_features = weight.shape
    layer.weight, layer.bias = weight, bias
    return layer


class Projection(Module):
    """x Wᵀ + b with a ``weight`` (out, in) that others read as it is, such as the table of an embedding."""

    def __init__(self, weight: Parameter, bias: Parameter | None) -> None:
        self.weight, self.bias = weight, bias

    def forward(self, x: Any) -> Tensor:
        """Return (..., out) of (..., in)."""
        turned = apply(ops.transpose, self.weight, axes=(1, 0))
        return apply(ops.linear, x, turned) if self.bias is None else apply(ops.linear, x, turned, self.bias)


def _product(node: Node) -> Runner:
    """MatMul; with a third operand, the constant row that an Add behind it adds."""
    weight, bias = node.constant(1), node.constant(2)
    if weight is not None and weight.ndim == 2 and weight.dtype.kind == "f":
        row = None if bias is None else node.parameter(2)
        root = node.tied.get(node.inputs[1])
        if root not in (None, node.inputs[1]):
            return Projection(node.parameters.setdefault((str(root), ""), Parameter(weight.T)), row)
        return linear_of(node.parameter(1), row)
    return lambda a, b: apply(ops.matmul, a, b)


def _general_product(node: Node) -> Runner:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    turn_a, turn_b = node.get("transA", 0), node.get("transB", 0)
    weight, bias = node.constant(1), node.constant(2)
    if not turn_a and weight is not None and (bias is not None or not node.has(2)):
        matrix = weight.T if turn_b else weight
        flat = bias is not None and beta != 0 and (bias.ndim < 2 or bias.shape[0] == 1)
        row = bias.reshape(-1) if bias is not None and flat else None
        if row is not None and row.size == 1:
            row = np.repeat(row, matrix.shape[1])
        if weight.dtype.kind == "f" and (row is not None or bias is None or beta == 0):
            scaled = matrix if alpha == 1 else matrix * matrix.dtype.type(alpha)
            shift = row if row is None or beta == 1 else row * row.dtype.type(beta)
            held = None if shift is None else node.parameter(2, f"{beta} times, of {matrix.shape[1]}", shift)
            if turn_b and alpha == 1 and node.inputs[1] in node.tied:
                return Projection(node.parameter(1), held)
            form = f"{alpha} times, transposed: {turn_b}" if turn_b or alpha != 1 else ""
            return linear_of(node.parameter(1, form, scaled), held)

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
    """Window over the last axes, at least two: kernel, stride, dilation, and what lies around the image."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: Widths
    automatic: str
    ceil: bool

    @classmethod
    def of(cls, node: Node, kernel: tuple[int, ...]) -> Window:
        """Return the window of a node; along a line it has one row."""
        rank = len(kernel)
        automatic = node.only("auto_pad", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
        pads = tuple(node.get("pads", (0,) * 2 * rank))
        pads = pads if automatic == "NOTSET" else (0,) * 2 * rank
        ends = tuple((pads[axis], pads[axis + rank]) for axis in range(rank))
        return cls(
            _two(kernel, 1),
            _two(tuple(node.get("strides", (1,) * rank)), 1),
            _two(tuple(node.get("dilations", (1,) * rank)), 1),
            ends if rank > 1 else ((0, 0), *ends),
            automatic,
            bool(node.get("ceil_mode", 0)),
        )

    def widths(self, lengths: tuple[int, ...]) -> Widths:
        """Return how many elements lie before and behind an image of ``lengths`` along each axis."""
        return tuple(self._ends(axis, length) for axis, length in enumerate(lengths))

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

    def symmetric(self) -> tuple[int, ...] | None:
        """Return how many lie on each side if they are the same on both for every image, else None."""
        fixed = not self.ceil and not self.automatic.startswith("SAME")
        return tuple(low for low, _ in self.pads) if fixed and all(low == high for low, high in self.pads) else None


def _two(values: tuple[int, ...], row: int) -> tuple[int, ...]:
    return tuple(map(int, values)) if len(values) > 1 else (row, int(values[0]))


def as_image(x: Any) -> Tensor:
    """Return (N, C) and (N, C, L) as (N, C, H, W), all else as it is."""
    if x.ndim >= 4:
        return tensor_of(x)
    if x.ndim < 2:
        raise ValueError(f"an image or a line must have at least 2 axes, not shape {x.shape}")
    return reshaped(x, (*x.shape[:2], 1, x.shape[2] if x.ndim == 3 else 1))


def from_image(maps: Tensor, rank: int) -> Tensor:
    """Undo `as_image`."""
    return maps if rank >= 4 else reshaped(maps, maps.shape[:2] if rank == 2 else (*maps.shape[:2], maps.shape[3]))


def surrounded(x: Tensor, widths: Widths, value: float) -> Tensor:
    """Return images with so much of a value around them."""
    if not any(map(any, widths)):
        return x
    return apply(gather_pad.pad, x, widths=((0, 0), (0, 0), *widths), mode="constant", value=value)


class OnImage(Module):
    """A layer of images for inputs of other ranks, or with other zeros around them than the layer can have."""

    def __init__(self, layer: Module, window: Window | None) -> None:
        self.layer, self.window = layer, window

    def forward(self, x: Any) -> Tensor:
        """Return the layer's output in the rank of the input."""
        image = as_image(x)
        if self.window is not None:
            image = surrounded(image, self.window.widths(image.shape[2:]), 0.0)
        return from_image(self.layer(image), x.ndim)


class BatchNorm(BatchNorm2d):
    """Batch normalization of volumes, of images, of lines, and of rows of features."""

    def forward(self, x: Any) -> Tensor:
        """Return each channel normalized."""
        flat = x if x.ndim < 5 else reshaped(x, (*x.shape[:3], math.prod(x.shape[3:])))
        return reshaped(super().forward(as_image(flat)), x.shape)


def _convolved(x: Any, weight: Any, bias: Any, window: Window, groups: int) -> Tensor:
    """Return a convolution over two axes or more: of more as a sum over the taps along the first of them."""
    pads, kernel = window.widths(x.shape[2:]), window.kernel
    if len(kernel) == 2:
        padding = tuple(low for low, _ in pads)
        if any(low != high for low, high in pads):
            x, padding = surrounded(x, pads, 0.0), (0, 0)
        operands = (x, weight) if bias is None else (x, weight, bias)
        how = {"stride": window.stride, "padding": padding, "dilation": window.dilation, "groups": groups}
        return apply(ops.conv2d, *operands, **how)
    inner = Window(kernel[1:], window.stride[1:], window.dilation[1:], pads[1:], "NOTSET", False)
    x = surrounded(x, (pads[0], *[(0, 0)] * (len(kernel) - 1)), 0.0)
    step, apart = window.stride[0], window.dilation[0]
    places = (x.shape[2] - apart * (kernel[0] - 1) - 1) // step + 1
    order = (0, 2, 1, *range(3, x.ndim))
    total: Any = None
    for tap in range(kernel[0]):
        first = tap * apart
        slices = slice(first, first + step * (places - 1) + 1, step)
        part = apply(ops.transpose, apply(ops.getitem, x, index=(slice(None), slice(None), slices)), axes=order)
        rows = reshaped(part, (part.shape[0] * places, *part.shape[2:]))
        filters = apply(ops.getitem, weight, index=(slice(None), slice(None), tap))
        made = _convolved(rows, filters, bias if tap == 0 else None, inner, groups)
        total = made if total is None else apply(ops.add, total, made)
    return apply(ops.transpose, reshaped(total, (x.shape[0], places, *total.shape[1:])), axes=order)


class ConvNd(Module):
    """Convolution over three axes or more."""

    def __init__(self, weight: Parameter, bias: Parameter | None, window: Window, groups: int) -> None:
        self.weight, self.bias, self.window, self.groups = weight, bias, window, groups

    def forward(self, x: Any) -> Tensor:
        """Return (N, out, ...) of (N, in, ...)."""
        return _convolved(tensor_of(x), self.weight, self.bias, self.window, self.groups)


def _convolution(node: Node) -> Runner:
    groups = node.get("group", 1)
    weight, bias = node.constant(1), node.constant(2)
    if weight is None or weight.dtype.kind != "f" or (bias is None and node.has(2)):
        return _convolution_by_data(node, groups)
    window = Window.of(node, weight.shape[2:])
    held = None if bias is None else node.parameter(2)
    if len(window.kernel) > 2:
        return ConvNd(node.parameter(1), held, window, groups)
    shape = (*weight.shape[:2], *window.kernel)
    layer = Conv2d(1, 1, 1, stride=_pair(window.stride), dilation=_pair(window.dilation), bias=False)
    layer.in_channels, layer.out_channels, layer.groups = shape[1] * groups, shape[0], groups
    layer.kernel_size = _pair(window.kernel)
    layer.weight = node.parameter(1, "" if weight.ndim == 4 else "as an image", weight.reshape(shape))
    layer.bias = held
    padding = window.symmetric()
    if padding is not None:
        layer.padding = _pair(padding)
    if weight.ndim == 4 and padding is not None:
        return layer
    return OnImage(layer, window if padding is None else None)


def _pair(values: tuple[int, ...]) -> tuple[int, int]:
    rows, columns = values
    return rows, columns


def _convolution_by_data(node: Node, groups: int) -> Runner:
    """Convolution whose weights are no constants: an input, or computed."""
    rank = next((len(node.get(name, ())) for name in ("kernel_shape", "strides", "dilations") if node.get(name, ())), 0)
    windows = {rank: Window.of(node, (1,) * rank)} if rank else {}

    def run(x: Any, weight: Any, bias: Operand = None) -> Tensor:
        spatial = weight.ndim - 2
        usual = windows.setdefault(spatial, Window.of(node, (1,) * spatial))
        window = replace(usual, kernel=_two(weight.shape[2:], 1))
        filters = reshaped(weight, (*weight.shape[:2], *window.kernel))
        return from_image(_convolved(as_image(x), filters, bias, window, groups), x.ndim)

    for name in ("auto_pad", "pads"):
        node.get(name, None)
    return run


def _transposed_convolution(node: Node) -> Runner:
    weight, groups = node.weights(1), node.get("group", 1)
    automatic, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape", None)
    if weight.ndim > 4:
        raise Untranslatable(f"over {weight.ndim - 2} axes")
    window = Window.of(node, weight.shape[2:])
    added = _two(tuple(node.get("output_padding", (0,) * (weight.ndim - 2))), 0)

    def run(x: Any, given: Any, bias: Operand = None) -> Tensor:
        image = as_image(x)
        whole = [
            window.stride[axis] * (image.shape[2 + axis] - 1) + window.dilation[axis] * (window.kernel[axis] - 1) + 1
            for axis in range(2)
        ]
        lengths = (whole[0] + added[0], whole[1] + added[1])
        pads = window.pads
        if wanted is not None or automatic.startswith("SAME"):
            asked = (
                _two(tuple(wanted), 1)
                if wanted is not None
                else [length * step for length, step in zip(image.shape[2:], window.stride, strict=True)]
            )
            lengths = (max(lengths[0], asked[-2]), max(lengths[1], asked[-1]))
            over = [length - want for length, want in zip(lengths, asked[-2:], strict=True)]
            less = [each // 2 for each in over]
            halves = [(low, each - low) for low, each in zip(less, over, strict=True)]
            pads = tuple(halves if automatic == "SAME_UPPER" else [each[::-1] for each in halves])
        filters = reshaped(given, (*given.shape[:2], *window.kernel))
        how = {"stride": window.stride, "dilation": window.dilation, "groups": groups}
        operands = (image, filters) if bias is None else (image, filters, bias)
        made = apply(conv2d_transposed, *operands, padding=(0, 0), lengths=lengths, **how)
        if any(map(any, pads)):
            inside = tuple(slice(low, length - high) for (low, high), length in zip(pads, lengths, strict=True))
            made = apply(ops.getitem, made, index=(slice(None), slice(None), *inside))
        return from_image(made, x.ndim)

    return run


def _pool_window(node: Node) -> Window:
    window = Window.of(node, tuple(node.get("kernel_shape", ())))
    if window.dilation != (1, 1):
        raise Untranslatable(f"dilations={window.dilation}")
    return window


def _pooled(op: Op, image: Tensor, window: Window, padding: tuple[int, ...]) -> Tensor:
    """Return a pool over two axes or more: of more first over the last two, then over each before them."""
    extra = len(window.kernel) - 2
    lead, lengths = image.shape[:2], list(image.shape[2:])
    flat = reshaped(image, (lead[0], lead[1] * math.prod(lengths[:extra]), *lengths[extra:]))
    made = apply(op, flat, kernel=window.kernel[-2:], stride=window.stride[-2:], padding=padding[-2:])
    lengths[extra:] = made.shape[2:]
    for axis in range(extra - 1, -1, -1):
        before, behind = math.prod(lengths[:axis]), math.prod(lengths[axis + 1 :])
        flat = reshaped(made, (lead[0], lead[1] * before, lengths[axis], behind))
        made = apply(
            op, flat, kernel=(window.kernel[axis], 1), stride=(window.stride[axis], 1), padding=(padding[axis], 0)
        )
        lengths[axis] = made.shape[2]
    return reshaped(made, (*lead, *lengths))


def _max_pool(node: Node) -> Runner:
    window = _pool_window(node)

    def run(x: Any) -> Tensor:
        image = as_image(x)
        is_float, padding = image.dtype.kind == "f", window.symmetric()
        if padding is None or not is_float:
            least = -math.inf if is_float else np.iinfo(image.dtype).min
            image, padding = surrounded(image, window.widths(image.shape[2:]), least), None
        made = _pooled(ops.max_pool2d, image, window, padding or (0,) * len(window.kernel))
        return from_image(made, x.ndim)

    return run


def _average_pool(node: Node) -> Runner:
    window, counts_pads = _pool_window(node), bool(node.get("count_include_pad", 0))

    def run(x: Any) -> Tensor:
        image = as_image(x)
        lengths = image.shape[2:]
        widths, padding = window.widths(lengths), window.symmetric()
        if padding is None:
            image = surrounded(image, widths, 0.0)
        made = _pooled(ops.avg_pool2d, image, window, padding or (0,) * len(window.kernel))
        factors = [
            _over_counted(axis, lengths[axis], widths[axis], made.shape[2 + axis], window, counts_pads)
            for axis in range(len(lengths))
        ]
        if any((factor != 1).any() for factor in factors):
            made = apply(ops.multiply, made, reduce(np.multiply.outer, factors).astype(made.dtype))
        return from_image(made, x.ndim)

    return run


def _over_counted(
    axis: int, length: int, widths: tuple[int, int], positions: int, window: Window, counts_pads: bool
) -> Array:
    """Return, for each position, the kernel's length over the number of elements that the mean is of."""
    around = widths if window.automatic.startswith("SAME") else window.pads[axis]
    low, high = (-around[0], length + around[1]) if counts_pads else (0, length)
    first = np.arange(positions) * window.stride[axis] - widths[0]
    kernel = window.kernel[axis]
    return kernel / (np.minimum(first + kernel, high) - np.maximum(first, low))


def _global_average(node: Node) -> Runner:
    def run(x: Any) -> Tensor:
        if x.ndim == 4:
            return apply(ops.adaptive_avg_pool2d, x, size=(1, 1))
        return apply(ops.mean, x, axis=tuple(range(2, x.ndim)), keepdims=True)

    return run


def _global_root_of_squares(node: Node) -> Runner:
    node.only("p", 2)
    return lambda x: sum_of_squares(x, root=True, axis=tuple(range(2, x.ndim)), keepdims=True)


def _batch_norm(node: Node) -> Runner:
    node.only("training_mode", 0)
    node.only("spatial", 1)
    if node.version < 7:
        node.only("is_test", 0, 1)
    epsilon, momentum = node.get("epsilon", 1e-5), 1 - node.get("momentum", 0.9)
    if any(node.constant(index) is None for index in range(1, 5)):

        def run(x: Any, *operands: Any) -> Tensor:
            flat = reshaped(x, (*x.shape[:2], 1, math.prod(x.shape[2:])))
            held = (*operands[:2], *(tensor_of(each).data for each in operands[2:]))
            return reshaped(apply(ops.batch_norm, flat, *held, epsilon=epsilon), x.shape)

        return run
    weight, _, mean, variance = (node.weights(index) for index in range(1, 5))
    layer = BatchNorm(len(weight), eps=epsilon, momentum=momentum)
    layer.weight, layer.bias = node.parameter(1), node.parameter(2)
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
    first, epsilon, weight = node.get("axis", -1), node.get("epsilon", 1e-5), node.constant(1)
    fits = weight is not None and first == -weight.ndim and (not node.has(2) or node.constant(2) is not None)
    # One number may stand for a whole row of them, which a layer cannot tell before it sees an input.
    if weight is None or not fits or any(node.outputs[1:]) or weight.dtype != np.float32 or weight.size == 1:
        return _layer_norm_by_data(first, epsilon)
    bias = node.weights(2) if node.has(2) else np.zeros_like(weight)
    layer = LayerNorm(1, eps=epsilon)
    layer.weight = node.parameter(1, "" if weight.ndim == 1 else "as a row", weight.reshape(-1))
    row = np.broadcast_to(bias, weight.shape).reshape(-1)
    layer.bias = node.parameter(2, f"as a row of {row.size}", row) if node.has(2) else Parameter(row)
    return layer if weight.ndim == 1 else JoinedNorm(layer, weight.ndim)


def _layer_norm_by_data(first: int, epsilon: float) -> Runner:
    """Layer normalization by weights that no layer holds, in float32 at least; then mean and 1 / deviation."""

    def run(x: Any, weight: Any, bias: Operand = None) -> tuple[Tensor, ...]:
        dtype, wide = x.dtype, np.result_type(x.dtype, np.float32)
        along = tuple(range(first % x.ndim, x.ndim))
        axis: Any = along if len(along) > 1 else along[0]
        high = tensor_of(x) if dtype == wide else tensor_of(x).astype(wide)
        mean = apply(ops.mean, high, axis=axis, keepdims=True)
        apart = apply(ops.subtract, high, mean)
        variance = apply(ops.mean, apply(ops.multiply, apart, apart), axis=axis, keepdims=True)
        inverse = apply(ops.divide, wide.type(1), apply(ops.sqrt, apply(ops.add, variance, wide.type(epsilon))))
        normal = apply(ops.multiply, apart, inverse)
        made = apply(ops.multiply, normal if dtype == wide else normal.astype(dtype), weight)
        return (made if bias is None else apply(ops.add, made, bias)), mean, inverse

    return run


def root_mean_square_norm(node: Node) -> Runner:
    """Return what divides by the root of the mean of squares along the last axes, and multiplies by a weight."""
    first, epsilon = node.get("axis", -1), node.get("epsilon", 1e-5)

    def run(x: Any, weight: Any) -> Tensor:
        along = tuple(range(first % x.ndim, x.ndim))
        axis = along if len(along) > 1 else along[0]
        high = widened(x)
        mean = apply(ops.mean, apply(ops.multiply, high, high), axis=axis, keepdims=True)
        normal = apply(ops.divide, high, apply(ops.sqrt, apply(ops.add, mean, epsilon)))
        return apply(ops.multiply, normal if high.dtype == x.dtype else normal.astype(x.dtype), weight)

    return run


def _instance_norm(node: Node) -> Runner:
    epsilon = node.get("epsilon", 1e-5)

    return lambda x, weight, bias: _by_channel(_normal(x, math.prod(x.shape[:2]), epsilon), weight, bias)


def _group_norm(node: Node) -> Runner:
    groups, epsilon, each = node.get("num_groups", 1), node.get("epsilon", 1e-5), node.version < 21

    def run(x: Any, weight: Any, bias: Any) -> Tensor:
        normal = _normal(x, x.shape[0] * groups, epsilon)
        if not each:
            return _by_channel(normal, weight, bias)
        # Before version 21 each group had one weight.
        parts = reshaped(normal, (x.shape[0], groups, math.prod(x.shape[1:]) // groups))
        return reshaped(_by_channel(parts, weight, bias), x.shape)

    return run


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
        high = widened(x)
        rows = reshaped(apply(ops.multiply, high, high), (x.shape[0], 1, x.shape[1], math.prod(x.shape[2:])))
        around = surrounded(rows, beside[::-1], 0.0)
        means = apply(ops.avg_pool2d, around, kernel=(size, 1), stride=(1, 1), padding=(0, 0))
        scale = apply(ops.add, apply(ops.multiply, reshaped(means, x.shape), alpha), bias)
        made = apply(ops.divide, high, apply(ops.power, scale, exponent=float(beta)))
        return made if made.dtype == x.dtype else made.astype(x.dtype)

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
    layer.weight = node.parameters.setdefault((node.tied.get(node.inputs[0], node.inputs[0]), ""), Parameter(table))
    return layer


TRANSLATIONS: dict[str, Translation] = {
    "AveragePool": Translation(_average_pool),
    "BatchNormalization": Translation(_batch_norm),
    "Conv": Translation(_convolution, ignores=("kernel_shape",)),
    "ConvTranspose": Translation(_transposed_convolution, ignores=("kernel_shape",)),
    "GRU": Translation(gated, reads=(0, 5, 4), ignores=("hidden_size", "output_sequence"), outputs=2),
    "Gather": Translation(_lookup, reads=(1,)),
    "Gemm": Translation(_general_product),
    "GlobalAveragePool": Translation(_global_average),
    "GlobalLpPool": Translation(_global_root_of_squares),
    "GlobalMaxPool": Translation(
        lambda node: lambda x: apply(ops.max_, x, axis=tuple(range(2, x.ndim)), keepdims=True)
    ),
    "GroupNormalization": Translation(_group_norm),
    "InstanceNormalization": Translation(_instance_norm),
    "LRN": Translation(_local_response_norm),
    "LSTM": Translation(long_short_term, reads=(0, 5, 6, 4), ignores=("hidden_size", "output_sequence"), outputs=3),
    "LayerNormalization": Translation(_layer_norm, ignores=("stash_type",), outputs=3),
    "MatMul": Translation(_product),
    "MaxPool": Translation(_max_pool, ignores=("storage_order",)),
    "RMSNormalization": Translation(root_mean_square_norm, ignores=("stash_type",)),
    "RNN": Translation(plain_recurrent, reads=(0, 5, 4), ignores=("hidden_size", "output_sequence"), outputs=2),
}
