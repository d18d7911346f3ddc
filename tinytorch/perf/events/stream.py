"""The event stream: every op and module call of a run as recorded at the seam, grouped by op and by module."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, apply, is_observed, no_grad, observed_by
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Call, Phase, Saved, Spec, UncountedError, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement, collector_off, current_blas_threads, interleave

#: An op shorter than this many times the profiler's own cost is marked in tables.
SHORT = 20
#: Parameters of an op that hold no array, so that a recorded call may keep them.
_SCALARS = frozenset({int, float, bool, str, type(None)})


@dataclass(frozen=True, slots=True)
class Event:
    """One op that ran. It holds shapes and numbers, never an array.

    Attributes:
        path: the module it belongs to, from the outermost class: ``GPT.blocks.0.mlp``; "" outside modules.
        work: arithmetic by the op's formula, or None if the op declares none.
        traffic: compulsory bytes: each operand read once, each result written once.
        start, end: readings of ``time.perf_counter_ns``.
        self_ns: nanoseconds of the op without ops that ran inside it.
    """

    op: str
    implementation: str
    phase: Phase
    path: str
    inputs: tuple[Spec, ...]
    output: Spec
    work: Work | None
    traffic: int
    start: int
    end: int
    self_ns: int

    @property
    def total_ns(self) -> int:
        """Nanoseconds from start to end."""
        return self.end - self.start

    @property
    def macs(self) -> int | None:
        """Multiply-accumulates of contractions, or None if uncounted."""
        return None if self.work is None else self.work.macs

    @property
    def flops(self) -> int | None:
        """FLOPs of contractions, 2 for each multiply-accumulate, or None if uncounted."""
        return None if self.work is None else 2 * self.work.macs

    @property
    def elementwise(self) -> int | None:
        """Every other arithmetic operation, or None if uncounted."""
        return None if self.work is None else self.work.elementwise


@dataclass(frozen=True, slots=True)
class Span:
    """One call of a module's forward: its path, its class, how deep it is nested, and its start and end in ns."""

    path: str
    module: str
    depth: int
    start: int
    end: int


@dataclass(frozen=True)
class Profile:
    """One recorded run: what every read-out is made of.

    ``start`` and ``end`` are those of the whole run, in ns; ``blas_threads`` is how many BLAS might use at its
    end, None if that is not known.
    """

    events: tuple[Event, ...]
    spans: tuple[Span, ...]
    start: int
    end: int
    process: int
    thread: int
    blas_threads: int | None

    @property
    def wall_seconds(self) -> float:
        """Wall time of the run in seconds, with Python, the seam and the profiler between the ops."""
        return (self.end - self.start) * 1e-9

    @property
    def op_seconds(self) -> float:
        """Sum of the self times of all ops in seconds; at most `wall_seconds`."""
        return sum(event.self_ns for event in self.events) * 1e-9

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Names of the ops that declare no work formula, sorted."""
        return tuple(sorted({event.op for event in self.events if event.work is None}))


@dataclass(frozen=True, slots=True)
class _Entered:
    """A module's forward began."""

    root: str
    path: str
    module: str
    when: int


class Recorder(Observer):
    """Keeps every op and module call while it is installed; `profile` makes the result.

    It keeps no array alive: parameters that may hold one are left out.
    """

    def __init__(self) -> None:
        self._log: list[Call | _Entered | int] = []
        self._append = self._log.append
        self._roots: list[tuple[weakref.ref[Module], str]] = []
        self._root = ""
        self._depth = 0
        self._thread = threading.get_ident()
        self._strangers = False

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Keep the call."""
        del inputs, outputs, saved
        for value in call.params.values():
            if type(value) not in _SCALARS and not _holds_no_array(value):
                call = _without_arrays(call)
                break
        if threading.get_ident() != self._thread:
            self._strangers = True
        self._append(call)

    def enter_module(self, path: str, module: Module) -> None:
        """Keep the beginning of a module's forward."""
        if self._depth == 0 and not path:
            self._root = self._label(module)
        self._depth += 1
        self._append(_Entered(self._root, path, type(module).__name__, time.perf_counter_ns()))

    def leave_module(self, path: str, module: Module) -> None:
        """Keep the end of a module's forward."""
        del path, module
        self._append(time.perf_counter_ns())
        self._depth -= 1
        if self._depth == 0:
            self._root = ""

    def _label(self, module: Module) -> str:
        """Return the class's name, numbered from the second module of that class on."""
        name = type(module).__name__
        same = 1
        for reference, label in self._roots:
            known = reference()
            if known is module:
                return label
            same += label.split("#")[0] == name
        label = name if same == 1 else f"{name}#{same}"
        self._roots.append((weakref.ref(module), label))
        return label

    def profile(self, start: int, end: int) -> Profile:
        """Return what was recorded of a run from ``start`` to ``end`` (``time.perf_counter_ns``).

        Raises:
            RuntimeError: if ops ran on more than one thread, whose times cannot be added up.
        """
        if self._strangers:
            raise RuntimeError("ops ran on more than one thread: profile the threads one after the other")
        spans: list[Span] = []
        running: list[int] = []
        calls: list[tuple[str, Call, tuple[Work | None, int]]] = []
        paths: dict[int, str] = {}
        root = ""
        for entry in self._log:
            if isinstance(entry, _Entered):
                root = entry.root
                spans.append(Span(_joined(root, entry.path), entry.module, len(running), entry.when, end))
                running.append(len(spans) - 1)
            elif isinstance(entry, int):
                position = running.pop()
                spans[position] = replace(spans[position], end=entry)
            else:
                path = _joined(root, entry.path) if running else entry.path
                if entry.phase == "forward":
                    paths[id(entry.inputs)] = path
                else:  # a backward call carries the very tuple that its forward call carried
                    path = paths.get(id(entry.inputs), entry.path)
                calls.append((path, entry, _cost(entry)))
        self_ns = _self_times([call for _, call, _ in calls])
        events = tuple(_event(path, call, cost, own) for (path, call, cost), own in zip(calls, self_ns, strict=True))
        return Profile(events, tuple(spans), start, end, os.getpid(), self._thread, current_blas_threads())


def _joined(root: str, path: str) -> str:
    return f"{root}.{path}" if root and path else root or path


def _without_arrays(call: Call) -> Call:
    """Return ``call`` without the parameters that may hold arrays; work formulas do not look at these."""
    params = {name: value for name, value in call.params.items() if _may_be_kept(value)}
    op, how, phase, path, needs = call.op, call.implementation, call.phase, call.path, call.needs
    # The constructor, because dataclasses.replace takes three times as long.
    return Call(op, how, phase, path, call.inputs, call.output, params, needs, call.start, call.end)


def _holds_no_array(value: Any) -> bool:
    """Return whether a parameter that is no scalar may be kept."""
    kind = type(value)
    if kind is tuple:
        return _SCALARS.issuperset(map(type, value)) or all(map(_may_be_kept, value))
    if kind is slice:
        return _SCALARS.issuperset((type(value.start), type(value.stop), type(value.step)))
    return isinstance(value, (np.dtype, np.random.Generator))


def _may_be_kept(value: Any) -> bool:
    return type(value) in _SCALARS or _holds_no_array(value)


def _cost(call: Call) -> tuple[Work | None, int]:
    """Return work, None where the op declares no formula, and traffic in bytes."""
    try:
        return call.work, call.traffic
    except UncountedError:
        return None, call.traffic


def _event(path: str, call: Call, cost: tuple[Work | None, int], self_ns: int) -> Event:
    work, traffic = cost
    name, how = call.op.name, call.implementation.name
    return Event(name, how, call.phase, path, call.inputs, call.output, work, traffic, call.start, call.end, self_ns)


def _self_times(calls: list[Call]) -> list[int]:
    """Return nanoseconds of each call without the calls inside it."""
    own = [call.end - call.start for call in calls]
    running: list[int] = []
    for index in sorted(range(len(calls)), key=lambda i: (calls[i].start, -calls[i].end)):
        while running and calls[running[-1]].end <= calls[index].start:
            running.pop()
        if running:
            own[running[-1]] -= calls[index].end - calls[index].start
        running.append(index)
    return own


class Recording:
    """Holds the `Profile` of a `recording` once its body has ended."""

    profile: Profile


@contextmanager
def recording(timed: bool = True) -> Iterator[Recording]:
    """Record the body; the yielded object has ``profile`` afterwards, also after an error.

    The garbage collector is off meanwhile: a recorded event is a Python object, and collections that the
    recording itself brings about would be timed with the ops. With ``timed`` false, for counting, it is left
    alone.
    """
    recorder, result = Recorder(), Recording()
    with collector_off() if timed else nullcontext():
        start = time.perf_counter_ns()
        try:
            with observed_by(recorder):
                yield result
        finally:
            result.profile = recorder.profile(start, time.perf_counter_ns())


_OPS_OF_A_SAMPLE = 200


def _ops(a: Tensor, b: Tensor) -> None:
    for _ in range(_OPS_OF_A_SAMPLE):
        apply(ops.add, a, b)


def profiler_overhead() -> Measurement:
    """Return what recording adds to one op, in seconds: measured now, in about a second.

    It is the difference between a chain of the cheapest op there is with a `Recorder` and the same chain
    without, sampled in turns, for each op of the chain.

    Raises:
        RuntimeError: if an observer is installed, because it would be measured too.
    """
    if is_observed():
        raise RuntimeError("profiler_overhead() measures without observers: call it outside of `with Profiler()`")
    one = Tensor(np.ones(1, np.float32))

    def observed() -> None:
        with observed_by(Recorder()):
            _ops(one, one)

    with no_grad():
        both = interleave({"without": lambda: _ops(one, one), "with": observed}, repeats=30, at_most_seconds=1.0)
    pairs = zip(both["with"].samples, both["without"].samples, strict=True)
    return Measurement(
        "profiler's own cost of one op",
        tuple((more - less) / _OPS_OF_A_SAMPLE for more, less in pairs),
        "s",
        {**both["with"].how, "ops": _OPS_OF_A_SAMPLE, "op": "add of one element"},
    )


#: Op, phase and implementation.
OpKey = tuple[str, str, str]


def op_groups(profile: Profile) -> dict[OpKey, list[int]]:
    """Return the positions of the events of each op, phase and implementation, in order of first appearance."""
    groups: dict[OpKey, list[int]] = {}
    for index, event in enumerate(profile.events):
        groups.setdefault((event.op, event.phase, event.implementation), []).append(index)
    return groups


def module_classes(profile: Profile) -> dict[str, str]:
    """Return the class of each module that ran or whose backward ran, by path, each before those in it.

    The class is "" where the module's forward was not part of the run; the path "" is what ran outside modules.
    """
    classes: dict[str, str] = {}
    for span in profile.spans:
        classes.setdefault(span.path, span.module)
    for event in profile.events:
        classes.setdefault(event.path, "")
    return {path: classes[path] for path in _outer_first(classes)}


def layer_groups(profile: Profile) -> dict[str, list[int]]:
    """Return the positions of the events of each module and the modules in it, by path, each before those in it."""
    paths = [event.path for event in profile.events]
    return {
        path: [i for i, other in enumerate(paths) if (inside(other, path) if path else other == path)]
        for path in module_classes(profile)
    }


def inside(path: str, outer: str) -> bool:
    """Return whether ``path`` is ``outer`` or a module in it."""
    return path == outer or path.startswith(f"{outer}.")


def _outer_first(paths: Iterable[str]) -> list[str]:
    """Return paths so that each follows the one that holds it, else in the order given."""
    given = list(paths)
    order: list[str] = []

    def visit(path: str) -> None:
        order.append(path)
        inner = [other for other in given if path and other != path and inside(other, path)]
        for child in inner:
            if child not in order and not any(o != child and inside(child, o) for o in inner):
                visit(child)

    for path in given:
        if path not in order and not any(other and other != path and inside(path, other) for other in given):
            visit(path)
    return order
