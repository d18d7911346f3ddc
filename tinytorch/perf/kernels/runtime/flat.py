"""Arrays as kernels see them: flat, in the order of their memory, whatever their axes; or what lies at an address."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, from_dtype, types
from numba.extending import intrinsic

from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime.compiling import kernel

#: What kernels take; to compare with it takes a third of the time that a comparison with the type takes.
FLOAT32 = np.dtype(np.float32)
#: Numbers of a single map up to which a kernel, which takes them one by one, is done before NumPy's calls are.
SMALL = 1_000


def dense(x: Array) -> Array:
    """Return ``x`` if its elements fill its memory in some order of its axes, as those of images do; else a copy."""
    if x.flags.c_contiguous or x.ravel("K").base is not None:
        return x
    return np.ascontiguousarray(x)


def beside(x: Array) -> tuple[Array, Array, Array, Array]:
    """Return ``x``, dense, flat, a new array of its shape, dtype and memory order, and that flat."""
    if x.flags.c_contiguous:  # written out: a short call is no longer than its Python
        output = np.empty(x.shape, x.dtype)
        return x, x.ravel(), output, output.ravel()  # of what is contiguous a view, made sooner than by ``reshape``
    x = dense(x)
    output = np.empty_like(x)
    return x, x.ravel("K"), output, output.ravel("K")


def flat(x: Array) -> Array:
    """Return a dense ``x`` as a flat view."""
    return x.ravel("K")


def in_order_of(x: Array, other: Array) -> Array:
    """Return ``x`` in the memory order of a dense ``other`` of the same shape and dtype: itself, or a copy."""
    if x.strides == other.strides or (x.flags.c_contiguous and other.flags.c_contiguous):
        return x
    ordered = np.empty_like(other)
    np.copyto(ordered, x)
    return ordered


def rows_of(x: Array) -> Array:
    """Return ``x`` as a contiguous matrix whose rows are its last axis: a view, or a copy where it is strided."""
    if x.ndim == 2 and x.size and x.flags.c_contiguous:
        return x
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1]) if x.size else x.reshape(0, max(x.shape[-1], 1))


def pointer_to(kind: Any) -> Any:
    """Return ``f(address)``: a pointer to a number, or record, of Numba's type ``kind``."""

    def from_address(_typing: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(address), emit

    return intrinsic(from_address)


_to_float, _to_byte, _to_word = pointer_to(types.float32), pointer_to(types.int8), pointer_to(types.int64)


def records_of(dtype: np.dtype[Any], name: str) -> Any:
    """Return the kernel ``f(numbers)``: the records of 8-byte fields that a contiguous int64 array holds.

    Kernels are given numbers, since Numba takes a microsecond longer to see the type of an array of records.
    """
    to_records, words = pointer_to(from_dtype(dtype)), dtype.itemsize // 8

    def records(numbers: Any) -> Any:
        return carray(to_records(numbers.ctypes.data), (numbers.size // words,))

    return kernel(records, name)


@kernel
def floats_at(address: Any, count: Any) -> Any:
    """Return the flat array of ``count`` float32 at an address."""
    return carray(_to_float(address), (count,))


@kernel
def bytes_at(address: Any, count: Any) -> Any:
    """Return the flat array of ``count`` bytes, int8, at an address."""
    return carray(_to_byte(address), (count,))


@kernel
def words_at(address: Any, count: Any) -> Any:
    """Return the flat array of ``count`` int64 at an address."""
    return carray(_to_word(address), (count,))


@kernel
def matrix_at(address: Any, rows: Any, columns: Any) -> Any:
    """Return the contiguous matrix of float32 at an address."""
    return carray(_to_float(address), (rows, columns))


@kernel
def maps_at(address: Any, images: Any, rows: Any, columns: Any, channels: Any) -> Any:
    """Return the contiguous maps (images, rows, columns, channels) of float32 at an address."""
    return carray(_to_float(address), (images, rows, columns, channels))


@kernel
def line(x: Any, number: Any) -> Any:
    """Return a row of a contiguous float32 matrix, which must outlive it.

    ``x[number]`` would count a reference to the memory, which takes as long as a short row's arithmetic.
    """
    return floats_at(x.ctypes.data + 4 * number * x.shape[1], x.shape[1])


@kernel
def pixel_at(maps: Any, image: Any, y: Any, x: Any) -> Any:
    """Return the address of a pixel's channels in contiguous float32 maps (N, H, W, C)."""
    _, height, width, channels = maps.shape
    return maps.ctypes.data + 4 * ((image * height + y) * width + x) * channels
