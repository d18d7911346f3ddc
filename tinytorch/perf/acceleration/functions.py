"""Fused functions to call by name on arrays or Tensors: one pass over memory, no temporaries."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np

from tinytorch.core import dispatch, ops
from tinytorch.core.op import Array, Op, Shape
from tinytorch.core.spatial import Size, pair
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring.memory import uncounted
from tinytorch.perf.ops import images
from tinytorch.perf.ops.fused import bias_gelu, causal_softmax

#: An array or a Tensor; the result is of the same kind.
Values = TypeVar("Values", Array, Tensor)


def check_values(name: str, values: Any) -> None:
    """Raise TypeError, which names ``name``, unless ``values`` is a float32 or float64 array or such a Tensor."""
    if not isinstance(values, (np.ndarray, Tensor)) or values.dtype.char not in "fd":
        kind = getattr(values, "dtype", None) or type(values).__name__
        raise TypeError(f"{name} must be a float32 or float64 array or Tensor, not {kind}: use np.asarray(..., dtype)")


def run_compiled(op: Op, *inputs: Any, **params: Any) -> Any:
    """Return the output of op's compiled implementation, also outside of `accelerated`.

    It is a Tensor, with its place in the graph, if one of ``inputs`` is; otherwise an array.
    """
    chosen = kernel_implementations()[op]
    for value in inputs:
        if isinstance(value, Tensor):
            with dispatch.implementations({op: chosen}):
                return dispatch.apply(op, *inputs, **params)
    return chosen.forward(False, *inputs, **params)[0]


def unfused_gelu(x: Values) -> Values:
    """Return the GELU in its tanh form, one NumPy operation at a time: each writes a temporary of x's size.

    The honest expression of it: float32 stays float32, and the cube is two products, not a power.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import unfused_gelu
        >>> unfused_gelu(np.array([-1, 0, 1], np.float32)).round(3)
        array([-0.159,  0.   ,  0.841], dtype=float32)
    """
    check_values("x", x)
    # Python's floats take the array's dtype; NumPy's own float64 would widen it.
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    if isinstance(x, Tensor):
        return 0.5 * x * (1 + dispatch.apply(ops.tanh, inner))
    return 0.5 * x * (1 + np.tanh(inner))


def fused_gelu(x: Values, out: Array | None = None) -> Values:
    """Return the GELU in its tanh form, of x's shape and dtype, in one pass; float32 is compiled.

    The only memory it takes is that of the result, and none with ``out``. Source: D. Hendrycks and K. Gimpel,
    arXiv:1606.08415.

    Args:
        x: float32 or float64, any shape and strides.
        out: contiguous float32 array of x's shape to write to, for a contiguous float32 array ``x``.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
        ValueError: if ``out`` does not fit.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_gelu
        >>> x, out = np.array([-1, 0, 1], np.float32), np.empty(3, np.float32)
        >>> fused_gelu(x, out=out) is out
        True
        >>> out.round(3)
        array([-0.159,  0.   ,  0.841], dtype=float32)
    """
    check_values("x", x)
    if out is None:
        return run_compiled(ops.gelu, x)
    return _gelu_into(x, out)


def fused_bias_gelu(x: Values, bias: Values) -> Values:
    """Return the GELU of ``x + bias``, shape (..., features), without writing the sum; ``bias`` is (features,).

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if the bias is not of the length of x's last axis.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_bias_gelu, fused_gelu
        >>> x, bias = np.ones((2, 3), np.float32), np.array([0, 1, 2], np.float32)
        >>> np.allclose(fused_bias_gelu(x, bias), fused_gelu(x + bias))
        True
    """
    check_values("x", x)
    check_values("bias", bias)
    return run_compiled(bias_gelu, x, bias)


def fused_softmax(x: Values, axis: int = -1) -> Values:
    """Return e**x over its sum along ``axis``, of x's shape and dtype; each row is read from memory once.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_softmax
        >>> fused_softmax(np.zeros((1, 4), np.float32))
        array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    check_values("x", x)
    return run_compiled(ops.softmax, x, axis=axis)


def fused_causal_softmax(x: Values) -> Values:
    """Return the softmax of scores (..., T, S) where query t sees keys up to S - T + t; 0 where it does not look.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
        ValueError: if there are more queries than keys, or fewer than two axes.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_causal_softmax
        >>> fused_causal_softmax(np.zeros((2, 2), np.float32))  # the first query sees the first key alone
        array([[1. , 0. ],
               [0.5, 0.5]], dtype=float32)
    """
    check_values("x", x)
    return run_compiled(causal_softmax, x)


def fused_layer_norm(x: Values, weight: Values, bias: Values, epsilon: float = 1e-5) -> Values:
    """Return (x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, the variance the biased one.

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if weight or bias are not of the length of x's last axis.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_layer_norm
        >>> x, one, zero = np.array([[1, 3]], np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)
        >>> fused_layer_norm(x, one, zero).round(3)
        array([[-1.,  1.]], dtype=float32)
    """
    for name, values in (("x", x), ("weight", weight), ("bias", bias)):
        check_values(name, values)
    return run_compiled(ops.layer_norm, x, weight, bias, epsilon=epsilon)


def _gelu_into(x: Any, out: Array) -> Any:
    """Fill ``out`` and return it."""
    fits = isinstance(x, np.ndarray) and out.shape == x.shape and out.dtype == x.dtype == np.float32
    if not (fits and out.flags.c_contiguous and x.flags.c_contiguous and out.flags.writeable):
        raise ValueError(f"out must be a contiguous float32 array of shape {x.shape}, and x such an array too")
    with uncounted():
        from tinytorch.perf.kernels.pointwise import fill_gelu

    fill_gelu(x, out)
    return out


def fused_attention(q: Values, k: Values, v: Values, causal: bool = False) -> Values:
    """Return softmax(q k^T / sqrt(D)) v of shape (B, H, T, D) in blocks, with memory linear in T and S.

    float32 is compiled; float64 goes to the op's own NumPy. Source: T. Dao et al., FlashAttention, arXiv:2205.14135.

    Args:
        q: queries (B, H, T, D).
        k: keys (B, H, S, D).
        v: values (B, H, S, D).
        causal: hide later keys; the last query sees all of them.

    Raises:
        TypeError: if one is neither a float32 or float64 array nor such a Tensor.
        ValueError: if the shapes do not fit, or there are more queries than keys and it is causal.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_attention
        >>> q, k, v = (np.ones((1, 2, 5, 8), np.float32) for _ in range(3))
        >>> fused_attention(q, k, v, causal=True).shape
        (1, 2, 5, 8)
    """
    for name, values in (("q", q), ("k", k), ("v", v)):
        check_values(name, values)
    return run_compiled(ops.attention, q, k, v, causal=causal)


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

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import im2col_conv2d
        >>> x, weight = np.ones((1, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
        >>> found = im2col_conv2d(x, weight)
        >>> found.shape, float(found[0, 0, 0, 0])  # 27 products of ones
        ((1, 4, 6, 6), 27.0)
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


def im2col(x: Values, kernel_size: Size, stride: Size = 1, padding: Size = 0) -> Values:
    """Return the windows of images (N, C, H, W) as rows of a matrix (N oh ow, C kh kw), of x's dtype.

    Rows follow image, row and column; a row follows channel, row and column of its window, as the weights of a
    convolution lie: the product with ``weight.reshape(O, -1).T`` is the convolution. The matrix takes about kh kw times
    the memory of the images, which `im2col_conv2d` does not. A Tensor's is recorded for its backward, `col2im`.

    Args:
        x: images.
        kernel_size: rows and columns of a window, or one number for both.
        stride: positions from window to window.
        padding: zeros on each side.

    Raises:
        TypeError: if ``x`` is neither a float32 or float64 array nor such a Tensor.
        ValueError: if it is not 4D, a number is too small, or the window fits nowhere.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import im2col
        >>> im2col(np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3), kernel_size=2)
        array([[1., 2., 4., 5.],
               [2., 3., 5., 6.],
               [4., 5., 7., 8.],
               [5., 6., 8., 9.]], dtype=float32)
    """
    check_values("x", x)
    return _run(images.im2col, x, **_window(kernel_size, stride, padding))


def col2im(cols: Values, x_shape: Shape, kernel_size: Size, stride: Size = 1, padding: Size = 0) -> Values:
    """Return images of ``x_shape`` (N, C, H, W) whose elements are sums over the windows that hold them.

    It is the transpose of `im2col`, not its inverse: what several windows hold is added up as often. A Tensor's is
    recorded for its backward.

    Args:
        cols: rows (N oh ow, C kh kw), as `im2col` lays them out.
        x_shape: shape of the images.
        kernel_size, stride, padding: those of `im2col`.

    Raises:
        TypeError: if ``cols`` is neither a float32 or float64 array nor such a Tensor.
        ValueError: if ``cols`` has not the shape that the rest gives, or a number is too small.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import col2im
        >>> col2im(np.ones((4, 4), np.float32), (1, 1, 3, 3), kernel_size=2)[0, 0]  # windows that hold each element
        array([[1., 2., 1.],
               [2., 4., 2.],
               [1., 2., 1.]], dtype=float32)
    """
    check_values("cols", cols)
    shape = tuple(x_shape)
    if len(shape) != 4:
        raise ValueError(f"x_shape must be (N, C, H, W), not {x_shape!r}")
    return _run(images.col2im, cols, shape=shape, **_window(kernel_size, stride, padding))


def _window(kernel_size: Size, stride: Size, padding: Size) -> dict[str, tuple[int, int]]:
    return {
        "kernel": pair(kernel_size, "kernel_size"),
        "stride": pair(stride, "stride"),
        "padding": pair(padding, "padding", 0),
    }


def _run(op: Op, values: Any, **params: Any) -> Any:
    """Return an op's output: a Tensor of a Tensor, an array of an array."""
    return (
        dispatch.apply(op, values, **params)
        if isinstance(values, Tensor)
        else op.reference.forward(False, values, **params)[0]
    )
