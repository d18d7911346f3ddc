"""The event stream: every op and module call of a run as recorded at the seam, grouped by op and by module."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import time
import weakref
from array import array as numbers
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, apply, is_observed, no_grad, observed_by
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array, Call, Phase, Saved, Spec, UncountedError, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement, collector_off, current_blas_threads, difference, interleave

Key = TypeVar("Key")
Integers = npt.NDArray[np.int64]

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


#: Name of the regions in which Python's garbage collector ran.
COLLECTOR = "garbage collector"


@dataclass(frozen=True, slots=True)
class Region:
    """One run of a named region of the program, or of the garbage collector: its start and end in ns.

    ``waited`` are the nanoseconds of it in which this thread did not run, because it waited for a file, a lock or other
    threads, or because other programs had its core.
    """

    name: str
    start: int
    end: int
    waited: int


#: All of an event but its times.
_same = attrgetter("op", "implementation", "phase", "path", "inputs", "output", "work", "traffic")


class Columns(Sequence[Event]):
    """Events in columns: what they have in common once, and of each its kind, start, end and own time, 32 bytes.

    Attributes:
        kinds: one event for each combination of op, module and shapes that ran; its times mean nothing.
        kind: which of ``kinds`` each event is.
        start, end, self_ns: the times of each event, as in `Event`.
    """

    def __init__(
        self, kinds: Sequence[Event], kind: Integers, start: Integers, end: Integers, self_ns: Integers
    ) -> None:
        self.kinds = tuple(kinds)
        self.kind, self.start, self.end, self.self_ns = kind, start, end, self_ns

    def __len__(self) -> int:
        return len(self.kind)

    def _event(self, kind: int, start: int, end: int, self_ns: int) -> Event:
        return Event(*(*_same(self.kinds[kind]), start, end, self_ns))

    def __iter__(self) -> Iterator[Event]:
        rows = zip(self.kind.tolist(), self.start.tolist(), self.end.tolist(), self.self_ns.tolist(), strict=True)
        return itertools.starmap(self._event, rows)

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        if isinstance(index, slice):
            part = (self.kind[index], self.start[index], self.end[index], self.self_ns[index])
            return tuple(Columns(self.kinds, *part))
        return self._event(
            int(self.kind[index]), int(self.start[index]), int(self.end[index]), int(self.self_ns[index])
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def of(cls, events: Sequence[Event]) -> Columns:
        """Return ``events`` in columns."""
        if isinstance(events, Columns):
            return events
        known: dict[Any, int] = {}
        kinds: list[Event] = []
        rows = np.empty((len(events), 4), np.int64)
        for index, event in enumerate(events):
            kind = known.setdefault(_same(event), len(kinds))
            if kind == len(kinds):
                kinds.append(event)
            rows[index] = kind, event.start, event.end, event.self_ns
        return cls(kinds, *rows.T)


@dataclass(frozen=True)
class Profile:
    """One recorded run: what every read-out is made of.

    ``events`` of a recording are `Columns`. ``start`` and ``end`` are those of the whole run, in ns; ``blas_threads``
    is how many BLAS might use at its end, None if that is not known. ``waited`` is that of `Region` for the whole run,
    None if nobody looked. ``unseen`` are names of other threads that ran ops meanwhile, of which nothing is recorded.
    """

    events: Sequence[Event]
    spans: tuple[Span, ...]
    start: int
    end: int
    process: int
    thread: int
    blas_threads: int | None
    regions: tuple[Region, ...] = ()
    waited: int | None = None
    unseen: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> Columns:
        """The events in columns."""
        return Columns.of(self.events)

    @property
    def wall_seconds(self) -> float:
        """Wall time of the run in seconds, with Python, the seam and the profiler between the ops."""
        return (self.end - self.start) * 1e-9

    @property
    def op_seconds(self) -> float:
        """Sum of the self times of all ops in seconds; at most `wall_seconds`."""
        return int(self.columns.self_ns.sum()) * 1e-9

    @property
    def uncounted(self) -> tuple[str, ...]:
        """Names of the ops that declare no work formula, sorted."""
        return tuple(sorted({event.op for event in self.columns.kinds if event.work is None}))


#: Bytes of a whole number that is an address or a count.
NUMBER = sys.getsizeof(1 << 40)


class Recorder(Observer):
    """Keeps every op, module call and region while it is installed; `profile` makes the result.

    It keeps no array alive: parameters that may hold one are left out. Of an op that ran before on the same shapes in
    the same module it keeps three numbers, in one array, so that there is nothing for the garbage collector to walk.
    """

    def __init__(self) -> None:
        self._kinds: dict[Any, int] = {}
        self._calls: list[tuple[str, Call]] = []
        self._ops = numbers("q")  # kind, start, end
        self._names: dict[tuple[str, str], int] = {}
        self._spans = numbers("q")  # name, depth, start, end
        self._running: list[int] = []
        self._regions = numbers("q")  # name, start, end, and the thread's own time in between
        self._region_names: dict[str, int] = {}
        self._open: list[tuple[str, int]] = []
        self._collecting: int | None = None
        self._paths: dict[int, str] = {}
        self._joined: dict[str, str] = {}
        self._roots: list[tuple[weakref.ref[Module], str]] = []
        self._root = ""
        self._thread = threading.get_ident()
        self._elsewhere: set[str] = set()

    @property
    def kinds(self) -> int:
        """How many kinds of op it has seen: what it keeps of each, it keeps once."""
        return len(self._calls)

    @property
    def nbytes(self) -> int:
        """Bytes of what it keeps of each op, module call and region."""
        columns = (self._ops, self._spans, self._regions, self._paths)
        return sum(map(sys.getsizeof, columns)) + NUMBER * len(self._paths)

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Keep the call."""
        del inputs, outputs, saved
        params = call.params
        if call.phase == "forward":
            path = self._path(call.path) if self._running else call.path
            # A backward call carries the very dictionary that its forward call carried.
            self._paths[id(params)] = path
        else:
            path = self._paths.get(id(params), call.path)
        key: Any = (call.op, call.implementation, call.phase, path, call.inputs, call.output, call.needs)
        if params:
            key = (*key, *map(_keyed, params.items()))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._calls)
            self._calls.append((path, without_arrays(call)))
        self._ops.extend((kind, call.start, call.end))

    def _path(self, path: str) -> str:
        """Return a path from the outermost class."""
        joined = self._joined.get(path)
        if joined is None:
            joined = self._joined[path] = _joined(self._root, path)
        return joined

    def enter_module(self, path: str, module: Module) -> None:
        """Keep the beginning of a module's forward."""
        if not self._running and not path:
            self._rooted(self._label(module))
        name = (self._path(path), type(module).__name__)
        number = self._names.setdefault(name, len(self._names))
        depth = len(self._running)
        self._running.append(len(self._spans) + 3)
        now = time.perf_counter_ns()
        self._spans.extend((number, depth, now, -1))

    def leave_module(self, path: str, module: Module) -> None:
        """Keep the end of a module's forward."""
        del path, module
        self._spans[self._running.pop()] = time.perf_counter_ns()
        if not self._running:
            self._rooted("")

    def _rooted(self, root: str) -> None:
        if root != self._root:
            self._root, self._joined = root, {}

    def enter_region(self, name: str) -> None:
        """Keep the beginning of a region."""
        number = self._region_names.setdefault(name, len(self._region_names))
        self._open.append((name, len(self._regions)))
        ran, now = time.thread_time_ns(), time.perf_counter_ns()
        self._regions.extend((number, now, -1, -ran))

    def leave_region(self, name: str) -> None:
        """Keep the end of the region of that name that began last: regions may cross."""
        now, ran = time.perf_counter_ns(), time.thread_time_ns()
        at = next((at for opened, at in reversed(self._open) if opened == name), None)
        if at is not None:
            self._open.remove((name, at))
            self._regions[at + 2] = now
            self._regions[at + 3] += ran

    def elsewhere(self) -> None:
        """Keep the name of the thread."""
        self._elsewhere.add(threading.current_thread().name)

    def collected(self, phase: str, info: Mapping[str, int]) -> None:
        """Keep a run of the garbage collector as a region; one of ``gc.callbacks``."""
        del info
        if threading.get_ident() != self._thread:
            return
        now = time.perf_counter_ns()
        if phase == "start":
            self._collecting = now
        elif self._collecting is not None:
            number = self._region_names.setdefault(COLLECTOR, len(self._region_names))
            self._regions.extend((number, self._collecting, now, now - self._collecting))
            self._collecting = None

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

    def profile(self, start: int, end: int, waited: int | None = None) -> Profile:
        """Return what was recorded of a run from ``start`` to ``end`` (``time.perf_counter_ns``)."""
        names, regions = list(self._names), list(self._region_names)
        spans = tuple(
            Span(*names[name], depth, first, end if last < 0 else last)
            for name, depth, first, last in rows_of(self._spans, 4)
        )
        # A region without an end was left by the end of the recording, whose own time nobody read.
        named = tuple(
            Region(regions[name], first, end if last < 0 else last, max(last - first - ran, 0) if last >= 0 else 0)
            for name, first, last, ran in rows_of(self._regions, 4)
        )
        kind, first, last = np.array(self._ops, np.int64).reshape(-1, 3).T
        own = _self_times(first, last, [*spans, *named])
        events = Columns([_event(path, call) for path, call in self._calls], kind, first, last, own)
        threads, unseen = current_blas_threads(), tuple(sorted(self._elsewhere))
        return Profile(events, spans, start, end, os.getpid(), self._thread, threads, named, waited, unseen)


def rows_of(flat: Sequence[int], width: int) -> Iterator[Sequence[int]]:
    """Yield the rows of a table that lie one after the other in ``flat``."""
    return (flat[at : at + width] for at in range(0, len(flat), width))


def _joined(root: str, path: str) -> str:
    return f"{root}.{path}" if root and path else root or path


def without_arrays(call: Call) -> Call:
    """Return ``call`` without the parameters that may hold arrays; work formulas do not look at these."""
    if all(map(_may_be_kept, call.params.values())):
        return call
    params = {name: value for name, value in call.params.items() if _may_be_kept(value)}
    op, how, phase, path, needs = call.op, call.implementation, call.phase, call.path, call.needs
    # The constructor, because dataclasses.replace takes three times as long.
    return Call(op, how, phase, path, call.inputs, call.output, params, needs, call.start, call.end)


def _may_be_kept(value: Any) -> bool:
    """Return whether a parameter surely holds no array."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is tuple:
        return _SCALARS.issuperset(map(type, value)) or all(map(_may_be_kept, value))
    if kind is slice:
        return _SCALARS.issuperset((type(value.start), type(value.stop), type(value.step)))
    return isinstance(value, (np.dtype, np.random.Generator))


def _keyed(param: tuple[str, Any]) -> tuple[Any, ...]:
    """Return a parameter as part of a key that tells calls of different cost apart; of an array only that it is one."""
    name, value = param
    kind = type(value)
    if kind in _SCALARS:
        return name, kind, value
    if kind is tuple:
        return name, kind, *[_keyed(("", part)) for part in value]
    if kind is slice:
        return name, kind, value.start.__class__, value.stop.__class__, *_bounds(value)
    return (name, kind, value) if isinstance(value, np.dtype) else (name, kind)


def _bounds(cut: slice) -> tuple[Any, ...]:
    """Return start, stop and step of a slice if they are scalars."""
    parts = (cut.start, cut.stop, cut.step)
    return parts if _SCALARS.issuperset(map(type, parts)) else ()


def _event(path: str, call: Call) -> Event:
    """Return a call as an event: without work where the op declares no formula, without own time."""
    try:
        work: Work | None = call.work
    except UncountedError:
        work = None
    name, how = call.op.name, call.implementation.name
    return Event(name, how, call.phase, path, call.inputs, call.output, work, call.traffic, call.start, call.end, 0)


def _self_times(start: Integers, end: Integers, others: Sequence[Region | Span]) -> Integers:
    """Return nanoseconds of each op without the ops, modules, regions and runs of the collector inside it.

    Ops are given in the order of their ends, as they are kept.
    """
    own = end - start
    if not len(own):
        return own
    starts = np.array([other.start for other in others], np.int64)
    ends = np.array([other.end for other in others], np.int64)
    if bool((start[1:] >= end[:-1]).all()):  # no op in an op: what lies in one is in the first that ends later
        at = np.minimum(np.searchsorted(end, starts, side="right"), len(end) - 1)
        within = (start[at] < starts) & (end[at] >= ends)
        if not within.any():
            return own
        starts, ends = starts[within], ends[within]
    all_starts, all_ends = np.concatenate([start, starts]), np.concatenate([end, ends])
    lengths = all_ends - all_starts
    times = list(zip(all_starts.tolist(), all_ends.tolist(), strict=True))
    running: list[int] = []
    # Of two alike the outer one is the module or region, or else the op that was kept later.
    for index in np.lexsort((-np.arange(len(times)), -all_ends, all_starts)).tolist():
        first, last = times[index]
        while running and times[running[-1]][1] <= first:
            running.pop()
        if running:
            lengths[running[-1]] -= last - first
        running.append(index)
    return lengths[: len(own)]


def median_profile(runs: Sequence[Profile]) -> Profile:
    """Return one run in which each stretch between two moments takes the median of what it took in all ``runs``.

    Moments are the beginnings and ends of ops, module calls and regions, so that a pause of one run is no part of it.
    Runs that did not do the same in the same order have none: then it is the one whose wall time is the median.
    """
    middle = sorted(runs, key=lambda run: run.wall_seconds)[len(runs) // 2]
    if len({_structure(run) for run in runs}) > 1:
        return middle
    each = np.array([_moments(run) for run in runs])
    order = np.argsort(each[0], kind="stable")
    if (np.diff(each[:, order]) < 0).any():
        return middle
    passed = np.concatenate([[0], np.cumsum(np.median(np.diff(each[:, order]), axis=0))])
    made = np.empty(each.shape[1], np.int64)
    made[order] = np.round(passed).astype(np.int64) + middle.start
    ends = iter(made[2:].tolist())
    spans = tuple(replace(span, start=next(ends), end=next(ends)) for span in middle.spans)
    regions = tuple(
        replace(region, start=(began := next(ends)), end=(ended := next(ends)), waited=_waited(alike, ended - began))
        for region, *alike in zip(middle.regions, *(run.regions for run in runs), strict=True)
    )
    start, end = made[2 + 2 * (len(spans) + len(regions)) :].reshape(2, -1)
    own = _self_times(start, end, [*spans, *regions])
    events = Columns(middle.columns.kinds, middle.columns.kind, start, end, own)
    begun, over = made[:2].tolist()
    waited = None if any(run.waited is None for run in runs) else _waited(runs, over - begun)
    return replace(middle, events=events, spans=spans, regions=regions, start=begun, end=over, waited=waited)


def _waited(alike: Sequence[Profile] | Sequence[Region], lasted: int) -> int:
    """Return what a median stretch waits that ``lasted`` so long: all but the median of the time in which it ran."""
    ran = float(np.median([one.end - one.start - (one.waited or 0) for one in alike]))
    return max(lasted - round(ran), 0)


def _structure(run: Profile) -> tuple[Any, ...]:
    """Return what ran, without its times."""
    columns = run.columns
    spans = tuple((span.path, span.depth) for span in run.spans)
    return tuple(map(_same, columns.kinds)), columns.kind.tobytes(), spans, tuple(region.name for region in run.regions)


def _moments(run: Profile) -> Integers:
    """Return the moments of a run: its own, those of its module calls and regions, and of its ops."""
    parts: list[Span | Region] = [*run.spans, *run.regions]
    named = [moment for one in parts for moment in (one.start, one.end)]
    return np.concatenate([np.array([run.start, run.end, *named], np.int64), run.columns.start, run.columns.end])


class Recording:
    """Holds the `Profile` of a `recording` once its body has ended."""

    profile: Profile


@contextmanager
def recording(timed: bool = True) -> Iterator[Recording]:
    """Record the body; the yielded object has ``profile`` afterwards, also after an error.

    The garbage collector is off meanwhile, so that runs of one call are alike. With ``timed`` false, for counting and
    for whole programs, it is left alone; what it takes is a region of its own in either case.
    """
    recorder, result = Recorder(), Recording()
    with collector_off() if timed else nullcontext():
        gc.callbacks.append(recorder.collected)
        ran, start = time.thread_time_ns(), time.perf_counter_ns()
        try:
            with observed_by(recorder):
                yield result
        finally:
            end, ran = time.perf_counter_ns(), time.thread_time_ns() - ran
            gc.callbacks.remove(recorder.collected)
            result.profile = recorder.profile(start, end, max(end - start - ran, 0))


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
    return difference(both["with"], both["without"], "profiler's own cost").scaled(
        1 / _OPS_OF_A_SAMPLE, name="profiler's own cost of one op, an addition of one element"
    )


_CALLS_OF_A_SAMPLE = 50


def module_overhead() -> float | None:
    """Return the seconds that recording adds to a call of a module, measured now, in some milliseconds.

    It is the median of five differences, each of a row of calls with a `Recorder` and one without; None where an
    observer is installed.
    """
    if is_observed():
        return None
    module = Sequential()  # which does nothing, so that a call of it costs what a call costs

    def taken() -> int:
        start = time.perf_counter_ns()
        for _ in range(_CALLS_OF_A_SAMPLE):
            module(0)
        return time.perf_counter_ns() - start

    added = []
    for _ in range(5):
        without = taken()
        with observed_by(Recorder()):
            added.append(taken() - without)
    return max(sorted(added)[2], 0) * 1e-9 / _CALLS_OF_A_SAMPLE


def counted(events: Sequence[Event]) -> list[tuple[Event, int]]:
    """Return events of which each is asked for alike, and how many there are of each: of many, far fewer."""
    if isinstance(events, Columns):
        calls = np.bincount(events.kind, minlength=len(events.kinds)).tolist()
        return [(kind, count) for kind, count in zip(events.kinds, calls, strict=True) if count]
    each = list(events)  # which keeps them alive, so that no other one gets the address of one
    calls_of = Counter(map(id, each))
    return [(event, calls_of[id(event)]) for event in {id(event): event for event in each}.values()]


#: Op, phase and implementation.
OpKey = tuple[str, str, str]


def op_groups(profile: Profile) -> dict[OpKey, list[int]]:
    """Return the positions of the events of each op, phase and implementation, in order of first appearance."""
    return _positions(profile, lambda event: (event.op, event.phase, event.implementation))


def _positions(profile: Profile, key: Callable[[Event], Key]) -> dict[Key, list[int]]:
    """Return the positions of the events of each key, which is that of their kind, in order of first appearance."""
    columns = profile.columns
    known: dict[Key, int] = {}
    of_kind = np.array([known.setdefault(key(event), len(known)) for event in columns.kinds], np.int64)
    order = np.argsort(of_kind[columns.kind], kind="stable")
    counts = np.bincount(of_kind[columns.kind], minlength=len(known))
    parts = np.split(order, np.cumsum(counts)[:-1]) if known else []
    found = {name: part.tolist() for name, part in zip(known, parts, strict=True) if len(part)}
    return dict(sorted(found.items(), key=lambda item: item[1][0]))


def module_classes(profile: Profile) -> dict[str, str]:
    """Return the class of each module that ran or whose backward ran, by path, each before those in it.

    The class is "" where the module's forward was not part of the run; the path "" is what ran outside modules.
    """
    classes: dict[str, str] = {}
    for span in profile.spans:
        classes.setdefault(span.path, span.module)
    for path in _positions(profile, lambda event: event.path):
        classes.setdefault(path, "")
    return {path: classes[path] for path in _outer_first(classes)}


def layer_groups(profile: Profile) -> dict[str, list[int]]:
    """Return the positions of the events of each module and the modules in it, by path, each before those in it."""
    own = _positions(profile, lambda event: event.path)
    return {
        path: sorted(index for other in own if (inside(other, path) if path else other == path) for index in own[other])
        for path in module_classes(profile)
    }


def inside(path: str, outer: str) -> bool:
    """Return whether ``path`` is ``outer`` or a module in it."""
    return path == outer or path.startswith(f"{outer}.")


def _outer_first(paths: Iterable[str]) -> list[str]:
    """Return paths so that each follows the one that holds it, else in the order given."""
    place = {path: at for at, path in enumerate(paths)}

    def way(path: str) -> list[int]:
        parts = path.split(".")
        outer = (".".join(parts[: count + 1]) for count in range(len(parts)))
        return [place[one] for one in outer if one in place]

    return sorted(place, key=way)
