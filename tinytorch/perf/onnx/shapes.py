"""ONNX operators that move, pick, repeat and reduce along axes, as ops at the seam."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Op, Shape
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.elementwise import tensor_of, widened, without_gradient
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable, truth, whole
from tinytorch.perf.ops import contraction, gather_pad


def reshaped(x: Any, shape: Shape) -> Tensor:
    """Return the elements in another shape; as they are if it is the same."""
    return tensor_of(x) if x.shape == shape else apply(ops.reshape, x, shape=shape)


def shape_of(node: Node) -> Runner:
    """Return what gives the lengths of a tensor, which are known whenever the inputs' shapes are."""
    start, end = node.get("start", 0), node.get("end", None)
    return lambda x: np.array(x.shape[start:end], np.int64)


def size_of(node: Node) -> Runner:
    """Return what gives the number of elements."""
    return lambda x: np.array(math.prod(x.shape), np.int64)


def chosen(condition: Any, *branches: Any) -> Any:
    """Return the outputs of one of two branches, of the first if the condition holds."""
    count = len(branches) // 2
    made = branches[:count] if truth(condition) else branches[count:]
    return made if count > 1 else made[0]


def _reshape(node: Node) -> Runner:
    keeps_zero = bool(node.get("allowzero", 0))

    def run(x: Any, shape: Any) -> Tensor:
        lengths = whole(shape) if np.size(shape) else ()
        if not keeps_zero:
            lengths = tuple(x.shape[axis] if length == 0 else length for axis, length in enumerate(lengths))
        return reshaped(x, lengths)

    return run


def _flatten(node: Node) -> Runner:
    axis = node.get("axis", 1)

    def run(x: Any) -> Tensor:
        split = axis % (x.ndim + 1) if axis >= 0 else axis + x.ndim
        return reshaped(x, (math.prod(x.shape[:split]), math.prod(x.shape[split:])))

    return run


def _axes(attribute: Any, axes: Operand) -> tuple[int, ...] | None:
    """Return the axes that an attribute (of older versions) or an operand names; None if neither does."""
    given = attribute if axes is None else axes
    return None if given is None else whole(given) if np.size(given) else ()


def _squeeze(node: Node) -> Runner:
    named = node.get("axes", None)

    def run(x: Any, axes: Operand = None) -> Tensor:
        chosen = _axes(named, axes)
        gone = {i for i, n in enumerate(x.shape) if n == 1} if chosen is None else {axis % x.ndim for axis in chosen}
        if any(x.shape[axis] != 1 for axis in gone):
            raise ValueError(f"Squeeze {node.name} needs length 1 along axes {sorted(gone)}, not shape {x.shape}")
        return reshaped(x, tuple(n for i, n in enumerate(x.shape) if i not in gone))

    return run


def _unsqueeze(node: Node) -> Runner:
    named = node.get("axes", None)

    def run(x: Any, axes: Operand = None) -> Tensor:
        chosen = _axes(named, axes) or ()
        rank = x.ndim + len(chosen)
        new, old = {axis % rank for axis in chosen}, iter(x.shape)
        return reshaped(x, tuple(1 if axis in new else next(old) for axis in range(rank)))

    return run


def _transpose(node: Node) -> Runner:
    axes = node.get("perm", None)
    return lambda x: apply(ops.transpose, x, axes=tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def _concat(node: Node) -> Runner:
    axis = node.get("axis", 1)
    return lambda *parts: apply(ops.concatenate, *parts, axis=axis)


def _split(node: Node) -> Runner:
    axis, count, usual = node.get("axis", 0), len(node.outputs), node.get("split", None)
    node.only("num_outputs", count)

    def run(x: Any, lengths: Operand = None) -> tuple[Tensor, ...]:
        given = usual if lengths is None else lengths
        length = x.shape[axis]
        each = -(-length // count)
        parts = [min(each, length - each * i) for i in range(count)] if given is None else whole(given)
        ends = np.cumsum(parts)
        return tuple(
            _sliced(x, {axis: slice(int(end) - part, int(end))}) for part, end in zip(parts, ends, strict=True)
        )

    return run


def _sliced(x: Any, slices: dict[int, Any]) -> Tensor:
    """Return the part of x in which ``slices`` replace whole axes."""
    index: list[Any] = [slice(None)] * x.ndim
    for axis, part in slices.items():
        index[axis] = part
    return apply(ops.getitem, x, index=tuple(index))


def _slice(node: Node) -> Runner:
    named, *ends_of = (node.get(name, usual) for name, usual in (("axes", None), ("starts", ()), ("ends", ())))

    def run(
        x: Any, starts: Operand = None, ends: Operand = None, axes: Operand = None, steps: Operand = None
    ) -> Tensor:
        first = whole(ends_of[0] if starts is None else starts)
        last = whole(ends_of[1] if ends is None else ends)
        chosen = _axes(named, axes)
        along = tuple(range(len(first))) if chosen is None else chosen
        strides = (1,) * len(first) if steps is None else whole(steps)
        return _sliced(x, {a: slice(*part) for a, *part in zip(along, first, last, strides, strict=True)})

    return run


def gather(node: Node) -> Runner:
    """Return what picks elements along an axis: one known place is a slice, others are an operand."""
    axis = node.get("axis", 0)

    def run(x: Any, indices: Any) -> Tensor:
        if not isinstance(indices, Tensor) and indices.ndim == 0:
            return _sliced(x, {axis: int(indices)})
        return apply(gather_pad.gather, x, indices, axis=axis)

    return run


def _picked(op: Op, name: str) -> Translation:
    """Return the translation of what picks by an array, with one attribute of this name."""

    def make(node: Node) -> Runner:
        how = {name: node.get(name, 0)}
        return lambda x, indices: apply(op, x, indices, **how)

    return Translation(make)


def _scatter_tuples(node: Node) -> Runner:
    how = node.only("reduction", *_SCATTERED)
    return lambda x, indices, updates: apply(gather_pad.scatter_tuples, x, without_gradient(indices), updates, how=how)


def _scatter_along(node: Node) -> Runner:
    axis, how = node.get("axis", 0), node.only("reduction", *_SCATTERED)

    def run(x: Any, indices: Any, updates: Any) -> Tensor:
        return apply(gather_pad.scatter_along, x, without_gradient(indices), updates, axis=axis, how=how)

    return run


_SCATTERED = ("none", "add", "mul", "max", "min")


def _einsum(node: Node) -> Runner:
    equation = node.get("equation", "").replace(" ", "")
    return lambda *operands: apply(contraction.einsum, *operands, equation=equation)


def _expand(node: Node) -> Runner:
    def run(x: Any, shape: Any) -> Tensor:
        wide = np.broadcast_shapes(x.shape, whole(shape) if np.size(shape) else ())
        return tensor_of(x) if wide == x.shape else apply(gather_pad.broadcast, x, shape=wide)

    return run


def _tile(node: Node) -> Runner:
    if node.version < 6:
        raise Untranslatable(f"version {node.version}")
    return lambda x, repeats: apply(gather_pad.tile, x, repeats=whole(repeats))


def _pad(node: Node) -> Runner:
    mode = node.only("mode", "constant", "reflect", "edge", "wrap")
    widths_of, filled = node.get("pads", node.get("paddings", ())), node.get("value", 0.0)

    def run(x: Any, pads: Operand = None, value: Operand = None, axes: Operand = None) -> Tensor:
        ends = whole(widths_of if pads is None else pads)
        along = range(x.ndim) if axes is None else [axis % x.ndim for axis in whole(axes)]
        widths, half = [(0, 0)] * x.ndim, len(ends) // 2
        for axis, before, after in zip(along, ends[:half], ends[half:], strict=True):
            widths[axis] = (before, after)
        cut = {a: slice(max(-b, 0), x.shape[a] - max(-e, 0)) for a, (b, e) in enumerate(widths) if b < 0 or e < 0}
        x = _sliced(x, cut) if cut else x
        added = tuple((max(before, 0), max(after, 0)) for before, after in widths)
        number = filled if value is None else np.asarray(value).item()
        return apply(gather_pad.pad, x, widths=added, mode=mode, value=number) if any(map(any, added)) else tensor_of(x)

    return run


def _depth_to_space(node: Node) -> Runner:
    block, column_first = node.get("blocksize", 1), node.only("mode", "DCR", "CRD") == "CRD"

    def run(x: Any) -> Tensor:
        count, channels, height, width = x.shape
        each = channels // block**2
        lengths = (each, block, block) if column_first else (block, block, each)
        split, order = (count, *lengths, height, width), (0, 1, 4, 2, 5, 3) if column_first else (0, 3, 4, 1, 5, 2)
        turned = apply(ops.transpose, reshaped(x, split), axes=order)
        return reshaped(turned, (count, each, height * block, width * block))

    return run


def _reduction(reduce: Callable[..., Tensor]) -> Translation:
    def make(node: Node) -> Runner:
        keepdims, nothing = bool(node.get("keepdims", 1)), bool(node.get("noop_with_empty_axes", 0))
        named = node.get("axes", None)

        def run(x: Any, axes: Operand = None) -> Tensor:
            chosen = _axes(named, axes)
            if not chosen and nothing:
                return tensor_of(x)
            along = tuple(axis % x.ndim for axis in chosen or ())
            return reduce(x, axis=(along if len(along) > 1 else along[0]) if along else None, keepdims=keepdims)

        return run

    return Translation(make, (1,), for_floats=True)


def _least(x: Any, **how: Any) -> Tensor:
    return apply(ops.negative, apply(ops.max_, apply(ops.negative, x), **how))


def sum_of_squares(x: Any, *, root: bool = False, **how: Any) -> Tensor:
    """Return the sum of squares along axes, or its ``root``, of halves by way of float32."""
    high = widened(x)
    total = apply(ops.sum_, apply(ops.multiply, high, high), **how)
    total = apply(ops.sqrt, total) if root else total
    return total if high.dtype == x.dtype else total.astype(x.dtype)


def _best(sign: int) -> Translation:
    def make(node: Node) -> Runner:
        axis, keepdims = node.get("axis", 0), bool(node.get("keepdims", 1))
        node.only("select_last_index", 0)

        def run(x: Any) -> Tensor:
            x = without_gradient(x)
            found = apply(gather_pad.argmax, x if sign > 0 else apply(ops.negative, x), axis=axis)
            if not keepdims:
                return found
            return reshaped(found, tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)))

        return run

    return Translation(make, for_floats=True)


def _top(node: Node) -> Runner:
    axis, largest, usual = node.get("axis", -1), bool(node.get("largest", 1)), node.get("k", None)

    def run(x: Any, count: Operand = None) -> tuple[Tensor, Tensor]:
        order = apply(gather_pad.argsort, without_gradient(x), axis=axis, largest=largest)
        places = _sliced(order, {axis % x.ndim: slice(0, whole(usual if count is None else count)[0])})
        return apply(gather_pad.gather_along, x, places, axis=axis), places

    return run


def _softmax(op: Op) -> Translation:
    def make(node: Node) -> Runner:
        if node.version >= 13:
            axis = node.get("axis", -1)
            return lambda x: apply(op, x, axis=axis)
        first = node.get("axis", 1)

        def run(x: Any) -> Tensor:
            """Until version 13 all axes from the named one on were one."""
            at = first % x.ndim
            if at == x.ndim - 1:
                return apply(op, x, axis=-1)
            return reshaped(apply(op, reshaped(x, (*x.shape[:at], math.prod(x.shape[at:]))), axis=-1), x.shape)

        return run

    return Translation(make)


def _resize(node: Node) -> Runner:
    mode = node.only("mode", "nearest", "linear", "bilinear", "cubic")
    node.only("exclude_outside", 0)
    slope = node.get("cubic_coeff_a", -0.75)
    known = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    places = node.only("coordinate_transformation_mode", *known)
    rounding = node.only("nearest_mode", "round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    if node.version < 11:
        places, rounding = "asymmetric", "floor"
    named, factors, second = node.get("axes", None), node.get("scales", None), node.version >= 11

    def run(x: Any, *operands: Operand) -> Tensor:
        scales, sizes = (*operands[1:], None, None)[:2] if second else ((*operands, factors)[0], None)
        given = tensor_of(x).dtype
        if given.kind in "iu" and mode != "nearest":
            x = tensor_of(x).astype(np.dtype(np.float32))
        along = tuple(range(x.ndim)) if named is None else tuple(axis % x.ndim for axis in named)
        if sizes is not None and np.size(sizes):
            news = list(whole(sizes))
            ratios = [np.float32(new) / np.float32(x.shape[axis]) for new, axis in zip(news, along, strict=True)]
        else:
            ratios = list(np.asarray(scales, np.float32).reshape(-1))
            news = [math.floor(np.float32(x.shape[axis]) * ratio) for ratio, axis in zip(ratios, along, strict=True)]
        for axis, new, scale in zip(along, news, ratios, strict=True):
            length = x.shape[axis]
            if new == length and scale == 1:
                continue
            origins = _origins(new, length, scale, places)
            if mode == "nearest":
                x = apply(gather_pad.gather, x, _rounded(origins, rounding, length), axis=axis)
            else:
                weights = _between(origins, length, slope if mode == "cubic" else None)
                x = apply(gather_pad.blend, x, weights.astype(tensor_of(x).dtype), axis=axis)
        return tensor_of(x) if x.dtype == given else x.astype(given)  # what lies between whole numbers is cut off

    return run


def _origins(new: int, length: int, scale: np.float32, places: str) -> Array:
    """Return where along the old axis each place of the new one lies, in float32 as the standard's scales are."""
    at = np.arange(new, dtype=np.float32)
    if places == "align_corners":
        return at * np.float32(length - 1) / np.float32(new - 1) if new > 1 else at * 0
    if places == "asymmetric":
        return at / scale
    if places == "pytorch_half_pixel" and new == 1:
        return at * 0
    return (at + np.float32(0.5)) / scale - np.float32(0.5)


def _rounded(at: Array, rounding: str, length: int) -> Array:
    """Return the old element that each new one repeats."""
    rounded = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
    }[rounding]
    return np.clip(rounded, 0, length - 1).astype(np.int64)


def _between(at: Array, length: int, slope: float | None) -> Array:
    """Return (length, new), whose columns weigh the old elements around each place: two, or by a cubic four.

    Source: R. G. Keys, "Cubic convolution interpolation for digital image processing", 1981, where ``slope`` is a.
    """
    first, weights = np.floor(at).astype(np.int64), np.zeros((length, len(at)))
    for old in range(2) if slope is None else range(-1, 3):
        apart = np.abs(first + old - at)
        share = 1 - apart
        if slope is not None:
            near = ((slope + 2) * apart - (slope + 3)) * apart**2 + 1
            share = np.where(apart <= 1, near, slope * (((apart - 5) * apart + 8) * apart - 4))
        np.add.at(weights, (np.clip(first + old, 0, length - 1), np.arange(len(at))), share)
    return weights


TRANSLATIONS: dict[str, Translation] = {
    "ArgMax": _best(1),
    "ArgMin": _best(-1),
    "Concat": Translation(_concat),
    "DepthToSpace": Translation(_depth_to_space),
    "Einsum": Translation(_einsum, for_floats=True),
    "Expand": Translation(_expand, (1,)),
    "Flatten": Translation(_flatten),
    "GatherElements": _picked(gather_pad.gather_along, "axis"),
    "GatherND": _picked(gather_pad.gather_tuples, "batch_dims"),
    "LogSoftmax": _softmax(ops.log_softmax),
    "Pad": Translation(_pad, (1, 2, 3)),
    "ReduceL2": _reduction(partial(sum_of_squares, root=True)),
    "ReduceMax": _reduction(partial(apply, ops.max_)),
    "ReduceMean": _reduction(partial(apply, ops.mean)),
    "ReduceMin": _reduction(_least),
    "ReduceSum": _reduction(partial(apply, ops.sum_)),
    "ReduceSumSquare": _reduction(sum_of_squares),
    "Reshape": Translation(_reshape, (1,)),
    "Resize": Translation(_resize, (1, 2, 3), ignores=("extrapolation_value",)),
    "Scatter": Translation(_scatter_along),
    "ScatterElements": Translation(_scatter_along),
    "ScatterND": Translation(_scatter_tuples),
    "Slice": Translation(_slice, (1, 2, 3, 4)),
    "Softmax": _softmax(ops.softmax),
    "Split": Translation(_split, (1,), outputs=None),
    "Squeeze": Translation(_squeeze, (1,)),
    "Tile": Translation(_tile, (1,)),
    "TopK": Translation(_top, (1,), ignores=("sorted",), outputs=2, for_floats=True),
    "Transpose": Translation(_transpose),
    "Unsqueeze": Translation(_unsqueeze, (1,)),
    "Upsample": Translation(_resize, (1,)),
}
