"""Ops that pick, repeat or surround elements by operands or along axes, as models of other frameworks do."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import (
    Array,
    Call,
    Gradients,
    Op,
    Saved,
    Shape,
    Work,
    additions_back,
    gradient_only,
    no_gradient,
    no_traffic,
    no_work,
    per_element,
    picked_traffic,
)
from tinytorch.core.ops.elementwise import unbroadcast
from tinytorch.core.ops.shape import kept_index


def _copied_traffic(call: Call) -> int:
    """Bytes that are read and written where an op copies what goes in, and no more."""
    return call.inputs[0].nbytes + call.output.nbytes


def _picked(keep: bool, x: Array, where: tuple[Any, ...], output: Array) -> tuple[Array, Saved]:
    return output, (x.shape, kept_index(where)) if keep else ()


def _picked_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, where = saved
    down = np.zeros(shape, gradient.dtype)
    np.add.at(down, where, gradient)
    return down, None


def _gather_forward(keep: bool, x: Array, indices: Array, *, axis: int) -> tuple[Array, Saved]:
    return _picked(keep, x, (*[slice(None)] * (axis % x.ndim), indices), np.take(x, indices, axis=axis))


def _places_along(indices: Array, axis: int) -> tuple[Array, ...]:
    where: list[Array] = list(np.indices(indices.shape, sparse=True))
    where[axis] = indices
    return tuple(where)


def _along_forward(keep: bool, x: Array, indices: Array, *, axis: int) -> tuple[Array, Saved]:
    # NumPy would repeat an axis of one index; ONNX and PyTorch take just as many as there are.
    x_part = x[tuple(slice(None) if i == axis % x.ndim else slice(n) for i, n in enumerate(indices.shape))]
    return _picked(keep, x, _places_along(indices, axis), np.take_along_axis(x_part, indices, axis))


def _tuples(indices: Array, batch_dims: int) -> tuple[Array, ...]:
    """Return for each axis that tuples in the last axis of ``indices`` name, and for those before, where they point."""
    along = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
    return (*along, *np.moveaxis(indices, -1, 0))


def _gather_tuples_forward(keep: bool, x: Array, indices: Array, *, batch_dims: int) -> tuple[Array, Saved]:
    where = _tuples(indices, batch_dims)
    return _picked(keep, x, where, np.asarray(x[where]))


#: How what is scattered meets what is there.
_MEETING = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scattered(x: Array, where: tuple[Array, ...], updates: Array, how: str) -> Array:
    output = x.copy()
    if how == "none":
        output[where] = updates
    else:
        _MEETING[how].at(output, where, updates)
    return output


def _scatter_tuples_forward(keep: bool, x: Array, indices: Array, updates: Array, *, how: str) -> tuple[Array, Saved]:
    where = _tuples(indices, 0)
    return _scattered(x, where, updates, how), (kept_index(where), how) if keep else ()


def _scatter_along_forward(
    keep: bool, x: Array, indices: Array, updates: Array, *, axis: int, how: str
) -> tuple[Array, Saved]:
    where = _places_along(indices, axis)
    return _scattered(x, where, updates, how), (kept_index(where), how) if keep else ()


def _scatter_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    where, how = saved
    if how not in ("none", "add"):
        raise TypeError(f"scattering by {how} has no gradient here: give it operands that require none")
    down = gradient
    if how == "none":
        down = gradient.copy()
        down[where] = 0
    return down if needs[0] else None, None, gradient[where] if needs[2] else None


def _scattered_traffic(call: Call) -> int:
    """Bytes of x read and written, and of the updates with their places, read and written."""
    return 2 * call.output.nbytes + call.inputs[1].nbytes + 2 * call.inputs[2].nbytes


def _scattered_work(call: Call) -> Work:
    """One operation for each update that meets what is there; the gradient is picked."""
    meets = call.phase == "forward" and call.params["how"] != "none"
    return Work(elementwise=call.inputs[2].size if meets else 0)


def _broadcast_forward(keep: bool, x: Array, *, shape: Shape) -> tuple[Array, Saved]:
    return np.broadcast_to(x, shape), (x.shape,) if keep else ()


def _broadcast_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (unbroadcast(gradient, saved[0]),)


def _tile_forward(keep: bool, x: Array, *, repeats: tuple[int, ...]) -> tuple[Array, Saved]:
    return np.tile(x, repeats), (x.shape, repeats) if keep else ()


def _tile_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, repeats = saved
    pairs = [length for pair in zip(repeats, shape, strict=True) for length in pair]
    return (gradient.reshape(pairs).sum(axis=tuple(range(0, len(pairs), 2))),)


def _pad_forward(
    keep: bool, x: Array, *, widths: tuple[tuple[int, int], ...], mode: Any, value: float
) -> tuple[Array, Saved]:
    if mode == "constant":
        output = np.pad(x, widths, constant_values=x.dtype.type(value))
    else:
        output = np.pad(x, widths, mode=mode)
    return output, (x.shape, widths, mode) if keep else ()


def _pad_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    shape, widths, mode = saved
    if mode != "constant":
        # Each element of the output is one of the input: which, the same padding of their numbers says.
        numbers = np.pad(np.arange(np.prod(shape, dtype=np.int64)).reshape(shape), widths, mode=mode)
        down = np.zeros(numbers.max(initial=-1) + 1, gradient.dtype)
        np.add.at(down, numbers.reshape(-1), gradient.reshape(-1))
        return (down.reshape(shape),)
    inside = tuple(slice(before, before + length) for (before, _), length in zip(widths, shape, strict=True))
    return (gradient[inside],)


def _argmax_forward(keep: bool, x: Array, *, axis: int) -> tuple[Array, Saved]:
    return np.argmax(x, axis=axis), ()


def _argsort_forward(keep: bool, x: Array, *, axis: int, largest: bool) -> tuple[Array, Saved]:
    # The order of equals is theirs in x, as in ONNX Runtime.
    return np.argsort(-x if largest else x, axis=axis, kind="stable"), ()


def _sorting_work(call: Call) -> Work:
    """One comparison for each element and level of a merge sort along the axis."""
    length = max(call.output.shape[call.params["axis"]], 2) if call.output.shape else 2
    return Work(elementwise=call.output.size * (length - 1).bit_length())


def _blend_forward(keep: bool, x: Array, weights: Array, *, axis: int) -> tuple[Array, Saved]:
    output = np.moveaxis(np.moveaxis(x, axis, -1) @ weights, -1, axis)
    return np.ascontiguousarray(output), (weights, axis) if keep else ()


def _blend_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    if needs[1]:
        raise TypeError("blend's weights are constant: they have no gradient")
    weights, axis = saved
    return np.moveaxis(np.moveaxis(gradient, axis, -1) @ weights.T, -1, axis), None


def _blend_work(call: Call) -> Work:
    """A linear interpolation between two neighbours: two products and a sum for each output."""
    return Work(elementwise=3 * call.output.size)


_INDICES = no_gradient("indices have no gradient: pass indices with requires_grad=False")

#: Elements of x at ``indices``, whole numbers of any shape, along one axis.
gather = Op("gather", _gather_forward, _picked_backward, additions_back, picked_traffic)
#: For each of ``indices``, as many axes as x, the element of x at this place along the axis.
gather_along = Op("gather_along", _along_forward, _picked_backward, additions_back, picked_traffic)
#: Parts of x: each tuple in the last axis of ``indices`` says where, behind the first ``batch_dims`` axes of both.
gather_tuples = Op("gather_tuples", _gather_tuples_forward, _picked_backward, additions_back, picked_traffic)
#: x with parts replaced by ``updates``, or joined to them by ``how``, where `gather_tuples` would pick them.
scatter_tuples = Op("scatter_tuples", _scatter_tuples_forward, _scatter_backward, _scattered_work, _scattered_traffic)
#: x with elements replaced by ``updates``, or joined to them by ``how``, where `gather_along` would pick them.
scatter_along = Op("scatter_along", _scatter_along_forward, _scatter_backward, _scattered_work, _scattered_traffic)
#: A view of x repeated to a shape, without copying.
broadcast = Op("broadcast", _broadcast_forward, _broadcast_backward, additions_back, no_traffic)
tile = Op("tile", _tile_forward, _tile_backward, additions_back, _copied_traffic)
#: x with so many elements before and behind it along each axis: a constant, or as NumPy's ``mode`` makes them.
pad = Op("pad", _pad_forward, _pad_backward, no_work, _copied_traffic)
argmax = Op("argmax", _argmax_forward, _INDICES, per_element(1), gradient_only)
#: Places of the elements in order; the first of equals is first.
argsort = Op("argsort", _argsort_forward, _INDICES, _sorting_work, gradient_only)
#: Linear interpolation along an axis: x times a constant matrix (length, new length) with two weights a column.
blend = Op("blend", _blend_forward, _blend_backward, _blend_work)
