"""One matrix product, written in every way between a Python loop and the machine's peak, each with its reason."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring.memory import uncounted


def vectorized_matmul(a: Any, b: Any) -> Any:
    """Return the matrix product of two arrays or Tensors, computed by BLAS; a Tensor if one of them is a Tensor.

    Leading axes broadcast as in ``numpy.matmul``. A Tensor's product is recorded for its backward pass.

    Raises:
        ValueError: if one has fewer than two axes ("2D+"), or their inner lengths differ ("shape mismatch").

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import vectorized_matmul
        >>> vectorized_matmul(np.ones((2, 3)), np.ones((3, 4))).shape
        (2, 4)
        >>> vectorized_matmul(np.ones((2, 3)), np.ones((4, 3)))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ...shape mismatch...
    """
    _checked(np.shape(a.data if isinstance(a, Tensor) else a), np.shape(b.data if isinstance(b, Tensor) else b))
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return _as_tensor(a) @ b
    return np.matmul(a, b)


def _checked(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    if len(a) < 2 or len(b) < 2:
        raise ValueError(f"a and b must be 2D+ (two axes or more), but their shapes are {a} and {b}")
    if a[-1] != b[-2]:
        raise ValueError(f"a and b have a shape mismatch: {a} ends in {a[-1]}, but {b} needs {b[-2]} there")


def _checked_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    _checked(a, b)
    if len(a) != 2 or len(b) != 2:
        raise ValueError(f"a and b must be matrices here, but their shapes are {a} and {b}")


def _matrices(a: Any, b: Any) -> tuple[Array, Array]:
    """Return both as C-ordered float32 matrices, copied only if they are none."""
    _checked_matrices(np.shape(a), np.shape(b))
    return np.require(a, np.float32, ["C", "W"]), np.require(b, np.float32, ["C", "W"])


def python_loops(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Three loops of Python over lists: every multiply-add is some fifty instructions of the interpreter."""
    left, right = (np.asarray(x).tolist() for x in (a, b))
    _checked(np.shape(left), np.shape(right))
    out = [[0.0] * len(right[0]) for _ in left]
    for i in range(len(left)):
        for j in range(len(right[0])):
            total = 0.0
            for k in range(len(right)):
                total += left[i][k] * right[k][j]
            out[i][j] = total
    return np.array(out, np.float32)


def array_element_loops(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """The loops of `kernels.gemm.loop_orders.rows_columns_inner`, run by the interpreter.

    Each element becomes an object.
    """
    with uncounted():
        from tinytorch.perf.kernels.gemm import loop_orders

    left, right = _matrices(a, b)
    out = np.empty((left.shape[0], right.shape[1]), np.float32)
    loop_orders.rows_columns_inner.py_func(left, right, out)
    return out


def dot_products(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """One call for each element of the result: the inner loop is compiled, but walks down a column of ``b``."""
    left, right = _matrices(a, b)
    out = np.empty((left.shape[0], right.shape[1]), np.float32)
    for i in range(left.shape[0]):
        for j in range(right.shape[1]):
            out[i, j] = np.dot(left[i], right[:, j])
    return out


def tiled_matmul(a: Any, b: Any, tile_size: int = 64) -> Any:
    """Return the product of two matrices, computed in tiles of ``tile_size`` x ``tile_size`` with a call of BLAS each.

    As `vectorized_matmul`, it returns a Tensor, recorded for its backward pass, if one of them is a Tensor, else an
    array, in the dtype that their product has.

    The textbook says that tiles make a product faster. BLAS has tiles of its own, chosen for the caches, so cutting
    its work into pieces only adds calls, sums of the parts, and edges.

    Raises:
        ValueError: as `vectorized_matmul`, for other than two axes, and if ``tile_size`` is below 1.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration import tiled_matmul
        >>> a, b = np.ones((100, 80)), np.ones((80, 60))
        >>> np.array_equal(tiled_matmul(a, b, tile_size=32), a @ b)
        True
    """
    if tile_size < 1:
        raise ValueError(f"tile_size must be at least 1, not {tile_size}")
    left, right = (x if isinstance(x, Tensor) else np.asarray(x) for x in (a, b))
    _checked_matrices(left.shape, right.shape)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _tiled_tensors(_as_tensor(left), _as_tensor(right), tile_size)
    out = np.zeros((left.shape[0], right.shape[1]), np.result_type(left, right))
    for i in range(0, left.shape[0], tile_size):
        for j in range(0, right.shape[1], tile_size):
            block = out[i : i + tile_size, j : j + tile_size]
            for k in range(0, left.shape[1], tile_size):
                block += left[i : i + tile_size, k : k + tile_size] @ right[k : k + tile_size, j : j + tile_size]
    return out


def _as_tensor(x: Tensor | Array) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def _tiled_tensors(left: Tensor, right: Tensor, tile_size: int) -> Tensor:
    """Return the product of Tensors tile by tile, made of ops that autograd records."""
    if 0 in (*left.shape, *right.shape):
        return left @ right
    cuts = [
        [slice(start, start + tile_size) for start in range(0, length, tile_size)]
        for length in (left.shape[0], left.shape[1], right.shape[1])
    ]
    rows, inner, columns = cuts
    strips = [
        [functools.reduce(operator.add, (left[i, k] @ right[k, j] for k in inner)) for j in columns] for i in rows
    ]
    return apply(ops.concatenate, *(apply(ops.concatenate, *strip, axis=1) for strip in strips), axis=0)


def _compiled(name: str, a: npt.ArrayLike, b: npt.ArrayLike, *more: Any) -> Array:
    """Return the product of two matrices by a kernel of `kernels.gemm.loop_orders`."""
    with uncounted():
        from tinytorch.perf.kernels.gemm import loop_orders

    left, right = _matrices(a, b)
    out = np.empty((left.shape[0], right.shape[1]), np.float32)
    getattr(loop_orders, name)(left, right, out, *more)
    return out


def compiled_loops(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Three compiled loops in the order i, j, k: see `kernels.gemm.loop_orders.rows_columns_inner`."""
    return _compiled("rows_columns_inner", a, b)


def compiled_loops_by_rows(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Three compiled loops in the order i, k, j: see `kernels.gemm.loop_orders.rows_inner_columns`."""
    return _compiled("rows_inner_columns", a, b)


def register_tiles(a: npt.ArrayLike, b: npt.ArrayLike) -> Array:
    """Matrix product with register tiles that read ``b`` in place; the result must consist of whole tiles.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration.products import register_tiles
        >>> a, b = np.ones((48, 20), np.float32), np.ones((20, 96), np.float32)
        >>> np.allclose(register_tiles(a, b), a @ b)
        True
    """
    return _in_whole_tiles("in_register_tiles", a, b)


def cache_tiles(a: npt.ArrayLike, b: npt.ArrayLike, deep: int = 128) -> Array:
    """Matrix product with register tiles, ``deep`` rows of ``b`` at a time, so that these rows stay in a near cache.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration.products import cache_tiles
        >>> a, b = np.ones((48, 20), np.float32), np.ones((20, 96), np.float32)
        >>> np.allclose(cache_tiles(a, b, deep=8), a @ b)
        True
    """
    return _in_whole_tiles("in_cache_tiles", a, b, deep)


def packed_blocks(a: npt.ArrayLike, b: npt.ArrayLike, deep: int = 128) -> Array:
    """Matrix product with cache tiles, for which each ``deep`` rows of ``b`` are packed into panels first.

    Source: K. Goto and R. van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.acceleration.products import packed_blocks
        >>> a, b = np.ones((48, 20), np.float32), np.ones((20, 96), np.float32)
        >>> np.allclose(packed_blocks(a, b, deep=8), a @ b)
        True
    """
    return _in_whole_tiles("in_packed_blocks", a, b, deep)


def _in_whole_tiles(name: str, a: npt.ArrayLike, b: npt.ArrayLike, *more: int) -> Array:
    with uncounted():
        from tinytorch.perf.kernels.gemm.product_tiles import ROWS, WIDTH

    if min(more, default=1) < 1:
        raise ValueError(f"deep must be at least 1, not {more[0]}")
    rows, columns = np.shape(a)[0], np.shape(b)[-1]
    if rows % ROWS or columns % WIDTH:
        raise ValueError(f"a @ b must have whole tiles of {ROWS} x {WIDTH}, but has {rows} x {columns}")
    return _compiled(name, a, b, *more)


def blas(a: Array, b: Array) -> Array:
    """The BLAS that NumPy was built with: the same idea, in assembly, tuned for families of CPUs."""
    return np.matmul(a, b)
