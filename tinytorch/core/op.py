"""Primitive operations: a name, a forward, a backward, and what it costs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

AnyCallable = TypeVar("AnyCallable", bound=Callable[..., Any])

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Phase = Literal["forward", "backward"]
#: What a forward keeps for its backward; only the op's own backward looks inside.
Saved = tuple[Any, ...]
#: One gradient for each input, ``None`` where none was asked for.
Gradients = tuple["Array | None", ...]

#: ``forward(keep, *arrays, **params) -> (output, saved)``. With ``keep`` false no backward will follow, so
#: the op may reuse its own temporaries and must save nothing. The inputs are never written to.
Forward = Callable[..., tuple[Array, Saved]]
#: ``backward(gradient, saved, needs, owned) -> gradients``. ``needs`` says for which inputs a gradient is
#: wanted. With ``owned`` true the gradient's buffer may be overwritten or handed on. A backward never hands
#: out an array that it saved.
Backward = Callable[[Array, Saved, tuple[bool, ...], bool], Gradients]


def as_floating(x: Array, dtype: npt.DTypeLike = np.float32) -> Array:
    """Return ``x`` as it is if its elements are floating, else converted to ``dtype``.

    For ops whose results integers cannot hold: layers, losses and transcendental functions.
    """
    return x if x.dtype.kind == "f" else x.astype(dtype)


def arrays_in(saved: Any) -> Iterator[Array]:
    """Yield the arrays in ``saved``, also those in tuples and lists of any depth."""
    if isinstance(saved, np.ndarray):
        yield saved
    elif isinstance(saved, (tuple, list)):
        for part in saved:
            yield from arrays_in(part)


def owner_of(array: Array) -> Array:
    """Return the array that owns the memory that ``array`` looks at.

    Where NumPy does not own it (a file's map, another library's buffer), it is the last array on the way there.
    """
    base = array.base
    while base is not None:
        if isinstance(base, np.ndarray):
            array = base
        # as_strided puts an object of its own between a view and its array, which leads on by its own base.
        base = getattr(base, "base", None)
    return array


class Spec(NamedTuple):
    """Shape and dtype of an operand; a Python number has shape () and dtype None."""

    shape: Shape
    dtype: np.dtype[Any] | None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of its elements; 0 for a Python number, which travels in the call."""
        return 0 if self.dtype is None else self.size * self.dtype.itemsize


class Work(NamedTuple):
    """Arithmetic that an op does by its formula.

    ``macs`` are multiply-accumulates of contractions (matrix product, convolution, attention), 2 FLOPs each.
    ``elementwise`` counts every other arithmetic operation, one for each operation and element, a
    transcendental function counting as one. ``integer_macs`` are those of ``macs`` that multiply 8-bit integers and add
    up 32-bit ones, for which a CPU may have another peak.
    """

    macs: int = 0
    elementwise: int = 0
    integer_macs: int = 0


@dataclass(slots=True)
class Call:
    """One run of a primitive in one phase: the event that observers see.

    ``inputs`` and ``output`` are the forward's operands in both phases. A work formula may use ``params`` that
    are numbers, text or tuples of these; arrays belong among the inputs. ``start`` and ``end`` are readings of
    ``time.perf_counter_ns``. ``needs`` is empty in the forward phase.
    """

    op: Op
    implementation: Implementation
    phase: Phase
    path: str
    inputs: tuple[Spec, ...]
    output: Spec
    params: dict[str, Any]
    needs: tuple[bool, ...]
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """Wall time of the call in seconds."""
        return (self.end - self.start) * 1e-9

    @property
    def work(self) -> Work:
        """Arithmetic of this call by the op's formula.

        Raises:
            UncountedError: if the op declares no formula.
        """
        formula = self.implementation.work or self.op.work
        if formula is None:
            raise UncountedError(f"op {self.op.name!r} declares no work formula, so its FLOPs cannot be counted")
        return formula(self)

    @property
    def traffic(self) -> int:
        """Compulsory bytes: each operand that the phase needs read once, each result written once."""
        return self.op.traffic(self)


class UncountedError(ValueError):
    """Asked for the work of an op that declares none; nothing is guessed in its place."""


def operands_once(call: Call) -> int:
    """Return the bytes of a call that reads every operand once and writes every result once.

    Forward: all inputs and the output. Backward: the output's gradient, the forward's inputs, and the
    gradients that are asked for.
    """
    inputs = sum(spec.nbytes for spec in call.inputs)
    if call.phase == "forward":
        return inputs + call.output.nbytes
    wanted = sum(spec.nbytes for spec, needed in zip(call.inputs, call.needs, strict=True) if needed)
    return call.output.nbytes + inputs + wanted


def gradient_only(call: Call) -> int:
    """Return the bytes of an op whose backward needs no operand but the gradient (addition, sum, ...)."""
    if call.phase == "forward":
        return operands_once(call)
    wanted = sum(spec.nbytes for spec, needed in zip(call.inputs, call.needs, strict=True) if needed)
    return call.output.nbytes + wanted


def no_traffic(call: Call) -> int:
    """Return 0: the op makes a view and touches no element."""
    del call
    return 0


def no_work(call: Call) -> Work:
    """Return the work of an op that only moves elements."""
    del call
    return Work()


def additions_back(call: Call) -> Work:
    """Return no work forward, and backward one addition for each element of the gradient."""
    return Work(elementwise=0 if call.phase == "forward" else call.output.size)


def picked_traffic(call: Call, table: int = 0) -> int:
    """Return the bytes of an op that picks elements of the operand at ``table`` by what the other operands name.

    Forward: the others, and the elements picked, read and written. Backward fills the whole table.
    """
    others = sum(spec.nbytes for index, spec in enumerate(call.inputs) if index != table)
    written = call.output.nbytes if call.phase == "forward" else call.inputs[table].nbytes
    return others + call.output.nbytes + written


def no_gradient(reason: str) -> Backward:
    """Return the backward of an op that has none: it raises TypeError, which gives the reason and what to do."""

    def backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
        raise TypeError(reason)

    return backward


def per_element(forward: int, backward: int | None = None) -> Callable[[Call], Work]:
    """Return a formula of ``forward`` operations an output element, and ``backward`` a wanted gradient's.

    ``backward`` defaults to ``forward``.
    """
    down = forward if backward is None else backward

    def work(call: Call) -> Work:
        size = max((spec.size for spec in call.inputs), default=0)
        size = max(size, call.output.size)
        if call.phase == "forward":
            return Work(elementwise=forward * size)
        return Work(elementwise=down * size * sum(call.needs))

    return work


def contraction(macs: Callable[[Call], int], bias: int | None = None) -> Callable[[Call], Work]:
    """Return a formula of ``macs`` forward, and the same again for each operand whose gradient is wanted.

    This holds for anything linear in each operand: the adjoint with respect to one of them takes as many
    multiply-accumulates as the product itself. An operand at position ``bias``, if there is one, costs one elementwise
    addition for each output, and as many for its gradient.
    """

    def work(call: Call) -> Work:
        forward, has_bias = macs(call), bias is not None and len(call.inputs) > bias
        if call.phase == "forward":
            return Work(forward, call.output.size * has_bias)
        wanted = has_bias and bias is not None and call.needs[bias]
        return Work(forward * sum(call.needs[:bias]), call.output.size * wanted)

    return work


@dataclass(frozen=True, slots=True, eq=False)
class Implementation:
    """One way to run an op. ``work`` replaces the op's formula where this way does other arithmetic."""

    name: str
    forward: Forward
    backward: Backward
    work: Callable[[Call], Work] | None = None


def as_int(value: Any) -> Any:
    """Return a NumPy integer, which may overflow, as an int, also within tuples and lists; all else as it is."""
    if isinstance(value, np.integer):
        return int(value)
    if type(value) in (tuple, list):
        made = [as_int(each) if type(each) is not list else each for each in value]
        if any(new is not old for new, old in zip(made, value, strict=True)):
            return type(value)(made)
    return value


#: Types of which `as_int` returns every value as it is.
_NOT_NUMPY = frozenset({int, float, bool, str, type(None)})


def whole_numbers(door: AnyCallable) -> AnyCallable:
    """Let a function, or the constructor of a class, take NumPy integers as the ints that they are."""
    if isinstance(door, type):
        door.__init__ = whole_numbers(door.__init__)  # type: ignore[misc]
        return door

    @functools.wraps(door)
    def entered(*args: Any, **kwargs: Any) -> Any:
        plain = [each if type(each) in _NOT_NUMPY else as_int(each) for each in args]
        return door(*plain, **{name: as_int(value) for name, value in kwargs.items()})

    return cast(AnyCallable, entered)


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """One body's change of what ops do in its context; see the functions of `tinytorch.core.dispatch`."""

    observers: tuple[Any, ...] = ()
    thread: int = 0
    hides: bool = False
    gradients: bool = True
    chosen: dict[Op, Implementation] | None = None


class Switches:
    """What all open bodies of a context ask for together.

    Attributes:
        observers: those that are told of ops on the ``thread`` that installed them; others may run a copy of it.
        hidden: those that a body hides.
        gradients: whether ops are recorded for backward.
        chosen: implementations in place of the default ones, or None.
        ungraded: these with gradients off, once somebody asked for them.
    """

    __slots__ = ("_open", "chosen", "gradients", "hidden", "observers", "thread", "ungraded")

    def __init__(self, opened: tuple[Switch, ...] = ()) -> None:
        self._open = opened
        self.ungraded: Switches | None = None
        self.observers: tuple[Any, ...] = ()
        self.hidden: tuple[Any, ...] = ()
        self.thread = 0
        self.gradients = True
        self.chosen: dict[Op, Implementation] | None = None
        for switch in opened:
            if switch.hides:
                self.hidden, self.observers = (*self.hidden, *self.observers), ()
            if switch.observers:
                earlier = self.observers if switch.thread == self.thread else ()
                self.observers, self.thread = (*earlier, *switch.observers), switch.thread
            self.gradients = self.gradients and switch.gradients
            if switch.chosen is not None:
                self.chosen = switch.chosen if self.chosen is None else {**self.chosen, **switch.chosen}

    def plus(self, switch: Switch) -> Switches:
        """Return these and one that is opened."""
        return Switches((*self._open, switch))

    def minus(self, switch: Switch) -> Switches:
        """Return these without one, the last if it is open several times."""
        if self._open == (switch,):
            return PLAIN
        places = [place for place, each in enumerate(self._open) if each is switch]
        return Switches(self._open[: places[-1]] + self._open[places[-1] + 1 :]) if places else self


#: No body is open.
PLAIN = Switches()
#: Those of the running thread or task.
switches: ContextVar[Switches] = ContextVar("switches", default=PLAIN)


class Op:
    """A primitive operation: every implementation of it, its work formula and its traffic formula.

    ``default`` is the implementation that runs where `dispatch.implementations` has chosen no other.
    """

    __slots__ = ("default", "name", "reference", "traffic", "work")

    def __init__(
        self,
        name: str,
        forward: Forward,
        backward: Backward,
        work: Callable[[Call], Work] | None,
        traffic: Callable[[Call], int] = operands_once,
    ) -> None:
        self.name = name
        self.reference = Implementation("numpy", forward, backward)
        self.default = self.reference
        self.work = work
        self.traffic = traffic

    @property
    def selected(self) -> Implementation:
        """The implementation that would run here and now."""
        return (switches.get().chosen or {}).get(self, self.default)

    def __repr__(self) -> str:
        return f"Op({self.name!r}, implementation={self.selected.name!r})"
