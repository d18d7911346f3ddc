"""Convolution to call by name, on arrays or Tensors: compiled, in blocks of windows."""

from __future__ import annotations

from tinytorch.core import ops
from tinytorch.core.spatial import Size, pair
from tinytorch.perf.acceleration.by_name import Values, check_values, run_compiled


def im2col_conv2d(
    x: Values,
    weight: Values,
    bias: Values | None = None,
    stride: Size = 1,
    padding: Size = 0,
    dilation: Size = 1,
    groups: int = 1,
) -> Values:
    """Return the cross-correlation (N, O, oh, ow) as a product of windows with weights.

    The rows of the im2col matrix are read where they lie in the image, so that the matrix is never made. float32 is
    compiled; float64 goes to the op's own NumPy.

    Args:
        x: images (N, C, H, W).
        weight: windows (O, C / groups, kh, kw).
        bias: (O,), or None.
        stride: positions from window to window, for rows and columns.
        padding: zeros on each side.
        dilation: positions from tap to tap.
        groups: parts of the channels that do not mix.

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if the shapes do not fit, or a number is too small.
        ModuleNotFoundError: if Numba is not installed.
    """
    inputs = (x, weight) if bias is None else (x, weight, bias)
    for name, values in zip(("x", "weight", "bias"), inputs, strict=False):
        check_values(name, values)
    if groups < 1:
        raise ValueError(f"groups must be at least 1, not {groups}")
    return run_compiled(
        ops.conv2d,
        *inputs,
        stride=pair(stride, "stride"),
        padding=pair(padding, "padding", 0),
        dilation=pair(dilation, "dilation"),
        groups=groups,
    )
