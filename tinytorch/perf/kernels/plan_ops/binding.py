"""Binding of recorded ops to entry points: what each step reads and writes, and where in memory that lies.

A `Binder` goes through recorded ops in order. Each op's own function, its binding, adds steps to it and says where the
result lies. Views cost no step. When all are bound, results share one arena by their lives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tinytorch.core.op import Array, Op, Shape, Work
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.kernels.gemm.packing import aligned_empty
from tinytorch.perf.kernels.plan_ops.driver import AXES, FRAME, PATCH, SHARE, WORDS, Entry, address_of, copy_strided

#: Floats of a cache line, at whose multiples buffers begin.
_LINE = 16
#: Floats behind each buffer that kernels may read as part of a whole vector, and do not use.
_BEHIND = 64


@dataclass(eq=False)
class Value:
    """An array of a recorded forward: a constant where ``array`` is given, else what an op made, or an input.

    ``strides`` are those, in elements, of what an op made.
    """

    shape: Shape
    dtype: np.dtype[Any]
    array: Array | None = None
    strides: tuple[int, ...] = ()


@dataclass(eq=False)
class RecordedOp:
    """A recorded op: its operands (values, numbers or None), parameters and result.

    ``work`` is what its formula counts, None if it has none; of an op that others were joined with, the sum. ``name``
    is what a profile calls it, ``path`` the module that it ran in.
    """

    op: Op
    operands: tuple[Any, ...]
    params: dict[str, Any]
    output: Value
    work: Work | None
    name: str
    path: str


@dataclass(eq=False)
class Buffer:
    """Memory of ``floats`` elements, with ``before`` more in front of it that its readers need.

    An arena buffer lives from the step ``first`` to the step ``last`` and begins at ``start``.
    """

    kind: Literal["arena", "input", "output", "constant"]
    floats: int
    array: Array | None = None
    before: int = 0
    first: int = -1
    last: int = -1
    start: int = 0


@dataclass(frozen=True)
class View:
    """Elements of a buffer: from ``offset`` on, ``strides`` elements apart.

    With ``source`` it stands for a reshape of another view whose elements lie in another order, and must be copied or
    read through it.
    """

    buffer: Buffer
    offset: int
    shape: Shape
    strides: tuple[int, ...]
    source: View | None = None
    itemsize: int = 4

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order."""
        if self.source is not None:
            return False
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != expected:
                return False
            expected *= length
        return True

    def moved(self, change: Callable[[Array], Array]) -> View:
        """Return the view that ``change`` makes of an array of this one's layout; it must not read elements."""
        base = np.empty(1, np.int8 if self.itemsize == 1 else f"i{self.itemsize}")
        made = change(
            as_strided(base, self.shape, [stride * self.itemsize for stride in self.strides], writeable=False)
        )
        offset = (made.ctypes.data - base.ctypes.data) // self.itemsize
        strides = tuple(stride // self.itemsize for stride in made.strides)
        return View(self.buffer, self.offset + offset, made.shape, strides, None, self.itemsize)


@dataclass(eq=False)
class EntryStep:
    """One row of a table: an entry, its words (numbers, or views for their addresses), and what it does."""

    entry: Entry
    words: tuple[float | View, ...]
    reads: tuple[View, ...]
    writes: View
    name: str
    path: str
    work: Work | None
    divisible: bool


@dataclass(eq=False)
class ArrayStep:
    """An op that no entry runs: its implementation does, on arrays, and what it makes is copied to ``writes``.

    ``operands`` are views, or arrays, numbers and None as they are.
    """

    op: Op
    operands: tuple[Any, ...]
    params: dict[str, Any]
    writes: View
    name: str
    path: str


class UnplannedError(ValueError):
    """An op that no entry point runs, or operands that none takes; the message names them."""


def most_shares() -> int:
    """Return into how many shares a step may be divided: one for each core of the process."""
    return len(usable_cores())


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of C order, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


class Constants:
    """Prepared constants of a model: packed weights, copies, tables. Each is made once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Array] = {}
        self._sources: list[Array] = []

    def prepared(self, how: Hashable, of: Array | None, make: Callable[[], Array]) -> Array:
        """Return what ``make`` gives for the memory ``of`` and ``how``."""
        # By its memory: each recording has views of its own. Kept, so that no other array comes to lie there.
        key = (how, None if of is None else (address_of(of), of.shape, of.strides))
        if key not in self._made:
            self._made[key] = make()
            self._sources += [] if of is None else [of]
        return self._made[key]


class Binder:
    """Builder of a plan's steps, to which bindings add.

    Args:
        constants: what was prepared before; shared by binders of the same model.
        status: one int64, which an entry sets to 1 when an index is out of range.
    """

    def __init__(self, constants: Constants, status: Array) -> None:
        self.status = View(Buffer("constant", 1, status), 0, (1,), (1,), None, 8)
        self.steps: list[EntryStep | ArrayStep] = []
        self.buffers: list[Buffer] = []
        self._views: dict[Value, View] = {}
        self._constants = constants
        self._node: RecordedOp | None = None

    def place(self, value: Value, view: View) -> None:
        """Say where a value lies."""
        self._views[value] = view

    def own(self, value: Value) -> View:
        """Return memory that is a value's alone, of its dtype and order."""
        memory = np.zeros(max(1, math.prod(value.shape)), value.dtype)
        strides = value.strides or row_strides(value.shape)
        view = View(Buffer("constant", memory.size, memory), 0, value.shape, strides, None, memory.itemsize)
        self.place(value, view)
        return view

    def run_as_arrays(self, node: RecordedOp) -> None:
        """Add the step that runs a node by its implementation."""
        operands = tuple(
            self.view(each) if isinstance(each, Value) and each.array is None else getattr(each, "array", each)
            for each in node.operands
        )
        self.keep([each for each in operands if isinstance(each, View)])
        self.steps.append(ArrayStep(node.op, operands, node.params, self.own(node.output), node.name, node.path))

    def keep(self, views: Sequence[View]) -> None:
        """Let what is seen live up to the next step."""
        for view in views:
            view.buffer.first = len(self.steps) if view.buffer.first < 0 else view.buffer.first
            view.buffer.last = len(self.steps)

    def begin(self, node: RecordedOp) -> None:
        """Attribute the steps that follow to ``node``."""
        self._node = node

    def refuse(self, why: str) -> UnplannedError:
        """Return the error for the current op."""
        assert self._node is not None
        where = f" in {self._node.path}" if self._node.path else ""
        return UnplannedError(f"model must consist of ops that a plan can run, but {self._node.name}{where} {why}")

    def view(self, operand: Any) -> View:
        """Return where an operand lies: a value, or a number."""
        if isinstance(operand, Value):
            if operand in self._views:
                return self._views[operand]
            assert operand.array is not None
            return self.constant(operand.array)
        return self.constant(np.asarray(operand, np.float32))

    def contiguous(self, view: View) -> View:
        """Return the elements in C order: the same view, or a copy that a step makes."""
        if view.is_contiguous:
            return View(view.buffer, view.offset, view.shape, row_strides(view.shape), None, view.itemsize)
        source = view.source or view
        copied = self.new(source.shape)
        self.copy(source, copied)
        return View(copied.buffer, copied.offset, view.shape, row_strides(view.shape))

    def copy(self, source: View, target: View) -> None:
        """Add the step that copies ``source`` to a ``target`` of the same shape.

        Raises:
            UnplannedError: if elements are no floats, or lie in too many strides.
        """
        if source.itemsize != 4:
            raise self.refuse("copies integers, which are not floats")
        axes = list(range(len(source.shape)))
        if any(a == b == 1 < length for a, b, length in zip(source.strides, target.strides, source.shape, strict=True)):
            axes.sort(key=lambda axis: -target.strides[axis])  # as they lie in memory: lines in a row come last
        shape, *strides = (
            tuple(each[axis] for axis in axes) for each in (source.shape, source.strides, target.strides)
        )
        lengths, (of_source, of_target) = joined_axes(shape, strides)
        if len(lengths) > AXES:
            raise self.refuse(f"moves elements along {len(lengths)} axes, more than {AXES}")
        self.emit(copy_strided, (source, target, *lengths, *of_source, *of_target), (source,), target, "copy")

    def new(self, shape: Shape, strides: tuple[int, ...] | None = None, floats: int | None = None) -> View:
        """Return a view of a new buffer, in C order unless ``strides`` and ``floats`` say otherwise."""
        buffer = Buffer("arena", math.prod(shape) if floats is None else floats)
        self.buffers.append(buffer)
        return View(buffer, 0, shape, row_strides(shape) if strides is None else strides)

    def constant(self, array: Array) -> View:
        """Return a view of a constant, in C order and, if it holds floats, of float32."""
        kind = np.float32 if array.dtype.kind == "f" else np.int64
        return self.prepared("itself", array, lambda: aligned(np.asarray(array, kind)), array.shape)

    def prepared(self, how: Hashable, of: Array | None, make: Callable[[], Array], shape: Shape | None = None) -> View:
        """Return a view of what ``make`` gives, made once for each array that it is made ``of`` and each ``how``."""
        array = self._constants.prepared(how, of, make)
        shape = array.shape if shape is None else shape
        return View(Buffer("constant", array.size, array), 0, shape, row_strides(shape), None, array.itemsize)

    def emit(
        self,
        entry: Entry,
        words: Sequence[float | View],
        reads: Sequence[View],
        writes: View,
        name: str = "",
        scratch: Sequence[View] = (),
        divisible: bool = False,
    ) -> None:
        """Add a step; ``scratch`` are views of new buffers that it alone uses.

        It is ``divisible`` if its entry does the share that its row names. The first step of an op that is not a copy
        carries its work.
        """
        assert self._node is not None
        self.keep([*reads, writes, *scratch])
        work = Work() if name else self._node.work
        assert len(words) == len(entry.names) < SHARE
        called = name or self._node.name
        self.steps.append(
            EntryStep(entry, tuple(words), tuple(reads), writes, called, self._node.path, work, divisible)
        )


def joined_axes(
    shape: Shape, all_strides: Sequence[tuple[int, ...]], axes: int = AXES
) -> tuple[list[int], list[list[int]]]:
    """Return lengths and strides with axes of length 1 left out and neighbours joined that lie in a row in all.

    Filled up in front with axes of length 1 to ``axes`` of them.
    """
    lengths: list[int] = []
    strides: list[list[int]] = [[] for _ in all_strides]
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        here = [each[axis] for each in all_strides]
        if lengths and all(each[-1] == stride * length for each, stride in zip(strides, here, strict=True)):
            lengths[-1] *= length
            for each, stride in zip(strides, here, strict=True):
                each[-1] = stride
            continue
        lengths.append(length)
        for each, stride in zip(strides, here, strict=True):
            each.append(stride)
    missing = max(0, axes - len(lengths))
    return [1] * missing + lengths, [[0] * missing + each for each in strides]


def constant_of(operand: Any) -> Array | None:
    """Return the array of an operand that is constant."""
    return operand.array if isinstance(operand, Value) else None


def filled_up(array: Array | None, floats: int) -> Array:
    """Return `aligned` ``floats``: those of ``array``, if there is one, and zeros behind."""
    made = np.zeros(floats, np.float32)
    if array is not None:
        made[: array.size] = array
    return aligned(made)


def aligned(array: Array) -> Array:
    """Return a copy of an array, flat and in C order; of floats one that begins a cache line, with zeros behind."""
    if array.dtype != np.float32:
        return np.array(array, order="C").reshape(-1)
    made = aligned_empty(array.size + _BEHIND)
    made[array.size :] = 0
    made[: array.size] = array.reshape(-1)
    return made[: array.size]


def lay_out(buffers: Sequence[Buffer]) -> int:
    """Give each arena buffer a place that no other one has during its life; return the floats of the arena.

    The largest first, each at the lowest place that is free.
    """
    placed: list[Buffer] = []
    end = 0
    for buffer in sorted(buffers, key=lambda each: -each.floats):
        if buffer.kind != "arena" or buffer.first < 0:
            continue
        start = 0
        size = _whole(buffer)
        for other in sorted(placed, key=lambda each: each.start):
            if other.first > buffer.last or other.last < buffer.first:
                continue
            if other.start >= start + size:
                break
            start = max(start, other.start + _whole(other))
        buffer.start = start
        placed.append(buffer)
        end = max(end, start + size)
    return end


def _whole(buffer: Buffer) -> int:
    """Return the floats that a buffer takes in the arena, in whole lines."""
    return _front(buffer) + -(-(buffer.floats + _BEHIND) // _LINE) * _LINE


def _front(buffer: Buffer) -> int:
    """Return the floats in front of a buffer, in whole lines."""
    return -(-buffer.before // _LINE) * _LINE


def new_arena(floats: int) -> Array:
    """Return memory for intermediate results, zeros at first: what fills up vectors must be finite."""
    arena = aligned_empty(max(floats, 1))
    arena[:] = 0
    return arena


def memory_of(buffer: Buffer, arena: Array) -> Array:
    """Return the memory of an arena buffer or a constant, flat, from its first element on."""
    return arena[buffer.start + _front(buffer) :] if buffer.array is None else buffer.array.reshape(-1)


class Table:
    """The rows of a forward's steps, with the arena that holds what lies in between.

    Attributes:
        frame: what `driver.replay` reads: a `FRAME`, as numbers.
    """

    def __init__(
        self,
        steps: Sequence[EntryStep],
        arena: Array,
        bytes_of_blocks: tuple[int, int],
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """Lay down ``steps``, whose buffers have their places in ``arena``.

        ``bytes_of_blocks`` are the bytes from one block of samples to the next, of the input and of the output;
        ``share`` is what its rows do of steps that can be divided: which, of how many.
        """
        self.arena = arena
        self._rows = np.zeros((len(steps), WORDS), np.int64)
        patches: list[tuple[int, ...]] = []
        for number, step in enumerate(steps):
            self._rows[number, 0] = step.entry.address
            self._rows[number, SHARE:] = share if step.divisible else (0, 1)
            for place, word in enumerate(step.words, 1):
                if isinstance(word, float):
                    self._rows[number, place : place + 1].view(np.float64)[0] = word
                elif not isinstance(word, View):
                    self._rows[number, place] = word
                elif word.buffer.kind in ("input", "output"):
                    offset = word.offset * word.itemsize
                    patches.append((number, place, int(word.buffer.kind == "output"), offset))
                else:
                    self._rows[number, place] = address_of(self._memory(word.buffer)) + word.offset * word.itemsize
        self._patches = np.array(patches, PATCH)
        places = (address_of(self._rows), address_of(self._patches))
        self.frame = np.array([(*places, len(steps), len(patches), *bytes_of_blocks)], FRAME).view(np.int64)

    def _memory(self, buffer: Buffer) -> Array:
        return memory_of(buffer, self.arena)

    def array(self, view: View, x: Array, out: Array) -> Array:
        """Return the memory of a view as an array, for a block of input and of output."""
        whole = {"input": x.reshape(-1), "output": out.reshape(-1)}
        flat = whole[view.buffer.kind] if view.buffer.kind in whole else self._memory(view.buffer)
        if view.source is not None:
            view = View(view.buffer, view.source.offset, view.source.shape, view.source.strides)
        return as_strided(flat[view.offset :], view.shape, [stride * flat.itemsize for stride in view.strides])
