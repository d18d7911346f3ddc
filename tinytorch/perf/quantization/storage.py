"""Storage of a quantized weight: codes, scales and zero points, as state that saves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinytorch.core.dispatch import apply
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape
from tinytorch.core.tensor import Tensor
from tinytorch.perf.ops.affine import Quantized, Scheme, packing_axis
from tinytorch.perf.ops.packed_codes import PanelLayout, TileLayout, pack
from tinytorch.perf.ops.weight_only import dequantize


class Arranged(Tensor):
    """A matrix held once: as it is, or in the order in which a kernel reads it.

    Whoever asks for ``data`` may write to it, so that makes a matrix of it, which `stored` arranges again; ``array`` is
    for those who only read.

    Args:
        data: the matrix.
        layout: how `stored` arranges it; None leaves it as it is.
    """

    __slots__ = ("_array", "layout")

    def __init__(self, data: Array, layout: PanelLayout | TileLayout | None = None) -> None:
        self.layout = layout
        super().__init__(data)

    @property
    def data(self) -> Array:
        """The matrix, for reading and writing."""
        self._array = self.array
        return self._array

    @data.setter
    def data(self, array: Array) -> None:
        self._array = array

    # Where a Tensor keeps its array: here too it is held once.
    _data = data

    @property
    def array(self) -> Array:
        """The matrix, for reading; made anew if it lies otherwise."""
        layout = self.layout
        return layout.restored(self._array) if layout and self._array.ndim == layout.axes else self._array

    @property
    def stored(self) -> Array:
        """What the layer's op takes, for reading."""
        layout = self.layout
        if layout and self._array.ndim != layout.axes:
            self._array = layout.arranged(self._array)
        return self._array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that it holds, as they are, for reading."""
        return (self._array,)

    @property
    def shape(self) -> Shape:
        """Length along each axis of the matrix."""
        return self.layout.shape if self.layout else self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self._array.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix, which is what files hold."""
        return math.prod(self.shape) * self._array.itemsize


class Codes(Arranged):
    """Packed codes of a weight, and what kernels made of them: a matrix, or `in_tiles`.

    ``packed`` is for kernels: each may keep there, under its own name, what it made of the codes; it is forgotten
    when they may change.
    """

    __slots__ = ("packed",)

    def __init__(self, data: Array, layout: PanelLayout | TileLayout | None = None) -> None:
        self.packed: dict[str, Any] = {}
        super().__init__(data, layout)

    @property
    def data(self) -> Array:
        """The codes, for reading and writing; forgets what kernels made of them."""
        self.packed.clear()
        self._array = self.array
        return self._array

    @data.setter
    def data(self, array: Array) -> None:
        self.packed.clear()
        self._array = array

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The codes and what kernels keep beside them, as they are, for reading."""
        return self._array, *(value for value in self.packed.values() if isinstance(value, np.ndarray))

    @property
    def more_nbytes(self) -> int:
        """Bytes held beyond those of the matrix: what fills up panels, and what kernels keep beside."""
        return sum(array.nbytes for array in self.arrays) - self.nbytes


def _stored(tensor: Tensor) -> Array:
    return tensor.stored if isinstance(tensor, Arranged) else tensor.data


def _matrix(tensor: Tensor) -> Array:
    return tensor.array if isinstance(tensor, Arranged) else tensor.data


class QuantizedModule(Module):
    """Base of quantized layers: a weight matrix as codes.

    Its state is ``scale`` (float32; see `Quantized`), ``zero_point`` (int8; none if symmetric) and ``codes``: int8, or
    uint8 with 2 codes of 4 bits or 4 codes of 2 bits to a byte, packed along the axis that is not the channels'.
    """

    scheme: Scheme
    scale: Tensor
    zero_point: Tensor | None
    codes: Codes
    bias: Any = None

    def _store(self, made: Quantized, float_nbytes: int) -> None:
        """Take over what `quantize` made of the weight matrix, per tensor, channel or group."""
        self.scheme = made.scheme
        self.float_nbytes = float_nbytes
        scale = made.scale.reshape(1, 1) if made.scale.ndim == 0 else made.scale
        self.scale = Tensor(scale)
        self.zero_point = None
        if not made.scheme.symmetric:
            self.zero_point = Tensor(made.zero_point.reshape(scale.shape).astype(np.int8))
        self.length = made.codes.shape[packing_axis(2, made.scheme)]
        self.codes = Codes(pack(made.codes, made.scheme.bits, packing_axis(2, made.scheme)))

    def _weight_operands(self) -> tuple[Array, Array, Array | None]:
        """Return codes, scale and zero point as the ops take them."""
        return self.codes.stored, _stored(self.scale), None if self.zero_point is None else _stored(self.zero_point)

    def _weight_params(self) -> dict[str, Any]:
        """Return the parameters by which the ops read the operands."""
        group = self.scheme.group if self.scheme.per == "group" else None
        return {"bits": self.scheme.bits, "group": group, "length": self.length}

    def dequantized(self) -> Tensor:
        """Return the float32 matrix that the codes stand for, made anew by an op."""
        codes, *parameters = (
            None if each is None else _matrix(each) for each in (self.codes, self.scale, self.zero_point)
        )
        params = self._weight_params()
        return apply(dequantize, codes, *parameters, **params, axis=packing_axis(2, self.scheme))

    def memory_usage(self) -> dict[str, float]:
        """Return the bytes of the layer in float32 and as stored, their ratio, and additional bytes in memory.

        The keys are ``original_bytes``, ``quantized_bytes``, ``compression_ratio`` and ``packed_bytes``.
        """
        state = sum(tensor.nbytes for _, tensor in self._named_state())
        return {
            "original_bytes": self.float_nbytes,
            "quantized_bytes": state,
            "compression_ratio": self.float_nbytes / state,
            "packed_bytes": self.codes.more_nbytes,
        }
