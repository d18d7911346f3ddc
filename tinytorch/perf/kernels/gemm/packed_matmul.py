"""Our own float32 matrix product: packed panels, tiles in registers, and what follows the product in the same pass.

``out = activation(a @ b + bias) + residual``. The block of the output that was just computed is still in a near cache
when bias, activation and residual are applied, so they cost no pass over memory.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.kernels.gemm.packing import as_rows, pack_panel, padded, panel_start
from tinytorch.perf.kernels.gemm.product_tiles import LANES, ROWS, WIDTH, multiply_tile
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.compiling import kernel
from tinytorch.perf.kernels.runtime.vector_math import gelu, gelu_slope

Activation = Literal["none", "relu", "gelu"]
ACTIVATIONS: dict[str, int] = {"none": 0, "relu": 1, "gelu": 2}

#: Steps of the inner axis that a tile takes at a time: a panel of them fills a seventh of a second cache of 1 MiB.
_DEPTH = 768
#: Panels that share the rows of the left operand while these are in the first cache.
_GROUP = 2
#: Rows of one item of work.
_CHUNK = 256
#: Up to so many rows the right operand is read where it lies: packing it would take longer than the product.
_DIRECT_ROWS = 24
#: Floating-point operations of a core in a nanosecond, roughly, to tell whether work is worth a second thread.
FLOPS_PER_NS = 200.0

NOTHING = np.empty((0, 0), np.float32)
NO_BIAS = np.empty(0, np.float32)
_ONE, _ZERO = np.float32(1), np.float32(0)


@kernel
def add_line(line: Any, other: Any) -> None:
    """Add one row to another in place. Loops run from 0 to an array's size: LLVM makes vectors of those alone."""
    for i in range(line.size):
        line[i] += other[i]


@kernel
def relu_line(line: Any) -> None:
    """Apply max(x, 0) to a row in place; NaN stays NaN."""
    for i in range(line.size):
        line[i] = _ZERO if line[i] < 0 else line[i]


@kernel
def relu_slope_line(line: Any, slope: Any) -> None:
    """Fill ``slope`` with the derivative of `relu_line` at ``line``."""
    for i in range(line.size):
        slope[i] = _ONE if line[i] > 0 else _ZERO


@kernel
def gelu_line(line: Any) -> None:
    """Apply GELU to a row in place."""
    for i in range(line.size):
        line[i] = gelu(line[i])


@kernel
def gelu_slope_line(line: Any, slope: Any) -> None:
    """Apply GELU to a row in place and fill ``slope`` with its derivative."""
    for i in range(line.size):
        x = line[i]
        slope[i], line[i] = gelu_slope(x), gelu(x)


@kernel
def finish(
    out: Any,
    slope: Any,
    bias: Any,
    residual: Any,
    first_row: Any,
    last_row: Any,
    first: Any,
    last: Any,
    activation: Any,
) -> None:
    """Apply bias, activation and residual to a block of ``out``; fill that block of ``slope``, unless it is empty."""
    has_slope = slope.shape[0] > 0
    for row in range(first_row, last_row):
        line = out[row, first:last]
        if bias.size > 0:
            add_line(line, bias[first:last])
        if activation == 1:
            if has_slope:
                relu_slope_line(line, slope[row, first:last])
            relu_line(line)
        elif activation == 2:
            if has_slope:
                gelu_slope_line(line, slope[row, first:last])
            else:
                gelu_line(line)
        if residual.shape[0] > 0:
            add_line(line, residual[row, first:last])


@kernel
def tile_height(left: int) -> int:
    """Return the rows of the tallest tile that fits into the ``left`` ones."""
    if left >= ROWS:
        return ROWS
    if left >= 4:
        return 4
    return 2 if left >= 2 else 1


@kernel
def multiply_one(
    height: Any,
    width: Any,
    a: Any,
    ar: Any,
    at: Any,
    b: Any,
    b_step: Any,
    out: Any,
    row: Any,
    first: Any,
    count: Any,
    add: Any,
    edge: Any,
) -> None:
    """Multiply one tile; one that reaches beyond the last column goes through ``edge``, and what is real is copied."""
    columns = out.shape[1]
    if first + width * LANES <= columns:
        to = out.ctypes.data + 4 * (row * columns + first)
        multiply_tile(height, width, a, ar, at, b, b_step, to, columns, count, add)
        return
    multiply_tile(height, width, a, ar, at, b, b_step, edge.ctypes.data, WIDTH, count, 0)
    for i in range(height):
        for j in range(columns - first):
            out[row + i, first + j] = edge[i, j] + (out[row + i, first + j] if add else _ZERO)


@kernel
def multiply_group(
    a: Any,
    a_transposed: Any,
    b: Any,
    packed: Any,
    own: Any,
    place: Any,
    out: Any,
    rows: Any,
    panels: Any,
    depth: Any,
    edge: Any,
) -> None:
    """Multiply rows ``rows`` (first, last) and ``panels`` (first, last) for steps ``depth`` (first, last).

    ``place`` says where the panels are: 0 in ``packed``, 1 in ``own``, which begins with the first of them, 2 in ``b``
    itself, but for the last one if it needs filling, which then is in ``own``.
    """
    columns = out.shape[1]
    inner = a.shape[0] if a_transposed else a.shape[1]
    ar = 1 if a_transposed else a.shape[1]
    at = a.shape[1] if a_transposed else 1
    origin = LANES * panel_start(panels[0], columns)
    row = rows[0]
    while row < rows[1]:
        height = tile_height(rows[1] - row)
        left = a.ctypes.data + 4 * (row * ar + depth[0] * at)
        for panel in range(panels[0], panels[1]):
            first, last = LANES * panel_start(panel, columns), LANES * panel_start(panel + 1, columns)
            step = last - first
            if place == 0:
                right = packed.ctypes.data + 4 * (inner * first + depth[0] * step)
            elif place == 1:
                right = own.ctypes.data + 4 * (inner * (first - origin) + depth[0] * step)
            elif last > columns:
                right = own.ctypes.data + 4 * depth[0] * step
            else:
                step = columns
                right = b.ctypes.data + 4 * (depth[0] * step + first)
            width = (last - first) // LANES
            add = 1 if depth[0] > 0 else 0
            multiply_one(height, width, left, ar, at, right, step, out, row, first, depth[1] - depth[0], add, edge)
        row += height


@kernel
def product_items(
    start: Any,
    stop: Any,
    a: Any,
    a_transposed: Any,
    b: Any,
    b_transposed: Any,
    packed: Any,
    bias: Any,
    residual: Any,
    slope: Any,
    out: Any,
    activation: Any,
    place: Any,
) -> None:
    """Compute items ``start`` to ``stop`` of the product: an item is up to `_CHUNK` rows of up to `_GROUP` panels."""
    rows, columns = out.shape
    inner = a.shape[0] if a_transposed else a.shape[1]
    chunks = (rows + _CHUNK - 1) // _CHUNK
    panels = (columns + WIDTH - 1) // WIDTH
    blocks = (inner + _DEPTH - 1) // _DEPTH
    edge = np.empty((ROWS, WIDTH), np.float32)
    own = np.empty(inner * _GROUP * WIDTH if place > 0 else 0, np.float32)
    held = -1
    for item in range(start, stop):
        group, chunk = item // chunks, item % chunks
        first_panel, last_panel = group * _GROUP, min(panels, (group + 1) * _GROUP)
        first_column = LANES * panel_start(first_panel, columns)
        last_column = LANES * panel_start(last_panel, columns)
        if place > 0 and group != held:
            held = group
            for panel in range(first_panel, last_panel):
                first, last = LANES * panel_start(panel, columns), LANES * panel_start(panel + 1, columns)
                if place == 1:
                    at = inner * (first - first_column)
                    pack_panel(b, b_transposed, first, last, own[at : at + inner * (last - first)])
                elif last > columns:
                    pack_panel(b, b_transposed, first, last, own)
        first_row, last_row = chunk * _CHUNK, min(rows, (chunk + 1) * _CHUNK)
        some, of = (first_row, last_row), (first_panel, last_panel)
        for block in range(blocks):
            depth = (inner * block // blocks, inner * (block + 1) // blocks)
            multiply_group(a, a_transposed, b, packed, own, place, out, some, of, depth, edge)
        finish(out, slope, bias, residual, first_row, last_row, first_column, min(columns, last_column), activation)


def product(
    a: Array,
    b: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    activation: Activation = "none",
    slope: Array | None = None,
) -> Array:
    """Return ``activation(a @ b + bias) + residual`` of float32 ``a`` (rows, inner) and ``b`` (inner, columns).

    Any strides; transposes of C-ordered arrays are not copied. ``b`` is packed in this call, a block at a time, or read
    where it lies if there are few rows.

    Args:
        a, b: the operands.
        bias: (columns,), added to each row.
        residual: (rows, columns), added after the activation.
        activation: "none", "relu" or "gelu" (its tanh form).
        slope: C-ordered (rows, columns), is filled with the activation's derivative.

    Raises:
        ValueError: if shapes do not fit or a dtype is not float32.
    """
    _check(a, b.shape, (b.dtype,), bias, residual, activation)
    right, transposed = as_rows(b)
    place = 2 if len(a) <= _DIRECT_ROWS and not transposed else 1
    return _run(a, right, transposed, NO_BIAS, b.shape[1], bias, residual, activation, slope, place)


def packed_product(
    a: Array,
    panels: Array,
    columns: int,
    bias: Array | None = None,
    residual: Array | None = None,
    activation: Activation = "none",
) -> Array:
    """Return what `product` does for a right operand that `packing.pack` laid out before as ``panels``.

    Raises:
        ValueError: also if ``panels`` are not those of a matrix (inner, ``columns``).
    """
    _check(a, (a.shape[-1], columns), (panels.dtype,), bias, residual, activation)
    if panels.shape != (a.shape[1] * padded(columns),) or not panels.flags.c_contiguous:
        raise ValueError(
            f"panels must be the {a.shape[1] * padded(columns)} floats of a packed matrix {(a.shape[1], columns)}, "
            f"not of shape {panels.shape}"
        )
    return _run(a, NOTHING, False, panels, columns, bias, residual, activation, None, 0)


def _check(
    a: Array,
    shape: tuple[int, ...],
    dtypes: tuple[np.dtype[np.generic], ...],
    bias: Array | None,
    residual: Array | None,
    activation: str,
) -> None:
    if a.ndim != 2 or len(shape) != 2 or a.shape[1] != shape[0]:
        raise ValueError(f"a and b must have shapes (rows, inner) and (inner, columns), not {a.shape} and {shape}")
    given = [array.dtype for array in (a, bias, residual) if array is not None]
    if any(dtype != np.float32 for dtype in (*given, *dtypes)):
        raise ValueError(f"operands must be float32, not {', '.join(str(dtype) for dtype in (*given, *dtypes))}")
    if bias is not None and bias.shape != shape[1:]:
        raise ValueError(f"bias must have shape {shape[1:]}, not {bias.shape}")
    if residual is not None and residual.shape != (len(a), shape[1]):
        raise ValueError(f"residual must have shape {(len(a), shape[1])}, not {residual.shape}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {activation!r}")


def _run(
    a: Array,
    right: Array,
    transposed: bool,
    panels: Array,
    columns: int,
    bias: Array | None,
    residual: Array | None,
    activation: str,
    slope: Array | None,
    place: int,
) -> Array:
    rows, inner = a.shape
    # An empty sum is zero, which no tile would write.
    out = np.empty((rows, columns), np.float32) if inner else np.zeros((rows, columns), np.float32)
    left, left_transposed = as_rows(a)
    chunks = -(-rows // _CHUNK)
    items = chunks * groups_of(columns)
    threads.split(
        product_items,
        items,
        2.0 * min(rows, _CHUNK) * inner * _GROUP * WIDTH / FLOPS_PER_NS,
        left,
        left_transposed,
        right,
        transposed,
        writable(panels),
        NO_BIAS if bias is None else writable(bias),
        NOTHING if residual is None else writable(residual),
        NOTHING if slope is None else slope,
        out,
        ACTIVATIONS[activation],
        place,
    )
    return out


def groups_of(columns: int) -> int:
    """Return how many groups of panels ``columns`` take: the items of a product of up to `_CHUNK` rows."""
    return -(-columns // (_GROUP * WIDTH))


def writable(array: Array) -> Array:
    """Return the array in the one layout that kernels are compiled for, copied if it has another."""
    return array if array.flags.c_contiguous and array.flags.writeable else np.array(array, order="C", copy=True)
