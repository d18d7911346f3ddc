"""Fused functions to call by name on arrays or Tensors: one pass over memory, no temporaries.

Each returns a Tensor, with its place in the graph, if one of its operands is a Tensor, otherwise an array. float32 is
compiled; float64 goes to the op's own NumPy. Operands of other kinds and dtypes raise TypeError, shapes that do not fit
ValueError.
"""

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


def check_values(**operands: Any) -> None:
    """Raise TypeError, which names the operand, unless each is a float32 or float64 array or such a Tensor."""
    for name, values in operands.items():
        if not isinstance(values, (np.ndarray, Tensor)) or values.dtype.char not in "fd":
            kind = getattr(values, "dtype", None) or type(values).__name__
            raise TypeError(
                f"{name} must be a float32 or float64 array or Tensor, not {kind}: use np.asarray(..., dtype)"
            )


def run_compiled(op: Op, *inputs: Any, **params: Any) -> Any:
    """Return the output of op's compiled implementation, also outside of `accelerated`."""
    chosen = kernel_implementations()[op]
    for value in inputs:
        if isinstance(value, Tensor):
            with dispatch.implementations({op: chosen}):
                return dispatch.apply(op, *inputs, **params)
    return chosen.forward(False, *inputs, **params)[0]


def unfused_gelu(x: Values) -> Values:
    """Return the GELU in its tanh form with one NumPy operation after another, each of which writes a temporary array.

    It is a fair baseline: float32 stays float32, and the cube is two products instead of a power.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import unfused_gelu
        >>> unfused_gelu(np.array([-1, 0, 1], np.float32)).round(3)
        array([-0.159,  0.   ,  0.841], dtype=float32)
    """
    check_values(x=x)
    # Python's floats take the array's dtype; NumPy's own float64 would widen it.
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
    if isinstance(x, Tensor):
        return 0.5 * x * (1 + dispatch.apply(ops.tanh, inner))
    return 0.5 * x * (1 + np.tanh(inner))


def fused_gelu(x: Values, out: Array | None = None) -> Values:
    """Return the GELU in its tanh form in one pass; it allocates only the result, or nothing with ``out``.

    ``out`` must be a contiguous float32 array of the shape of ``x``, and ``x`` such an array, too. Source: D. Hendrycks
    and K. Gimpel, arXiv:1606.08415.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_gelu
        >>> x, out = np.array([-1, 0, 1], np.float32), np.empty(3, np.float32)
        >>> fused_gelu(x, out=out) is out
        True
        >>> out.round(3)
        array([-0.159,  0.   ,  0.841], dtype=float32)
    """
    check_values(x=x)
    if out is None:
        return run_compiled(ops.gelu, x)
    return _gelu_into(x, out)


def _gelu_into(x: Any, out: Array) -> Any:
    fits = isinstance(x, np.ndarray) and out.shape == x.shape and out.dtype == x.dtype == np.float32
    if not (fits and out.flags.c_contiguous and x.flags.c_contiguous and out.flags.writeable):
        raise ValueError(f"out must be a contiguous float32 array of shape {x.shape}, and x such an array too")
    with uncounted():
        from tinytorch.perf.kernels.pointwise import fill_gelu

    fill_gelu(x, out)
    return out


def fused_bias_gelu(x: Values, bias: Values) -> Values:
    """Return the GELU of ``x + bias``, shape (..., features), without writing the sum; ``bias`` is (features,).

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_bias_gelu, fused_gelu
        >>> x, bias = np.ones((2, 3), np.float32), np.array([0, 1, 2], np.float32)
        >>> np.allclose(fused_bias_gelu(x, bias), fused_gelu(x + bias))
        True
    """
    check_values(x=x, bias=bias)
    return run_compiled(bias_gelu, x, bias)


def fused_softmax(x: Values, axis: int = -1) -> Values:
    """Return the softmax along ``axis``, with the shape and dtype of ``x``; it reads each row from memory once.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_softmax
        >>> fused_softmax(np.zeros((1, 4), np.float32))
        array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """
    check_values(x=x)
    return run_compiled(ops.softmax, x, axis=axis)


def fused_causal_softmax(x: Values) -> Values:
    """Return the causal softmax of scores (..., T, S): query t sees keys up to S - T + t, and later keys get 0.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_causal_softmax
        >>> fused_causal_softmax(np.zeros((2, 2), np.float32))  # the first query sees the first key alone
        array([[1. , 0. ],
               [0.5, 0.5]], dtype=float32)
    """
    check_values(x=x)
    return run_compiled(causal_softmax, x)


def fused_layer_norm(x: Values, weight: Values, bias: Values, epsilon: float = 1e-5) -> Values:
    """Return (x - mean) / sqrt(variance + epsilon) * weight + bias over the last axis, the variance the biased one.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_layer_norm
        >>> x, one, zero = np.array([[1, 3]], np.float32), np.ones(2, np.float32), np.zeros(2, np.float32)
        >>> fused_layer_norm(x, one, zero).round(3)
        array([[-1.,  1.]], dtype=float32)
    """
    check_values(x=x, weight=weight, bias=bias)
    return run_compiled(ops.layer_norm, x, weight, bias, epsilon=epsilon)


def fused_attention(q: Values, k: Values, v: Values, causal: bool = False) -> Values:
    """Return softmax(q k^T / sqrt(D)) v of shape (B, H, T, D) in blocks, with memory linear in T and S.

    ``q`` is (B, H, T, D), ``k`` and ``v`` are (B, H, S, D). ``causal`` hides later keys, but the last query sees all of
    them. Source: T. Dao et al., FlashAttention, arXiv:2205.14135.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import fused_attention
        >>> q, k, v = (np.ones((1, 2, 5, 8), np.float32) for _ in range(3))
        >>> fused_attention(q, k, v, causal=True).shape
        (1, 2, 5, 8)
    """
    check_values(q=q, k=k, v=v)
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
    """Return the cross-correlation (N, O, oh, ow) of images (N, C, H, W) with weights (O, C / groups, kh, kw).

    It is a product of windows with weights. The rows of the im2col matrix are read where they lie in the image, so that
    the matrix is never made. ``stride`` is from window to window, ``dilation`` from tap to tap, ``padding`` the zeros
    on each side, for rows and columns.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import im2col_conv2d
        >>> x, weight = np.ones((1, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
        >>> output = im2col_conv2d(x, weight)
        >>> output.shape, float(output[0, 0, 0, 0])  # 27 products of ones
        ((1, 4, 6, 6), 27.0)
    """
    inputs = {"x": x, "weight": weight} | ({} if bias is None else {"bias": bias})
    check_values(**inputs)
    if groups < 1:
        raise ValueError(f"groups must be at least 1, not {groups}")
    window = {"stride": pair(stride, "stride"), "padding": pair(padding, "padding", 0)}
    return run_compiled(ops.conv2d, *inputs.values(), **window, dilation=pair(dilation, "dilation"), groups=groups)


def im2col(x: Values, kernel_size: Size, stride: Size = 1, padding: Size = 0) -> Values:
    """Return the windows of images (N, C, H, W) as rows of a matrix (N oh ow, C kh kw), of x's dtype.

    Rows follow image, row and column; a row follows channel, row and column of its window, as the weights of a
    convolution lie: the product with ``weight.reshape(O, -1).T`` is the convolution. The matrix takes about kh kw times
    the memory of the images; `im2col_conv2d` does not store it. Its gradient is `col2im`.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import im2col
        >>> im2col(np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3), kernel_size=2)
        array([[1., 2., 4., 5.],
               [2., 3., 5., 6.],
               [4., 5., 7., 8.],
               [5., 6., 8., 9.]], dtype=float32)
    """
    check_values(x=x)
    return _run(images.im2col, x, **_window(kernel_size, stride, padding))


def col2im(cols: Values, x_shape: Shape, kernel_size: Size, stride: Size = 1, padding: Size = 0) -> Values:
    """Return images of ``x_shape`` (N, C, H, W) whose elements are sums over the windows that hold them.

    It is the transpose of `im2col`, not its inverse: an element that k windows contain is added k times. ``cols`` are
    rows (N oh ow, C kh kw), as `im2col` lays them out.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import col2im
        >>> col2im(np.ones((4, 4), np.float32), (1, 1, 3, 3), kernel_size=2)[0, 0]  # windows that hold each element
        array([[1., 2., 1.],
               [2., 4., 2.],
               [1., 2., 1.]], dtype=float32)
    """
    check_values(cols=cols)
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
    """Return an op's output, by NumPy: a Tensor of a Tensor, an array of an array."""
    if isinstance(values, Tensor):
        return dispatch.apply(op, values, **params)
    return op.reference.forward(False, values, **params)[0]
