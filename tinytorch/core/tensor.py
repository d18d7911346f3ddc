"""Tensor: an array that knows how it was made, and so can be differentiated."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tinytorch.core.op import Array, Implementation, Op, Saved, Shape, Spec

#: Numbers recorded ops and changes in place, in the order of the program.
_recorded = count()
#: Arrays that were changed in place, by id, and the number of the last change of each.
_changed: dict[int, tuple[weakref.ref[Array], int]] = {}
#: Recorded ops whose backward may still run.
_waiting: set[weakref.ref[Node]] = set()
#: Arrays that were handed out while ops waited for their backward, by id: each, when, and its checksum at that time.
_lent: dict[int, tuple[weakref.ref[Array], int, int]] = {}
#: Stands where a node's ``saved`` was, once backward has used it.
USED: tuple[Any, ...] = ("used",)
_new = object.__new__
#: Axes of a reduction: one, several, or all of them (None).
Axes = int | tuple[int, ...] | None
#: dtypes that a gradient can have.
_DIFFERENTIABLE = "f"


def mark_changed(arrays: Iterable[Array]) -> None:
    """Say that elements of ``arrays`` are others from now on: a backward that needs the old ones raises.

    An optimizer's step, `Module.load_state_dict` and ``tensor.data += 1`` say so themselves. Writing into an array that
    ``data`` or ``numpy()`` returned after the forward, as ``tensor.data[...] = 0`` does, is seen by its checksum. Not
    seen is a write into an array that the program has had since before the forward.
    """
    number = next(_recorded)
    for array in arrays:
        _lent.pop(id(array), None)
        _mark(array, number)


def _mark(array: Array, number: int) -> None:
    key = id(array)
    found = _changed.get(key)
    reference = found[0] if found else weakref.ref(array, partial(_changed.pop, key))
    _changed[key] = (reference, max(number, found[1]) if found else number)


def _lend(array: Array) -> None:
    """Note what ``array`` holds now; if it held something else when it was noted before, it changed since then."""
    key, checksum = id(array), crc32(np.ascontiguousarray(array).data)
    noted = _lent.get(key)
    if noted and noted[2] != checksum:
        _mark(array, noted[1])
    _lent[key] = (weakref.ref(array, partial(_lent.pop, key)), next(_recorded), checksum)


def changes_after(number: int) -> list[tuple[Array, int]]:
    """Return the arrays that were changed in place after the op of that number was recorded, and when."""
    for reference, _, _ in tuple(_lent.values()):
        lent = reference()
        if lent is not None:
            _lend(lent)
    if not _changed:
        return []
    found = [(reference(), when) for reference, when in tuple(_changed.values()) if when > number]
    return [(array, when) for array, when in found if array is not None]


def forget_lent() -> None:
    """Forget the arrays that were handed out, once no op waits for its backward any more."""
    if not _waiting:
        _lent.clear()


class Node:
    """One recorded op: what backward needs to run it, and where its gradients go.

    ``sources`` holds, for each input that needs a gradient, the Node that made it, or the Tensor itself if it
    is a leaf, and None for the others. It does not hold the inputs' arrays: one that no op saved is freed as
    soon as the program drops it. ``operands`` is shape and dtype of every input, None for a number. ``number`` counts
    the recorded ops of the process.
    """

    __slots__ = (
        "__weakref__",
        "_specs",
        "implementation",
        "needs",
        "number",
        "op",
        "operands",
        "params",
        "path",
        "saved",
        "sources",
    )

    def __init__(
        self,
        op: Op,
        implementation: Implementation,
        inputs: tuple[Any, ...],
        needs: list[bool],
        arrays: list[Any],
        saved: Saved,
        params: dict[str, Any],
        path: str = "",
        specs: tuple[Spec, ...] | None = None,
    ) -> None:
        self.saved = saved
        _waiting.add(weakref.ref(self, _waiting.discard))  # it goes with the node, without a frame of Python
        self.number = next(_recorded)
        self.op = op
        self.implementation = implementation
        # One loop in this frame: an op of a few numbers takes no longer than what is written around it.
        self.sources: list[Node | Tensor | None] = []
        self.operands: list[tuple[Shape, np.dtype[Any]] | None] = []
        for value, needed, array in zip(inputs, needs, arrays):  # noqa: B905 - costs time in every op
            self.sources.append((value._node or value) if needed else None)
            self.operands.append((array.shape, array.dtype) if isinstance(array, np.ndarray) else None)
        self.needs = tuple(needs)
        self._specs = specs
        self.params = params
        self.path = path
        if _lent:
            for array in arrays:
                if id(array) in _lent:
                    _lend(array)

    def use_up(self) -> None:
        """Let go of what the forward saved, once the backward has run."""
        self.saved, self.sources = USED, []
        _waiting.discard(weakref.ref(self))

    @property
    def specs(self) -> tuple[Spec, ...]:
        """Shape and dtype of every input as observers see them; those of an observed forward are the very same."""
        if self._specs is None:
            self._specs = tuple([Spec(*operand) if operand else Spec((), None) for operand in self.operands])
        return self._specs


class Tensor:
    """An n-dimensional array with an optional gradient.

    Args:
        data: array, nested sequence or number. An array keeps its dtype (int8, int32, float64, ...) and is
            not copied; anything else becomes float32.
        requires_grad: whether `backward` fills ``grad``; needs a floating dtype.
        dtype: converts to this dtype.

    ``grad`` is a NumPy array of the same shape and dtype, or None before a backward pass.

    Raises:
        TypeError: if ``data`` is not numeric, or a gradient is asked of integers.

    Examples:
        >>> from tinytorch import Tensor
        >>> x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        array([[2., 4.],
               [6., 8.]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_data", "_node", "grad", "requires_grad")

    _data: Array
    grad: Array | None
    requires_grad: bool
    _node: Node | None

    #: NumPy must leave ``array + tensor`` to Tensor.
    __array_ufunc__ = None

    def __init__(self, data: Any, requires_grad: bool = False, dtype: npt.DTypeLike | None = None) -> None:
        if isinstance(data, Tensor):
            data = data._data
        try:
            array = np.asarray(data)
        except (TypeError, ValueError) as error:
            raise TypeError(f"data must be numbers in a regular shape, not {type(data).__name__}: {error}") from None
        # Before any conversion, in which NumPy would read None as NaN and text as a number.
        if array.dtype.kind not in "fiub":
            raise TypeError(f"data must be numeric, not {type(data).__name__} of dtype {array.dtype}")
        if dtype is None and not isinstance(data, (np.ndarray, np.generic)):
            dtype = np.float32
        if dtype is not None:
            array = np.asarray(data, dtype=dtype)
        if requires_grad and array.dtype.kind not in _DIFFERENTIABLE:
            raise TypeError(f"requires_grad needs a floating dtype, not {array.dtype}: pass dtype=np.float32")
        self._data = array
        self.grad = None
        self.requires_grad = requires_grad
        self._node = None

    @staticmethod
    def _made(output: Array, node: Node | None) -> Tensor:
        """Return an op's output as a Tensor; only `dispatch.apply` has use for it."""
        made: Tensor = _new(Tensor)
        # NumPy turns results without axes into scalars.
        made._data = output if output.__class__ is np.ndarray else np.asarray(output)
        made.grad = None
        made.requires_grad = node is not None
        made._node = node
        return made

    @property
    def data(self) -> Array:
        """The array of the elements."""
        if _waiting:
            _lend(self._data)
        return self._data

    @data.setter
    def data(self, array: Array) -> None:
        if array is self._data:  # what ``tensor.data += 1`` does, once it has changed the elements
            mark_changed((array,))
        self._data = array

    @property
    def shape(self) -> Shape:
        """Length along each axis."""
        return self._data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self._data.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self._data.nbytes

    def numpy(self) -> Array:
        """Return the array itself, not a copy."""
        return self.data

    def item(self) -> float | int:
        """Return the only element as a Python number.

        Raises:
            ValueError: if there is not exactly one.
        """
        if self._data.size != 1:
            raise ValueError(f"item() needs a tensor of one element, not one of shape {self.shape}")
        value: float | int = self._data.item()
        return value

    def holding(self, values: Any) -> Array:
        """Return ``values`` in this tensor's dtype; floats may be rounded.

        Raises:
            ValueError: if one cannot be held: a fraction or a number out of range by whole numbers, or a number beyond
                the largest one by floats.
        """
        array = np.asarray(values)
        with np.errstate(all="ignore"):
            made = array.astype(self.dtype, copy=False)
            held = np.isfinite(made) | ~np.isfinite(array) if self.dtype.kind == "f" else made == array
        if not held.all():
            raise ValueError(f"must hold numbers that {self.dtype} can hold, but one is {array[~held].flat[0]}")
        return made

    def detach(self) -> Tensor:
        """Return a Tensor of the same array without its history, so that no gradient passes through it."""
        return Tensor._made(self._data, None)

    def backward(self, gradient: Any = None, retain_graph: bool = False) -> None:
        """Add the gradient of this tensor to ``grad`` of every leaf that requires one.

        Args:
            gradient: gradient with respect to this tensor, of its shape; 1 if it has one element.
            retain_graph: keep what the forward saved, so that backward can run again.

        Raises:
            RuntimeError: if nothing was recorded, or it was already used up.
            ValueError: if ``gradient`` is missing or has another shape.
        """
        autograd.backward(self, gradient, retain_graph)

    def __repr__(self) -> str:
        grad = ", requires_grad=True" if self.requires_grad else ""
        elements = np.array2string(self._data, separator=", ", threshold=60, prefix="Tensor(")
        return f"Tensor({elements}, dtype={self.dtype}{grad})"

    def __len__(self) -> int:
        return len(self._data)

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"a tensor of shape {self.shape} is neither true nor false: use (x != 0).any() or (x != 0).all()"
            )
        return bool(self._data)

    def __int__(self) -> int:
        return int(self._data)

    def __float__(self) -> float:
        return float(self._data)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("a tensor without axes holds one number and cannot be iterated over: call item()")
        return map(self.__getitem__, range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self._data, dtype=dtype, copy=copy)

    def __add__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.subtract, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.subtract, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.multiply, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.multiply, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.divide, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.divide, other, self)

    def __neg__(self) -> Tensor:
        return dispatch.apply(ops.negative, self)

    def __abs__(self) -> Tensor:
        return dispatch.apply(ops.absolute, self)

    def __pow__(self, exponent: Any) -> Tensor:
        if not isinstance(exponent, (int, float, np.number)):
            exponents = exponent if isinstance(exponent, Tensor) else np.asarray(exponent)
            return dispatch.apply(ops.powers, self, exponents)
        exponent = exponent.item() if isinstance(exponent, np.number) else exponent
        return dispatch.apply(ops.power, self, exponent=exponent)

    def __rpow__(self, base: Any) -> Tensor:
        return dispatch.apply(ops.powers, base if isinstance(base, (int, float, np.number)) else np.asarray(base), self)

    def __matmul__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return dispatch.apply(ops.matmul, other, self)

    def __getitem__(self, index: Any) -> Tensor:
        if isinstance(index, tuple):
            index = tuple([part._data if isinstance(part, Tensor) else part for part in index])
        return dispatch.apply(ops.getitem, self, index=index._data if isinstance(index, Tensor) else index)

    # Comparisons have no gradient, so they are plain NumPy and make no op.
    def __eq__(self, other: object) -> Any:
        return self._data == (other._data if isinstance(other, Tensor) else other)

    def __ne__(self, other: object) -> Any:
        return self._data != (other._data if isinstance(other, Tensor) else other)

    def __le__(self, other: Any) -> Any:
        return self._data <= (other._data if isinstance(other, Tensor) else other)

    def __ge__(self, other: Any) -> Any:
        return self._data >= (other._data if isinstance(other, Tensor) else other)

    def __lt__(self, other: Any) -> Any:
        return self._data < (other._data if isinstance(other, Tensor) else other)

    def __gt__(self, other: Any) -> Any:
        return self._data > (other._data if isinstance(other, Tensor) else other)

    __hash__ = object.__hash__

    def matmul(self, other: Any) -> Tensor:
        """Return the matrix product with ``other``, broadcast over leading axes."""
        return dispatch.apply(ops.matmul, self, other)

    def exp(self) -> Tensor:
        """Return e to the power of each element."""
        return dispatch.apply(ops.exp, self)

    def log(self) -> Tensor:
        """Return the natural logarithm of each element."""
        return dispatch.apply(ops.log, self)

    def sqrt(self) -> Tensor:
        """Return the square root of each element."""
        return dispatch.apply(ops.sqrt, self)

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent of each element."""
        return dispatch.apply(ops.tanh, self)

    def sum(
        self, axis: Axes = None, keepdims: bool = False, *, dtype: npt.DTypeLike | None = None, out: None = None
    ) -> Tensor:
        """Return the sum over ``axis``, or over all; ``np.sum(x)`` calls this."""
        return self._reduced(ops.sum_, axis, keepdims, dtype, out)

    def mean(
        self, axis: Axes = None, keepdims: bool = False, *, dtype: npt.DTypeLike | None = None, out: None = None
    ) -> Tensor:
        """Return the mean over ``axis``, or over all; ``np.mean(x)`` calls this."""
        return self._reduced(ops.mean, axis, keepdims, dtype, out)

    def max(self, axis: Axes = None, keepdims: bool = False, *, out: None = None) -> Tensor:
        """Return the maximum over ``axis``, or over all; ties share the gradient equally. ``np.max(x)`` calls this."""
        return self._reduced(ops.max_, axis, keepdims, None, out)

    def _reduced(self, op: Op, axis: Axes, keepdims: bool, dtype: npt.DTypeLike | None, out: None) -> Tensor:
        if out is not None:
            raise TypeError("out must be left out: a reduction of a Tensor returns a new one")
        return dispatch.apply(op, self if dtype is None else self.astype(dtype), axis=axis, keepdims=keepdims)

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Return a view (a copy where none is possible) with ``shape``; one length may be -1."""
        lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return dispatch.apply(ops.reshape, self, shape=tuple(lengths))

    def transpose(self, *axes: int | Sequence[int] | None) -> Tensor:
        """Return a view with two axes swapped, or with all axes in another order.

        ``transpose(-2, -1)`` swaps two axes, as in PyTorch. Three or more numbers are the new order, as in NumPy, and
        so are those of one tuple. Without axes the order is reversed.

        Examples:
            >>> import numpy as np
            >>> from tinytorch import Tensor
            >>> x = Tensor(np.zeros((2, 3, 4)))
            >>> x.transpose(-2, -1).shape, x.transpose(2, 0, 1).shape, x.transpose((2, 0, 1)).shape, x.transpose().shape
            ((2, 4, 3), (4, 2, 3), (4, 2, 3), (4, 3, 2))
        """
        order: Any = axes[0] if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], Sequence)) else axes
        if len(axes) == 2:
            order = list(range(self.ndim))
            first, second = axes
            order[first], order[second] = order[second], order[first]
        return dispatch.apply(ops.transpose, self, axes=tuple(order or reversed(range(self.ndim))))

    @property
    def T(self) -> Tensor:  # noqa: N802 - NumPy's name
        """Return a view with the axes reversed."""
        return self.transpose()

    def astype(self, dtype: npt.DTypeLike) -> Tensor:
        """Return a copy of another dtype; a gradient passes between floating dtypes."""
        kind = np.dtype(dtype)
        source = self if kind.kind in _DIFFERENTIABLE else self.detach()
        return dispatch.apply(ops.cast, source, dtype=kind)


# Below the class, because these modules import Tensor from here: operators are calls of the seam, and the
# seam makes Tensors. It is the one cycle in core.
from tinytorch.core import autograd, dispatch, ops  # noqa: E402
