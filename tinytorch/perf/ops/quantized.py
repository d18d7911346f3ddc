"""Products of 8-bit codes with exact int32 sums: the integer product, and the ops of quantized layers."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np

from tinytorch.core import ops
from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Work
from tinytorch.core.ops.elementwise import column_sums
from tinytorch.core.ops.spatial import Pair, channels_first, channels_last, output_positions, taps
from tinytorch.perf.ops.affine import Scheme, check_finite, encode, range_parameters
from tinytorch.perf.ops.packed_codes import as_matrix, unpack
from tinytorch.perf.ops.weight_only import check_features, linear_macs, matrix_of, weight_backward

#: Terms whose sum float32 holds exactly whatever the order: each is at most 2^14, and 2^14 · 1,024 = 2^24.
EXACT_DEPTH = 1024
#: Terms whose sum an int32 holds whatever the codes.
GREATEST_DEPTH = 2**31 // 2**14 - 1
#: Rows of a, and columns of b, that are float32 at a time: with a depth of 1,024, 4 MiB and 2 MiB.
_FLOAT_ROWS, _FLOAT_COLUMNS = 1024, 512


def check_operands(a: Array, b: Array) -> None:
    """Raise ValueError unless ``a`` and ``b`` are int8 matrices whose product int32 holds whatever their codes."""
    for name, matrix in (("a", a), ("b", b)):
        if matrix.dtype != np.int8 or matrix.ndim != 2:
            raise ValueError(f"{name} must be an int8 matrix, not {matrix.dtype} of shape {matrix.shape}")
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"b must have {a.shape[1]} rows for a of shape {a.shape}, but its shape is {b.shape}")
    depth = len(b)
    if depth > GREATEST_DEPTH:
        raise ValueError(f"b must have at most {GREATEST_DEPTH:,} rows, so that int32 holds the sums, not {depth:,}")


def integer_product(a: Array, b: Array) -> Array:
    """Return the exact int32 product of int8 matrices (rows, depth) and (depth, columns).

    NumPy's own integer product is a scalar loop. This one lets BLAS multiply blocks as float32, which hold every sum of
    1,024 products of codes exactly (2^24), and adds the blocks up as int32.

    Raises:
        ValueError: if a dtype is not int8, shapes do not fit, or depth is above 131,071, where int32 could overflow.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.quantization import integer_product
        >>> a, b = np.full((1, 1000), 127, np.int8), np.full((1000, 1), 127, np.int8)
        >>> integer_product(a, b)  # 1000 times 127 squared
        array([[16129000]], dtype=int32)
    """
    check_operands(a, b)
    depth, columns = b.shape
    output = np.zeros((len(a), columns), np.int32)
    for row, top in itertools.product(range(0, len(a), _FLOAT_ROWS), range(0, depth, EXACT_DEPTH)):
        rows, inner = slice(row, row + _FLOAT_ROWS), slice(top, top + EXACT_DEPTH)
        left = a[rows, inner].astype(np.float32)
        for first in range(0, columns, _FLOAT_COLUMNS):
            block = slice(first, first + _FLOAT_COLUMNS)
            output[rows, block] += np.dot(left, b[inner, block].astype(np.float32)).astype(np.int32)
    return output


#: What shares an activation's scale: a ``row`` (a position of a sequence, an image of a convolution), so that a result
#: does not depend on what else is in the batch; or the whole ``tensor`` of a call.
Activations = Literal["row", "tensor"]

#: Codes of unrolled windows that a convolution holds at a time.
_WINDOWS = 65_536
#: Numbers that are quantized at a time, and sums that are rescaled; or an eighth as many sums as there are weights, if
#: that is more, so that what is beside the codes (at most four arrays of that size) stays below what they save.
_NUMBERS, _SHARE = 8_192, 8
#: Rows that are multiplied at a time, at least: each time the weight is read anew.
_ROWS = 32


def activation_parameters(
    rows: Array, activations: Activations, symmetric: bool, scale: Array | None, zero_point: Array | None
) -> tuple[Array, Array]:
    """Return scale (float32) and zero point (int32) of (rows, columns): each (rows, 1), or (1, 1).

    With a ``scale`` (static) it is that. Else (dynamic) they come from the smallest and largest number of each row, or
    of all, by `range_parameters` with 8 bits.

    Raises:
        ValueError: if a number is NaN or infinite, whose code would be a guess.
    """
    axis = None if activations == "tensor" or scale is not None else 1
    low = rows.min(axis=axis, keepdims=True, initial=0)
    high = rows.max(axis=axis, keepdims=True, initial=0)
    check_finite(low, high, "x")
    if scale is None:
        return range_parameters(low, high, Scheme(symmetric=symmetric))
    offset = np.zeros((1, 1), np.int32) if zero_point is None else zero_point.astype(np.int32).reshape(1, 1)
    return scale.reshape(1, 1), offset


def rescaled_product(
    a: Array, a_scale: Array, a_zero: Array | None, b: Array, b_scale: Array, b_zero: Array | None, group: int | None
) -> Array:
    """Return float32 (rows, columns): the product of what codes a (rows, depth) and b (depth, columns) stand for.

    Σ s_a (a − z_a) s_b (b − z_b) = s_a s_b (Σ a b − z_a Σ b − z_b Σ a + depth z_a z_b): the sums over the depth are
    of integers and exact. Scales of groups along the depth make one such product for each group.

    Args:
        a_scale, a_zero: (rows, 1) or (1, 1); ``a_zero`` None for 0.
        b_scale, b_zero: (1, 1) or (1, columns), or with ``group`` (groups, columns).
    """
    depth = len(b)
    step = group or depth
    output: Array | None = None
    for index, top in enumerate(range(0, depth, step)):
        part = slice(top, top + step)
        sums = integer_product(a[:, part], b[part])
        if a_zero is not None or b_zero is not None:
            zero = None if b_zero is None else b_zero[index].astype(np.int64)
            sums = _corrected(sums, a[:, part], a_zero, b[part], zero)
        scaled = sums.astype(np.float32)
        scaled *= b_scale[index]
        output = scaled if output is None else np.add(output, scaled, out=output)
    assert output is not None
    output *= a_scale
    return output


def _corrected(sums: Array, a: Array, a_zero: Array | None, b: Array, b_zero: Array | None) -> Array:
    """Return the sums of products without the zero points; int64, because the four terms may pass int32, as float32."""
    exact = sums.astype(np.int64)
    if a_zero is not None:
        exact -= a_zero * b.sum(axis=0, dtype=np.int64)
    if b_zero is not None:
        exact -= b_zero * a.sum(axis=1, dtype=np.int64, keepdims=True)
        if a_zero is not None:
            exact += len(b) * a_zero.astype(np.int64) * b_zero
    return exact


def _linear_forward(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    x_scale: Array | None,
    x_zero_point: Array | None,
    *,
    activations: Activations,
    symmetric: bool,
    bits: int,
    group: int | None,
    length: int,
    columns: int,
    packed: dict[str, Any],
) -> tuple[Array, Saved]:
    check_features(x, length, "quantized_linear")
    rows = x.reshape(-1, length)
    a_scale, a_zero = activation_parameters(rows, activations, symmetric, x_scale, x_zero_point)
    a = _encoded(rows, a_scale, a_zero, Scheme(symmetric=symmetric))
    weight = (_numbers(codes, bits, group, length, columns), scale, zero_point)
    output = np.empty((len(rows), columns), np.float32)
    step = max(_ROWS, _NUMBERS // columns, length // _SHARE)
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        zero = None if symmetric else _rows(a_zero, some)
        output[some] = rescaled_product(a[some], _rows(a_scale, some), zero, *weight, group)
    if bias is not None:
        output += bias
    saved: Saved = ()
    if keep:
        inside = None if x_scale is None else inside_range(rows, a_scale, a_zero, symmetric).reshape(x.shape)
        saved = (codes, scale, zero_point, bits, group, length, x.shape, inside)
    return output.reshape(*x.shape[:-1], columns), saved


def _numbers(codes: Array, bits: int, group: int | None, length: int, columns: int) -> Array:
    """Return the int8 codes of a weight (length, columns), however they lie."""
    return unpack(as_matrix(codes, bits, length, columns, group), bits, length)


def _rows(values: Array, some: slice) -> Array:
    """Return the part of (rows, 1) that belongs to some rows; (1, 1), which belongs to all, as it is."""
    return values if len(values) == 1 else values[some]


def _encoded(rows: Array, scale: Array, zero_point: Array, scheme: Scheme) -> Array:
    """Return the codes of (rows, columns), a few rows at a time."""
    codes = np.empty(rows.shape, np.int8)
    step = max(1, _NUMBERS // max(rows.shape[1], 1))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        codes[some] = encode(rows[some], _rows(scale, some), _rows(zero_point, some), scheme)
    return codes


def inside_range(rows: Array, scale: Any, zero_point: Any, symmetric: bool) -> Array:
    """Return which numbers have a code of their own: a fixed range clips the others."""
    scheme = Scheme(symmetric=symmetric)
    level = np.rint(rows / np.asarray(scale, np.float32)) + zero_point
    return np.asarray((level >= scheme.low) & (level <= scheme.high))


def _linear_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Pass the gradient straight through the rounding of x; what a fixed range clipped gets none.

    Codes, scales and zero points have no gradient; the bias has.
    """
    *weight, inside = saved
    rows = gradient.reshape(-1, gradient.shape[-1])
    down = None
    if needs[0]:
        down = weight_backward(rows, tuple(weight))
        if inside is not None:
            down *= inside
    return down, None, None, None, column_sums(rows) if needs[4] else None, None, None


def _input_operations(call: Call) -> int:
    """Operations that quantize each number of x: range (only if dynamic), quotient, rounding; and those of a zero."""
    return (3 if call.inputs[5].dtype is None else 2) + (0 if call.params["symmetric"] else 1)


def _output_operations(call: Call) -> int:
    """Operations on each sum: two scales, the bias, and two for each side's zero points."""
    zeros = (not call.params["symmetric"]) + (call.inputs[3].dtype is not None)
    return 2 + (call.inputs[4].dtype is not None) + 2 * zeros


def _linear_work(call: Call) -> Work:
    """Integer products at one MAC each; elementwise what quantizes the input and rescales the sums."""
    if call.phase == "forward":
        elementwise = _input_operations(call) * call.inputs[0].size + _output_operations(call) * call.output.size
        return Work(linear_macs(call), elementwise, integer_macs=linear_macs(call))
    macs = linear_macs(call) if call.needs[0] else 0
    weights = call.inputs[0].shape[-1] * call.output.shape[-1] if call.needs[0] else 0
    return Work(macs, weights + (call.output.size if call.needs[4] else 0))


def _conv2d_forward(
    keep: bool,
    x: Array,
    codes: Array,
    scale: Array,
    zero_point: Array | None,
    bias: Array | None,
    x_scale: Array | None,
    x_zero_point: Array | None,
    *,
    activations: Activations,
    symmetric: bool,
    bits: int,
    group: int | None,
    length: int,
    columns: int,
    packed: dict[str, Any],
    kernel: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
    groups: int,
) -> tuple[Array, Saved]:
    channels, out = length // (kernel[0] * kernel[1]) * groups, columns
    check_channels(x, channels)
    positions = output_positions(x.shape[2:], kernel, stride, padding, dilation)
    maps = channels_last(x)
    images = maps.reshape(len(maps), math.prod(maps.shape[1:]))
    a_scale, a_zero = activation_parameters(images, activations, symmetric, x_scale, x_zero_point)
    b = _numbers(codes, bits, group, length, columns)
    output = np.empty((len(maps), *positions, out), np.float32)
    step = max(1, _WINDOWS // (positions[0] * positions[1] * length * groups))
    for start in range(0, len(maps), step):
        some = slice(start, start + step)
        each_scale, each_zero = _rows(a_scale, some), _rows(a_zero, some)
        a = encode(images[some], each_scale, each_zero, Scheme(symmetric=symmetric))
        a = _padded(a.reshape(-1, *maps.shape[1:]), padding, each_zero)
        row_scale, row_zero = (_for_positions(values, positions) for values in (each_scale, each_zero))
        zero = None if symmetric else row_zero
        rows = output[some].reshape(-1, out)
        for index, windows in enumerate(_windows(a, kernel, stride, dilation, positions, groups)):
            part = slice(index * out // groups, (index + 1) * out // groups)
            weight = (b[:, part], _columns(scale, part), None if zero_point is None else _columns(zero_point, part))
            rows[:, part] = rescaled_product(windows, row_scale, zero, *weight, group)
    if bias is not None:
        output += bias
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    saved: Saved = ()
    if keep:
        inside = None if x_scale is None else inside_range(images, a_scale, a_zero, symmetric).reshape(maps.shape)
        saved = (x, codes, scale, zero_point, bits, group, length, kernel, geometry, inside)
    return channels_first(output), saved


def check_channels(x: Array, channels: int) -> None:
    """Raise ValueError unless x is images of ``channels`` channels."""
    if x.ndim != 4 or x.shape[1] != channels:
        raise ValueError(f"quantized_conv2d needs an input x of shape (N, {channels}, H, W), not {x.shape}")


def _for_positions(values: Array, positions: Pair) -> Array:
    """Return what belongs to each image for each of its windows: (rows, 1), or (1, 1) as it is."""
    return values if len(values) == 1 else np.repeat(values, positions[0] * positions[1], axis=0)


def _columns(values: Array, columns: slice) -> Array:
    return values if values.shape[1] == 1 else values[:, columns]


def _padded(codes: Array, padding: Pair, zero_point: Array) -> Array:
    """Return (N, H, W, C) with the code of 0 around each image."""
    rows, columns = padding
    if not rows and not columns:
        return codes
    count, height, width, channels = codes.shape
    wide = np.empty((count, height + 2 * rows, width + 2 * columns, channels), np.int8)
    wide[...] = zero_point[:, :, None, None]
    wide[:, rows : rows + height, columns : columns + width] = codes
    return wide


def _windows(maps: Array, kernel: Pair, stride: Pair, dilation: Pair, positions: Pair, groups: int) -> list[Array]:
    """Return for each group of channels every window of (N, H, W, C) as a row: (N oh ow, kh kw C / groups)."""
    stacked = np.stack(taps(maps, kernel, stride, dilation, positions), axis=3)
    count, high, wide, places, channels = stacked.shape
    grouped = stacked.reshape(count * high * wide, places, groups, channels // groups)
    return [grouped[:, :, index].reshape(len(grouped), -1) for index in range(groups)]


def convolution_weight(matrix: Array, kernel: Pair) -> Array:
    """Return (kh kw C / groups, O) as weights (O, C / groups, kh, kw)."""
    return matrix.reshape(*kernel, -1, matrix.shape[1]).transpose(3, 2, 0, 1)


def _conv2d_backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Pass the gradient straight through the rounding of x, as `quantized_linear` does.

    The float convolution of the dequantized weight is run again for what its backward needs.
    """
    x, codes, scale, zero_point, bits, group, length, kernel, geometry, inside = saved
    down = None
    if needs[0]:
        matrix = as_matrix(codes, bits, length, gradient.shape[1], group)
        weight = convolution_weight(matrix_of(matrix, scale, zero_point, bits, group, length), kernel)
        _, kept = ops.conv2d.reference.forward(True, x, weight, **geometry)
        down = ops.conv2d.reference.backward(gradient, kept, (True, False), False)[0]
        if inside is not None and down is not None:
            down = down * channels_first(inside)
    rows = channels_last(gradient).reshape(-1, gradient.shape[1])
    return down, None, None, None, column_sums(rows) if needs[4] else None, None, None


def _conv2d_work(call: Call) -> Work:
    """Window times channels of a group for each output, forward; backward twice that (see `_conv2d_backward`)."""
    macs = call.output.size * call.params["length"]
    if call.phase == "forward":
        elementwise = _input_operations(call) * call.inputs[0].size + _output_operations(call) * call.output.size
        return Work(macs, elementwise, integer_macs=macs)
    return Work(2 * macs if call.needs[0] else 0, call.output.size if call.needs[4] else 0)


#: x W + b with x quantized inside the op and int32 sums. Operands: x float32 (..., length); codes int8 (length, out),
#: or uint8 packed along the first axis, or either as panels (`PanelLayout`); scale float32 (1, 1), (1, out) or
#: (groups, out); zero_point int8 of that shape or None; bias (out,) or None; x_scale and x_zero_point of shape (), both
#: None if dynamic. Params: activations, symmetric (of x), bits, group (or None), length, columns (out), and ``packed``,
#: a kernel's memory (`Codes.packed`).
quantized_linear = Op("quantized_linear", _linear_forward, _linear_backward, _linear_work)
#: The same of images: x (N, C, H, W), codes (kh kw C / groups, out); also kernel, stride, padding, dilation and groups.
quantized_conv2d = Op("quantized_conv2d", _conv2d_forward, _conv2d_backward, _conv2d_work)
