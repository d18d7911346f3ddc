"""ONNX operators that move, pick, repeat and reduce along axes, as ops at the seam."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Op, Shape
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.elementwise import tensor_of, without_gradient
from tinytorch.perf.onnx.node import Node, Operand, Runner, Translation, Untranslatable, truth, whole
from tinytorch.perf.ops import picking


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


def _axes(node: Node, axes: Operand) -> tuple[int, ...] | None:
    """Return the axes that an attribute (of older versions) or an operand names; None if neither does."""
    given = node.get("axes", None) if axes is None else axes
    return None if given is None else whole(given) if np.size(given) else ()


def _squeeze(node: Node) -> Runner:
    def run(x: Any, axes: Operand = None) -> Tensor:
        chosen = _axes(node, axes)
        gone = {i for i, n in enumerate(x.shape) if n == 1} if chosen is None else {axis % x.ndim for axis in chosen}
        if any(x.shape[axis] != 1 for axis in gone):
            raise ValueError(f"Squeeze {node.name} needs length 1 along axes {sorted(gone)}, not shape {x.shape}")
        return reshaped(x, tuple(n for i, n in enumerate(x.shape) if i not in gone))

    return run


def _unsqueeze(node: Node) -> Runner:
    def run(x: Any, axes: Operand = None) -> Tensor:
        chosen = _axes(node, axes) or ()
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
    axis, count = node.get("axis", 0), len(node.outputs)

    def run(x: Any, lengths: Operand = None) -> tuple[Tensor, ...]:
        given = node.get("split", None) if lengths is None else lengths
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
    def run(
        x: Any, starts: Operand = None, ends: Operand = None, axes: Operand = None, steps: Operand = None
    ) -> Tensor:
        first = whole(node.get("starts", ()) if starts is None else starts)
        last = whole(node.get("ends", ()) if ends is None else ends)
        chosen = _axes(node, axes)
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
        return apply(picking.gather, x, indices, axis=axis)

    return run


def _gather_elements(node: Node) -> Runner:
    axis = node.get("axis", 0)
    return lambda x, indices: apply(picking.gather_along, x, indices, axis=axis)


def _gather_tuples(node: Node) -> Runner:
    batch_dims = node.get("batch_dims", 0)
    return lambda x, indices: apply(picking.gather_tuples, x, indices, batch_dims=batch_dims)


def _expand(node: Node) -> Runner:
    def run(x: Any, shape: Any) -> Tensor:
        wide = np.broadcast_shapes(x.shape, whole(shape) if np.size(shape) else ())
        return tensor_of(x) if wide == x.shape else apply(picking.broadcast, x, shape=wide)

    return run


def _tile(node: Node) -> Runner:
    return lambda x, repeats: apply(picking.tile, x, repeats=whole(repeats))


_PADDINGS = {"constant": "constant", "reflect": "reflect", "edge": "edge", "wrap": "wrap"}


def _pad(node: Node) -> Runner:
    mode = _PADDINGS[node.only("mode", *_PADDINGS)]

    def run(x: Any, pads: Operand = None, value: Operand = None, axes: Operand = None) -> Tensor:
        ends = whole(node.get("pads", node.get("paddings", ())) if pads is None else pads)
        along = range(x.ndim) if axes is None else [axis % x.ndim for axis in whole(axes)]
        widths, half = [(0, 0)] * x.ndim, len(ends) // 2
        for axis, before, after in zip(along, ends[:half], ends[half:], strict=True):
            widths[axis] = (before, after)
        cut = {a: slice(max(-b, 0), x.shape[a] - max(-e, 0)) for a, (b, e) in enumerate(widths) if b < 0 or e < 0}
        x = _sliced(x, cut) if cut else x
        added = tuple((max(before, 0), max(after, 0)) for before, after in widths)
        number = node.get("value", 0.0) if value is None else np.asarray(value).item()
        return apply(picking.pad, x, widths=added, mode=mode, value=number) if any(map(any, added)) else tensor_of(x)

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


def _space_to_depth(node: Node) -> Runner:
    block = node.get("blocksize", 1)

    def run(x: Any) -> Tensor:
        count, channels, height, width = x.shape
        split = reshaped(x, (count, channels, height // block, block, width // block, block))
        turned = apply(ops.transpose, split, axes=(0, 3, 5, 1, 2, 4))
        return reshaped(turned, (count, channels * block**2, height // block, width // block))

    return run


def _reduction(reduce: Callable[..., Tensor]) -> Translation:
    def make(node: Node) -> Runner:
        keepdims, nothing = bool(node.get("keepdims", 1)), bool(node.get("noop_with_empty_axes", 0))

        def run(x: Any, axes: Operand = None) -> Tensor:
            chosen = _axes(node, axes)
            if not chosen and nothing:
                return tensor_of(x)
            along = tuple(axis % x.ndim for axis in chosen or ())
            return reduce(x, axis=(along if len(along) > 1 else along[0]) if along else None, keepdims=keepdims)

        return run

    return Translation(make, (1,))


def _by(op: Op) -> Callable[..., Tensor]:
    return lambda x, **how: apply(op, x, **how)


def _least(x: Any, **how: Any) -> Tensor:
    return apply(ops.negative, apply(ops.max_, apply(ops.negative, x), **how))


def _sum_of_squares(x: Any, **how: Any) -> Tensor:
    return apply(ops.sum_, apply(ops.multiply, x, x), **how)


def _length(x: Any, **how: Any) -> Tensor:
    return apply(ops.sqrt, _sum_of_squares(x, **how))


def _sum_of_sizes(x: Any, **how: Any) -> Tensor:
    return apply(ops.sum_, apply(ops.absolute, x), **how)


def _best(sign: int) -> Translation:
    def make(node: Node) -> Runner:
        axis, keepdims = node.get("axis", 0), bool(node.get("keepdims", 1))
        node.only("select_last_index", 0)

        def run(x: Any) -> Tensor:
            x = without_gradient(x)
            found = apply(picking.argmax, x if sign > 0 else apply(ops.negative, x), axis=axis)
            if not keepdims:
                return found
            return reshaped(found, tuple(1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)))

        return run

    return Translation(make)


def _top(node: Node) -> Runner:
    axis, largest = node.get("axis", -1), bool(node.get("largest", 1))

    def run(x: Any, count: Any) -> tuple[Tensor, Tensor]:
        order = apply(picking.argsort, without_gradient(x), axis=axis, largest=largest)
        places = _sliced(order, {axis % x.ndim: slice(0, whole(count)[0])})
        return apply(picking.gather_along, x, places, axis=axis), places

    return run


def _cumulative_sum(node: Node) -> Runner:
    node.only("exclusive", 0)
    node.only("reverse", 0)
    return lambda x, axis: apply(picking.cumulative_sum, x, axis=whole(axis)[0])


def _triangle(node: Node) -> Runner:
    upper = bool(node.get("upper", 1))

    def run(x: Any, diagonal: Operand = None) -> Tensor:
        return apply(picking.triangle, x, diagonal=0 if diagonal is None else whole(diagonal)[0], upper=upper)

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
    mode = node.only("mode", "nearest", "linear")
    places = node.only(
        "coordinate_transformation_mode", "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"
    )
    if node.version < 11:
        places = "asymmetric"
    rounding = node.only("nearest_mode", "round_prefer_floor", "floor", "ceil", "round_prefer_ceil")
    if node.version < 11:
        rounding = "floor"
    node.only("antialias", 0)
    if node.get("axes", None) is not None:
        raise Untranslatable("axes")
    node.only("keep_aspect_ratio_policy", "stretch")
    second = node.version >= 11

    def run(x: Any, *operands: Operand) -> Tensor:
        scales, sizes = (operands[1], operands[2] if len(operands) > 2 else None) if second else (operands[0], None)
        for axis, length in enumerate(x.shape):
            if sizes is not None and np.size(sizes):
                new = whole(sizes)[axis]
                scale = new / length
            else:
                scale = float(np.asarray(scales).reshape(-1)[axis])
                new = math.floor(length * scale)
            if new != length:
                at = _origins(new, length, scale, places)
                if mode == "nearest":
                    x = apply(picking.gather, x, _rounded(at, rounding, length), axis=axis)
                else:
                    x = apply(picking.blend, x, _blending(at, length, tensor_of(x).dtype), axis=axis)
        return tensor_of(x)

    return run


def _origins(new: int, length: int, scale: float, places: str) -> Array:
    """Return where along the old axis each place of the new one lies."""
    at = np.arange(new, dtype=np.float64)
    if places == "align_corners":
        return at * (length - 1) / (new - 1) if new > 1 else at * 0
    if places == "asymmetric":
        return at / scale
    if places == "pytorch_half_pixel" and new == 1:
        return at * 0
    return (at + 0.5) / scale - 0.5


def _rounded(at: Array, rounding: str, length: int) -> Array:
    """Return the old element that each new one repeats."""
    rounded = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
    }[rounding]
    return np.clip(rounded, 0, length - 1).astype(np.int64)


def _blending(at: Array, length: int, dtype: np.dtype[Any]) -> Array:
    """Return the matrix (length, new) whose columns weigh the two old elements around each new one."""
    inside = np.clip(at, 0, length - 1)
    low = np.floor(inside).astype(np.int64)
    high = np.minimum(low + 1, length - 1)
    columns = np.arange(len(at))
    weights = np.zeros((length, len(at)))
    weights[low, columns] += 1 - (inside - low)
    weights[high, columns] += inside - low
    return weights.astype(dtype)


TRANSLATIONS: dict[str, Translation] = {
    "ArgMax": _best(1),
    "ArgMin": _best(-1),
    "Concat": Translation(_concat),
    "CumSum": Translation(_cumulative_sum, (1,)),
    "DepthToSpace": Translation(_depth_to_space),
    "Expand": Translation(_expand, (1,)),
    "Flatten": Translation(_flatten),
    "GatherElements": Translation(_gather_elements),
    "GatherND": Translation(_gather_tuples),
    "LogSoftmax": _softmax(ops.log_softmax),
    "Pad": Translation(_pad, (1, 2, 3)),
    "ReduceL1": _reduction(_sum_of_sizes),
    "ReduceL2": _reduction(_length),
    "ReduceMax": _reduction(_by(ops.max_)),
    "ReduceMean": _reduction(_by(ops.mean)),
    "ReduceMin": _reduction(_least),
    "ReduceSum": _reduction(_by(ops.sum_)),
    "ReduceSumSquare": _reduction(_sum_of_squares),
    "Reshape": Translation(_reshape, (1,)),
    "Resize": Translation(_resize, (1, 2, 3)),
    "Slice": Translation(_slice, (1, 2, 3, 4)),
    "Softmax": _softmax(ops.softmax),
    "SpaceToDepth": Translation(_space_to_depth),
    "Split": Translation(_split, (1,)),
    "Squeeze": Translation(_squeeze, (1,)),
    "Tile": Translation(_tile, (1,)),
    "TopK": Translation(_top, (1,)),
    "Transpose": Translation(_transpose),
    "Trilu": Translation(_triangle, (1,)),
    "Unsqueeze": Translation(_unsqueeze, (1,)),
    "Upsample": Translation(_resize, (1,)),
}
