"""The kernels of quantized linear layers and convolutions at the seam."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinytorch.core.op import Array, Implementation, Op, Saved
from tinytorch.core.ops.spatial import Pair, channels_first
from tinytorch.perf.kernels.int8.convolution import convolved_maps
from tinytorch.perf.kernels.int8.matmul import rescaled_rows
from tinytorch.perf.kernels.int8.packing import kept_panels, whole_range
from tinytorch.perf.ops.affine import Scheme, range_parameters
from tinytorch.perf.ops.packed_codes import PanelLayout
from tinytorch.perf.ops.quantized import (
    GREATEST_DEPTH,
    Activations,
    check_channels,
    inside_range,
    quantized_conv2d,
    quantized_linear,
)
from tinytorch.perf.ops.weight_only import check_features

#: Depth up to which int32 holds sums of products of codes less their zero points, each at most 255^2.
_AFFINE_DEPTH = (2**31 - 1) // 255**2
_FLOAT = np.dtype(np.float32)


def takes(x: Array, length: int, symmetric: bool, zero_point: Array | None) -> bool:
    """Return whether the kernels do this product: float32, not empty, and no sum beyond int32."""
    greatest = GREATEST_DEPTH if symmetric and zero_point is None else _AFFINE_DEPTH
    return x.dtype == _FLOAT and x.size > 0 and length <= greatest


def given_parameters(
    x: Array, activations: Activations, symmetric: bool, scale: Array | None, zero_point: Array | None
) -> tuple[float, float] | None:
    """Return the scale and zero point that all of x shares; None if each row has its own.

    Raises:
        ValueError: if x shares one, and a number of it is not finite.
    """
    if scale is not None:
        return float(scale), 0.0 if zero_point is None else float(zero_point)
    if activations == "row":
        return None
    extremes = whole_range(x)
    if extremes is None:
        raise not_finite()
    step, offset = range_parameters(*extremes, Scheme(symmetric=symmetric))
    return float(step), float(offset)


def not_finite() -> ValueError:
    """Return the error of `affine.check_finite` for x."""
    return ValueError("x must be finite float32 numbers, but holds NaN, infinity or more than float32 can")


def _linear(
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
    """Return x W + b and what backward needs; ``x`` is one that `takes` accepts."""
    check_features(x, length, "quantized_linear")
    rows = x if x.ndim == 2 else x.reshape(-1, length)
    panels = packed.get("int8") or kept_panels(packed, codes, PanelLayout(bits, length, columns, group))
    shared = given_parameters(rows, activations, symmetric, x_scale, x_zero_point)
    output = rescaled_rows(rows, panels, scale, zero_point, bias, shared, symmetric)
    if output is None:
        raise not_finite()
    saved: Saved = ()
    if keep:
        inside = None if shared is None or x_scale is None else inside_range(x, *shared, symmetric)
        saved = (codes, scale, zero_point, bits, group, length, x.shape, inside)
    return output if x.ndim == 2 else output.reshape(*x.shape[:-1], columns), saved


def _conv2d(
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
    """Return the convolution and what backward needs; ``x`` is one that `takes` accepts, ``groups`` 1."""
    check_channels(x, length // (kernel[0] * kernel[1]))
    maps = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    panels = packed.get("int8") or kept_panels(packed, codes, PanelLayout(bits, length, columns, group))
    has_own = x_scale is None and activations == "row"
    shared = None if has_own else given_parameters(maps, activations, symmetric, x_scale, x_zero_point)
    geometry = (kernel, stride, padding, dilation)
    output = convolved_maps(maps, panels, scale, zero_point, bias, shared, symmetric, geometry)
    if output is None:
        raise not_finite()
    saved: Saved = ()
    if keep:
        inside = None if shared is None or x_scale is None else inside_range(maps, *shared, symmetric)
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        saved = (x, codes, scale, zero_point, bits, group, length, kernel, options, inside)
    return channels_first(output), saved


def _linear_forward(keep: bool, x: Array, *operands: Any, **params: Any) -> tuple[Array, Saved]:
    """Run the kernel; what `takes` does not accept goes to the op's reference."""
    taken = takes(x, params["length"], params["symmetric"], operands[2])
    return (_linear if taken else quantized_linear.reference.forward)(keep, x, *operands, **params)


def _conv2d_forward(keep: bool, x: Array, *operands: Any, **params: Any) -> tuple[Array, Saved]:
    """Run the kernel as `_linear_forward` does; groups of channels are the reference's too."""
    taken = params["groups"] == 1 and takes(x, params["length"], params["symmetric"], operands[2])
    return (_conv2d if taken else quantized_conv2d.reference.forward)(keep, x, *operands, **params)


#: Bit for bit the results of the references.
IMPLEMENTATIONS: dict[Op, Implementation] = {
    quantized_linear: Implementation("numba", _linear_forward, quantized_linear.reference.backward),
    quantized_conv2d: Implementation("numba", _conv2d_forward, quantized_conv2d.reference.backward),
}
