"""Entry points of ops of single elements, of copies, and of what only changes how elements are seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Op
from tinytorch.perf.kernels.plan_ops.binding import Binder, RecordedOp, View, joined_axes, row_strides
from tinytorch.perf.kernels.plan_ops.driver import Entry, entry_of
from tinytorch.perf.kernels.pointwise import NUMBERS, POWERS, SHARES, of_elements
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.flat import floats_at
from tinytorch.perf.ops import pointwise

#: Axes of a sum or product of two operands, once neighbours are joined.
_PAIR_AXES = 4


@kernel
def _flat_operands(w: Any) -> Any:
    return w.count, (floats_at(w.source, w.count), floats_at(w.target, w.count))


@kernel
def _with_number(w: Any) -> Any:
    return w.count, (floats_at(w.source, w.count), floats_at(w.target, w.count), np.float32(w.first))


@kernel
def _with_numbers(w: Any) -> Any:
    source, target = floats_at(w.source, w.count), floats_at(w.target, w.count)
    return w.count, (source, target, np.float32(w.first), np.float32(w.second))


def _pair(of_two: Any, name: str) -> Entry:
    """Return the entry that writes ``of_two`` of a and b along `_PAIR_AXES` axes of lengths n, with strides a and b."""

    of_two = of_elements(of_two, name)

    def pair(w: Any) -> None:
        n, target = w.n3, w.target
        for i in range(w.n0):
            for j in range(w.n1):
                for k in range(w.n2):
                    at = w.a + 4 * (i * w.a0 + j * w.a1 + k * w.a2)
                    bt = w.b + 4 * (i * w.b0 + j * w.b1 + k * w.b2)
                    output = floats_at(target, n)
                    if w.a3 == 1 and w.b3 == 1:
                        a, b = floats_at(at, n), floats_at(bt, n)
                        for m in range(n):
                            output[m] = of_two(a[m], b[m])
                    elif w.a3 == 1 and w.b3 == 0:
                        a, one = floats_at(at, n), floats_at(bt, 1)[0]
                        for m in range(n):
                            output[m] = of_two(a[m], one)
                    elif w.a3 == 0 and w.b3 == 1:
                        one, b = floats_at(at, 1)[0], floats_at(bt, n)
                        for m in range(n):
                            output[m] = of_two(one, b[m])
                    else:
                        for m in range(n):
                            left = floats_at(at + 4 * m * w.a3, 1)[0]
                            output[m] = of_two(left, floats_at(bt + 4 * m * w.b3, 1)[0])
                    target += 4 * n

    axes = " ".join(f"{kind}{axis}" for kind in "nab" for axis in range(_PAIR_AXES))
    return Entry(pair, f"a b target {axes}", variant=name)


_OPERANDS = ((_flat_operands, ""), (_with_number, "first"), (_with_numbers, "first second"))


def _single(share: Any, name: str, numbers: int = 0) -> Entry:
    """Return the entry that writes each element by itself, and takes so many numbers."""
    operands, names = _OPERANDS[numbers]
    return entry_of(share, operands, name, "source target count", names)


_SINGLE = {op: _single(share, op.name, len(NUMBERS.get(op, ()))) for op, share in SHARES.items()}
#: Of maximum and minimum NaN is the result if either operand is.
_PAIRS: dict[Op, Entry] = {
    ops.add: _pair(lambda a, b: a + b, "add"),
    ops.subtract: _pair(lambda a, b: a - b, "subtract"),
    ops.multiply: _pair(lambda a, b: a * b, "multiply"),
    ops.divide: _pair(lambda a, b: a / b, "divide"),
    ops.maximum: _pair(lambda a, b: a if a > b or a != a else b, "maximum"),
    pointwise.minimum: _pair(lambda a, b: a if a < b or a != a else b, "minimum"),
}
#: Powers that need no power.
_POWERS = {exponent: _single(share, f"power_{exponent:.0f}") for exponent, (share, _) in POWERS.items()}
_POWERS[0.5] = _SINGLE[ops.sqrt]


def _bind_single(node: RecordedOp, binder: Binder) -> View:
    """Write each element where the input's lies in another buffer of the same order."""
    x = binder.view(node.operands[0])
    x = x if _is_dense(x) else binder.contiguous(x)
    output = binder.new(x.shape, x.strides, x.size)
    entry = _POWERS.get(node.params["exponent"]) if node.op is ops.power else None
    numbers = [] if entry else [float(node.params[name]) for name in NUMBERS.get(node.op, ())]
    binder.emit(entry or _SINGLE[node.op], (x, output, x.size, *numbers), (x,), output, divisible=True)
    return output


def _is_dense(view: View) -> bool:
    """Return whether the elements fill their memory from the first one on, in some order of the axes."""
    if view.source is not None:
        return False
    expected = 1
    for stride, length in sorted(zip(view.strides, view.shape, strict=True)):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return True


def _bind_pair(node: RecordedOp, binder: Binder) -> View:
    """Combine two operands, either of which may be repeated along axes."""
    views = [binder.view(operand) for operand in node.operands]
    views = [binder.contiguous(view) if view.source is not None else view for view in views]
    shape = node.output.shape
    repeated = [view.moved(lambda array: np.broadcast_to(array, shape)) for view in views]
    whole = [view for view in views if view.shape == shape and _is_dense(view)]
    if whole and not whole[0].is_contiguous:  # maps keep their order: axes are taken as they lie in memory
        order = [int(axis) for axis in np.argsort([-stride for stride in whole[0].strides], kind="stable")]
        output = binder.new(shape, whole[0].strides, whole[0].size)
    else:
        order, output = list(range(len(shape))), binder.new(shape)
    lengths = [shape[axis] for axis in order]
    strides = [tuple(view.strides[axis] for axis in order) for view in (*repeated, output)]
    joined, (of_a, of_b, _) = joined_axes(tuple(lengths), strides, _PAIR_AXES)
    if len(joined) > _PAIR_AXES:
        raise binder.refuse(
            f"combines operands of shapes {views[0].shape} and {views[1].shape}, repeated along too many axes"
        )
    binder.emit(_PAIRS[node.op], (*repeated, output, *joined, *of_a, *of_b), repeated, output)
    return output


def _bind_reshape(node: RecordedOp, binder: Binder) -> View:
    """See the same memory in another shape; where that cannot be, leave it to the reader to copy."""
    x, shape = binder.view(node.operands[0]), node.output.shape
    if x.source is None:
        try:
            return x.moved(lambda array: np.reshape(array, shape, copy=False))
        except ValueError:
            pass
    return View(x.buffer, x.offset, shape, row_strides(shape), x.source or x, x.itemsize)


def _bind_transpose(node: RecordedOp, binder: Binder) -> View:
    x = binder.view(node.operands[0])
    x = binder.contiguous(x) if x.source is not None else x
    return x.moved(lambda array: array.transpose(node.params["axes"]))


def _bind_getitem(node: RecordedOp, binder: Binder) -> View:
    """See a part of the memory; an index that picks elements one by one is refused."""
    index = node.params["index"]
    parts = index if isinstance(index, tuple) else (index,)
    if not all(part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer)) for part in parts):
        raise binder.refuse("picks elements by an array, which no entry point does")
    x = binder.view(node.operands[0])
    x = binder.contiguous(x) if x.source is not None else x
    # With an ellipsis NumPy gives a view also of a single element, and reads nothing.
    whole = parts if Ellipsis in parts else (*parts, Ellipsis)
    return x.moved(lambda array: array[whole])


def _bind_concatenate(node: RecordedOp, binder: Binder) -> View:
    output, start = binder.new(node.output.shape), 0
    axis = node.params.get("axis", 0) % len(output.shape)
    for operand in node.operands:
        part = binder.view(operand)
        part = part if part.source is None else binder.contiguous(part)
        index = (*[slice(None)] * axis, slice(start, start + part.shape[axis]))
        binder.copy(part, output.moved(lambda array, index=index: array[index]))  # type: ignore[misc]
        start += part.shape[axis]
    return output


def _bind_cast(node: RecordedOp, binder: Binder) -> View:
    """Nothing, as float32 is what there is."""
    if np.dtype(node.params["dtype"]) != np.float32:
        raise binder.refuse(f"makes {node.params['dtype']} of float32, which is all that a plan computes in")
    return binder.view(node.operands[0])


BINDINGS = {
    **dict.fromkeys(_SINGLE, _bind_single),
    **dict.fromkeys(_PAIRS, _bind_pair),
    ops.reshape: _bind_reshape,
    ops.transpose: _bind_transpose,
    ops.getitem: _bind_getitem,
    ops.concatenate: _bind_concatenate,
    ops.cast: _bind_cast,
}
