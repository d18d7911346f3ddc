"""Memory of a run by the life of its arrays: born at an op, dead when freed, each buffer counted once."""

from __future__ import annotations

import struct
import sys
import time
import tracemalloc
import weakref
from array import array as numbers
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np

from tinytorch.core.dispatch import Observer, observed_by
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array, Call, Saved, arrays_in, owner_of
from tinytorch.core.optimizers import Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import Arranging
from tinytorch.perf.events.stream import NUMBER, Profile, Recorder, rows_of
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.measuring.memory import Tracing

#: What a buffer is for. parameters, buffers: of modules that ran or are watched. optimizer: its state.
#: gradients: ``grad`` of parameters and watched tensors. activations: made by an op and saved for backward.
#: inputs: operands that no op made. outputs: everything else that ops made, also gradients on their way.
Category = Literal["parameters", "buffers", "optimizer", "gradients", "activations", "inputs", "outputs"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Step:
    """One op of a memory run.

    Attributes:
        allocated: bytes by which the op's worst moment was above its beginning, as tracemalloc saw it.
        temporary: the part of it that was freed within the op.
        peak: bytes of known buffers and temporaries together at the op's worst moment.
        live: bytes of each category of `CATEGORIES` after the op.
    """

    allocated: int
    temporary: int
    peak: int
    live: tuple[int, ...]


@dataclass(frozen=True)
class MemoryProfile:
    """Memory of a recorded run, in bytes.

    Attributes:
        run: the ops; their times are those of a traced run and mean nothing.
        steps: one for each op of ``run.events``, in order.
        highest: most bytes that each category held at any moment; the moments differ.
        final: bytes of each category at the end of the run.
        standing: bytes of the buffers that were there before the run: parameters, inputs, ...
        traced_peak: most bytes by which tracemalloc's count rose above the start of the run.
        array_peak: most bytes of known buffers plus temporaries of the op that ran.
        exact_origin: False if the caller's own tracing was on, so that every operand that no op made had to be
            taken for standing.
    """

    run: Profile
    steps: tuple[Step, ...]
    highest: dict[Category, int]
    final: dict[Category, int]
    standing: int
    traced_peak: int
    array_peak: int
    exact_origin: bool

    @property
    def peak(self) -> int:
        """Most bytes that stood or were allocated at one moment, also by code between the ops."""
        return self.standing + self.traced_peak

    @property
    def temporary(self) -> int:
        """Most bytes that one op allocated and freed again."""
        return max((step.temporary for step in self.steps), default=0)


class _Buffer(weakref.ref[Array]):
    """A weak reference to an array that owns memory, under the key by which it is found when the array dies."""

    __slots__ = ("category", "key", "nbytes")

    category: Category
    key: int
    nbytes: int


#: Bytes of one buffer that is followed: the reference, its key and its size.
_BUFFER = sys.getsizeof(_Buffer(np.empty(0))) + 2 * NUMBER


#: CPython makes room for one item more in a named tuple than its size says.
_ITEM = struct.calcsize("P")


def _bytes_of(call: Call) -> int:
    """Return the bytes of a call's own objects, which the seam makes for observers."""
    specs, made = [call.output, *call.inputs], [call, call.start, call.end, call.inputs, call.params]
    for spec in specs:
        made += [spec, spec.shape]
    return sum(map(sys.getsizeof, made)) + _ITEM * len(specs)


class ArrayLife(Observer):
    """Follows every buffer that an op reads, makes or saves, from its birth to its death.

    What it allocates for its own books is taken out of what tracemalloc counted.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._recorder = Recorder()
        self._start = time.perf_counter_ns()
        self._live: dict[int, _Buffer] = {}
        self._bytes: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
        self._highest: dict[Category, int] = dict.fromkeys(CATEGORIES, 0)
        self._died = partial(_died, self._live, self._bytes)
        self._leaves: list[weakref.ref[Tensor]] = []
        self._known_modules: weakref.WeakSet[Module] = weakref.WeakSet()
        self._steps = numbers("q")  # the fields of each step in a row: numbers that are no objects
        self._standing = 0
        #: Bytes of its own books: what it kept of each kind of op and module once, and all of them after the last hook.
        self._once = 0
        self._own = 0
        self._base = 0
        self._traced_peak = 0
        self._array_peak = 0
        self._backward_ran = False

    def watch(self, held: Iterable[Module | Optimizer | Tensor]) -> None:
        """Follow parameters and buffers of modules, the state of optimizers, and tensors with their gradients.

        Raises:
            TypeError: if one is something else; nothing is followed then.
        """
        things = list(held)
        for thing in things:
            if not isinstance(thing, (Module, Optimizer, Tensor)):
                raise TypeError(f"watch takes Modules, Optimizers and Tensors, not {type(thing).__name__}")
        for thing in things:
            if isinstance(thing, Module):
                self._follow_module(thing)
            elif isinstance(thing, Optimizer):
                for array in thing.state_arrays():
                    self._register(array, "optimizer")
            else:
                self._register(thing._data, "parameters" if isinstance(thing, Parameter) else "inputs")
                self._follow_leaf(thing)

    def follow_parameters(self, parameters: Iterable[Tensor | Array]) -> None:
        """Follow parameters, also those that are no `Parameter`, with their gradients."""
        for parameter in parameters:
            if isinstance(parameter, Tensor):
                self._register(parameter._data, "parameters")
                self._follow_leaf(parameter)
            elif isinstance(parameter, np.ndarray):
                self._register(parameter, "parameters")

    def _follow_module(self, module: Module) -> None:
        self.follow_parameters(module.parameters())
        for _, buffer in module.named_buffers():
            for array in buffer.arrays if isinstance(buffer, Arranging) else (buffer._data,):
                self._register(array, "buffers")
        self._known_modules.update(each for _, each in module.named_modules())

    def _follow_leaf(self, leaf: Tensor) -> None:
        self._leaves.append(weakref.ref(leaf))
        if leaf.grad is not None:
            self._register(leaf.grad, "gradients")

    def enter_module(self, path: str, module: Module) -> None:
        """Learn which arrays are a module's parameters and buffers."""
        self._read()
        kept = self._kept_at_once()
        self._recorder.enter_module(path, module)
        if module not in self._known_modules:
            self._follow_module(module)
        self._settle(kept)

    def leave_module(self, path: str, module: Module) -> None:
        """Keep the end of a module's forward."""
        self._read()
        kept = self._kept_at_once()
        self._recorder.leave_module(path, module)
        self._settle(kept)

    def elsewhere(self) -> None:
        """Keep the name of the thread."""
        self._recorder.elsewhere()

    def before_op(self) -> None:
        """Begin an op: find gradients that the last one left, and let the traced peak start anew."""
        self._read()
        self._find_gradients()
        self._base = self._settle()

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """End an op: register what it read, saved and made."""
        current, peak = self._read()
        self._backward_ran = call.phase == "backward"
        for array in arrays_in(inputs):
            if id(owner_of(array)) not in self._live:
                self._register(array, "inputs" if call.phase == "forward" else "outputs")
        for array in arrays_in(saved):
            self._register(array, "activations")
        for array in arrays_in(outputs):
            self._register(array, "outputs")
        highest = sum(self._bytes.values()) + peak - current
        self._array_peak = max(self._array_peak, highest)
        self._steps.extend((peak - self._base, peak - max(self._base, current), highest, *self._bytes.values()))
        kinds, kept = self._recorder.kinds, self._kept_at_once()
        self._recorder.after_op(call, inputs, outputs, saved)
        if self._recorder.kinds > kinds:
            self._once += _bytes_of(call)
            self._settle(kept)
        else:
            self._settle()

    def _read(self) -> tuple[int, int]:
        """Note what was allocated since the last hook; return the bytes traced now and the most since then.

        Its own books do not grow between hooks, so that they are taken as they were after the last one.
        """
        current, peak = self._tracing.read()
        self._traced_peak = max(self._traced_peak, peak - self._own - self._tracing.baseline)
        return current, peak

    def _books(self) -> int:
        """Return the bytes of what grows with the run: columns of numbers, and the buffers that are alive."""
        of_buffers = sys.getsizeof(self._live) + _BUFFER * len(self._live)
        return sys.getsizeof(self._steps) + of_buffers + self._recorder.nbytes

    def _kept_at_once(self) -> int:
        """Return the bytes traced now but for those of `_books`."""
        return tracemalloc.get_traced_memory()[0] - self._books()

    def _settle(self, kept: int | None = None) -> int:
        """End a hook: take stock of its own books, let the peak start anew; return the bytes traced now.

        ``kept`` is what `_kept_at_once` said before something that is kept once was made.
        """
        if kept is not None:
            self._once += self._kept_at_once() - kept
        self._own = self._once + self._books()
        return self._tracing.restart_peak()

    def _find_gradients(self) -> None:
        """Register what autograd put into ``grad``: it may be an op's output or a copy that no op made."""
        if not self._backward_ran:
            return
        for reference in self._leaves:
            leaf = reference()
            if leaf is not None and leaf.grad is not None:
                self._register(leaf.grad, "gradients")

    def _register(self, array: Array, category: Category) -> None:
        """Count the buffer of ``array`` once, under the first category that holds, or under a better one."""
        owner = owner_of(array)
        known = self._live.get(id(owner))
        if known is not None:
            if _ORDER.index(category) < _ORDER.index(known.category):
                self._bytes[known.category] -= known.nbytes
                known.category = category
                self._add(category, known.nbytes)
            return
        # The callback runs when the array is freed, before its address can be given to another one.
        buffer = _Buffer(owner, self._died)
        buffer.category, buffer.key, buffer.nbytes = category, id(owner), owner.nbytes
        self._live[buffer.key] = buffer
        self._add(category, owner.nbytes)
        if not self._made_in_run(owner, category):
            self._standing += owner.nbytes

    def _made_in_run(self, owner: Array, category: Category) -> bool:
        if self._tracing.own_session:
            return tracemalloc.get_object_traceback(owner) is not None
        return category in ("activations", "outputs") or (category == "gradients" and self._backward_ran)

    def _add(self, category: Category, nbytes: int) -> None:
        self._bytes[category] += nbytes
        self._highest[category] = max(self._highest[category], self._bytes[category])

    def finished(self) -> MemoryProfile:
        """Return what was found; nothing is followed any longer."""
        self._read()
        self._find_gradients()
        self._array_peak = max(self._array_peak, sum(self._bytes.values()))
        final = dict(self._bytes)
        self._live.clear()
        return MemoryProfile(
            run=self._recorder.profile(self._start, time.perf_counter_ns()),
            steps=tuple(
                Step(allocated, temporary, peak, tuple(live))
                for allocated, temporary, peak, *live in rows_of(self._steps, 3 + len(CATEGORIES))
            ),
            highest=dict(self._highest),
            final=final,
            standing=self._standing,
            traced_peak=max(self._traced_peak, 0),
            array_peak=self._array_peak,
            exact_origin=self._tracing.own_session,
        )


def _died(live: dict[int, _Buffer], of_category: dict[Category, int], buffer: weakref.ref[Array]) -> None:
    """Forget a buffer whose array was freed."""
    if isinstance(buffer, _Buffer) and live.get(buffer.key) is buffer:
        del live[buffer.key]
        of_category[buffer.category] -= buffer.nbytes


#: A buffer that is several things is counted as the first of these.
_ORDER: tuple[Category, ...] = ("parameters", "buffers", "optimizer", "gradients", "inputs", "activations", "outputs")


class MemoryRecording:
    """``watch`` says what else to follow; ``profile`` is there once the body of `recording_memory` has ended."""

    profile: MemoryProfile

    def __init__(self, life: ArrayLife) -> None:
        self.watch = life.watch


@contextmanager
def recording_memory(
    *held: Module | Optimizer | Tensor, parameters: Iterable[Tensor | Array] = ()
) -> Iterator[MemoryRecording]:
    """Follow the memory of the body, and of ``held`` (models, optimizers, tensors whose gradients are wanted).

    ``parameters`` are those of a model that may be no Module.
    """
    with collector_off(), Tracing() as tracing:
        life = ArrayLife(tracing)
        life.follow_parameters(parameters)
        life.watch(held)
        result = MemoryRecording(life)
        try:
            with observed_by(life):
                yield result
        finally:
            result.profile = life.finished()
