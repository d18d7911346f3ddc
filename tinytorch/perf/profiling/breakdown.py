"""Breakdown of a profile: its events added up by op and by module."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.perf.events.call_tree import Frame, call_tree, frames_of
from tinytorch.perf.events.stream import SHORT, Event, OpKey, Profile, inside, layer_groups, module_classes, op_groups
from tinytorch.perf.measuring import Measurement, derived
from tinytorch.perf.measuring.text_table import Column, mebibytes, milliseconds, number, percent, whole
from tinytorch.perf.roofline.placement import Placed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What the rows of ops and of layers have in common.

    Attributes:
        share: of the wall time of the run, 0 to 1. None in a memory run.
        macs, flops, elementwise: None if an op declares no work formula.
        bytes: compulsory traffic.
        gflops_per_second: FLOPs over the ops' own time, in 1e9; None where either is missing or no contraction ran.
        allocated: bytes that the calls allocated at their worst, added up; None without a memory run.
        of_roof: share of this machine's roof that was reached, 0 to 1. None without ceilings, in a memory run, and for
            ops that are uncounted or make views.
        bound: what bounds it, such as "memory-bound"; None where ``of_roof`` is.
    """

    share: float | None
    macs: int | None = None
    flops: int | None = None
    elementwise: int | None = None
    bytes: int | None = None
    gflops_per_second: float | None = None
    allocated: int | None = None
    of_roof: float | None = None
    bound: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow(_Work):
    """All calls of one op in one phase; or, with the phase "between ops", of one thing that takes time outside of ops.

    Such a thing is a region by its name, the Python of modules, the garbage collector, or what has no name. It is not
    counted: its arithmetic, bytes and place under the roof are None.

    Attributes:
        total_seconds, self_seconds: with and without ops inside; ``share`` is of the latter. None in a memory run.
        short: whether a call is on average under 20 times the profiler's own cost; None in a memory run.
        waiting_seconds: of a region, or of what has no name, with the ops but without the regions in it: the time in
            which the thread did not run, because it waited, or because other programs had its core. None for others.

    Examples:
        >>> from tinytorch import Linear, Profiler, Tensor
        >>> with Profiler() as p:
        ...     Linear(8, 4)(Tensor([[1.0] * 8])).sum().backward()
        >>> sorted((row.op, row.phase, row.flops) for row in p.key_averages() if row.op == "linear")
        [('linear', 'backward', 64), ('linear', 'forward', 64)]
    """

    op: str
    phase: str
    implementation: str
    calls: int
    total_seconds: float | None
    self_seconds: float | None
    short: bool | None = None
    waiting_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow(_Work):
    """All ops of one module, forward and backward; or a region or the garbage collector, which are not modules.

    Attributes:
        path: from the outermost class, ``GPT.blocks.0.mlp``; "" holds what ran outside modules. A region's name.
        module: class name; "" if the module's forward was not part of the run; "region" for what is not a module.
        depth: how many rows above hold this one.
        calls: how often its forward ran.
        self_seconds: its own ops.
        total_seconds: also those of the modules in it, as everything that follows; ``share`` is of it and of the time
            between ops.
        forward_seconds, backward_seconds: the two parts of ``total_seconds``.
        between_seconds: time of its forward calls and of those of the modules in it outside of ops and regions; of a
            region its own time; of "" what has no name.
        span_seconds: wall time of its forward calls, with all that ran in them.

    Examples:
        >>> from tinytorch import Linear, Profiler, Sequential, Tensor
        >>> with Profiler() as p:
        ...     y = Sequential(Linear(8, 4), Linear(4, 2))(Tensor([[1.0] * 8]))
        >>> [(row.path, row.module, row.depth, row.flops) for row in p.by_layer() if row.depth]
        [('Sequential.0', 'Linear', 1, 64), ('Sequential.1', 'Linear', 1, 16)]
    """

    path: str
    module: str
    depth: int
    calls: int
    self_seconds: float | None
    total_seconds: float | None
    forward_seconds: float | None
    backward_seconds: float | None
    between_seconds: float | None
    span_seconds: float | None


#: The phase of rows of time outside of ops, and the names of two of them.
BETWEEN, MODULES, NOT_NAMED = "between ops", "Python of modules", "not named"
#: What stands for the class in rows that are no modules.
REGION = "region"

Allocated = Sequence[int] | None


@dataclass(frozen=True, slots=True)
class _Sums:
    """Some events of a profile added up: how many there are of each kind, and their own time."""

    kinds: tuple[tuple[Event, int, int], ...]

    @property
    def self_ns(self) -> int:
        return sum(own for _, _, own in self.kinds)

    def own(self, attribute: str, value: str) -> int:
        """Return the own time of those of which an attribute has this value."""
        return sum(own for kind, _, own in self.kinds if getattr(kind, attribute) == value)

    def count(self, of_one: Callable[[Event], int | None]) -> int | None:
        """Return the sum, or None if one is not known: a part of a sum is not shown as the sum."""
        each = [(of_one(kind), calls) for kind, calls, _ in self.kinds]
        return None if any(value is None for value, _ in each) else sum((value or 0) * calls for value, calls in each)


def _sums(profile: Profile, indices: Sequence[int]) -> _Sums:
    columns, chosen = profile.columns, np.asarray(indices, np.int64)
    kind, many = columns.kind[chosen], len(columns.kinds)
    calls, own = np.bincount(kind, minlength=many), np.zeros(many, np.int64)
    np.add.at(own, kind, columns.self_ns[chosen])
    rows = zip(columns.kinds, calls.tolist(), own.tolist(), strict=True)
    return _Sums(tuple(row for row in rows if row[1]))


def op_rows(
    profile: Profile,
    allocated: Allocated,
    timed: bool,
    overhead_seconds: float | None = None,
    placed: Mapping[OpKey, Placed] | None = None,
) -> list[OpRow]:
    """Return one row for each op, phase and implementation, in order of first appearance.

    Args:
        profile: the recorded run.
        allocated: bytes for each event, from a memory run of the same ops.
        timed: False if the times are those of a memory run, and not to be shown.
        overhead_seconds: the profiler's own cost of an op, if it is known.
        placed: where ops stand under the roof, of `roofline.place_ops`.
    """
    rows, columns = [], profile.columns
    for key, indices in op_groups(profile).items():
        found = _sums(profile, indices)
        first, own = found.kinds[0][0], found.self_ns
        total = int((columns.end[indices] - columns.start[indices]).sum())
        short = None
        if timed and overhead_seconds is not None:
            short = own * 1e-9 / len(indices) < SHORT * overhead_seconds
        rows.append(
            OpRow(
                op=first.op,
                phase=first.phase,
                implementation=first.implementation,
                calls=len(indices),
                total_seconds=total * 1e-9 if timed else None,
                self_seconds=own * 1e-9 if timed else None,
                share=own / (profile.end - profile.start) if timed else None,
                short=short,
                **_work(found, indices, allocated, timed, (placed or {}).get(key)),
            )
        )
    return rows


def _work(
    found: _Sums, indices: Sequence[int], allocated: Allocated, timed: bool, placed: Placed | None
) -> dict[str, Any]:
    """Return the fields of a row from ``macs`` on; GFLOP/s is FLOPs a nanosecond."""
    flops, own = found.count(lambda kind: kind.flops), found.self_ns
    return {
        "macs": found.count(lambda kind: kind.macs),
        "flops": flops,
        "elementwise": found.count(lambda kind: kind.elementwise),
        "bytes": found.count(lambda kind: kind.traffic),
        "gflops_per_second": flops / own if timed and flops and own else None,
        "allocated": None if allocated is None else sum(allocated[i] for i in indices),
        "of_roof": placed.of_roof.median if placed else None,
        "bound": placed.verdict.sentence_word if placed else None,
    }


def between_rows(profile: Profile) -> list[OpRow]:
    """Return one row for each thing that takes time outside of ops; with `op_rows` they sum to the wall time."""
    tree = call_tree(profile)
    rows: dict[str, list[Frame]] = {}
    for frame in tree.all():
        if frame.kind in ("region", "collector"):
            rows.setdefault(frame.name, []).append(frame)
        elif frame.kind == "module" and frame.calls:
            rows.setdefault(MODULES, []).append(frame)
    rows[NOT_NAMED] = [tree]
    outermost, made = _outermost(tree), []
    for name, frames in rows.items():
        own, kind = sum(frame.self_ns for frame in frames), frames[0].kind
        waits = kind == "region" or (kind == "run" and profile.waited is not None)
        made.append(
            OpRow(
                op=name,
                phase=BETWEEN,
                implementation="",
                calls=sum(frame.calls for frame in frames),
                total_seconds=outermost[name] * 1e-9,
                self_seconds=own * 1e-9,
                share=own / (profile.end - profile.start),
                waiting_seconds=max(sum(frame.waited for frame in frames), 0) * 1e-9 if waits else None,
            )
        )
    return made


def _outermost(tree: Frame) -> Mapping[str, int]:
    """Return nanoseconds of all that `between_rows` names, with what is in it: what lies in its own kind not twice."""
    found = {NOT_NAMED: tree.total_ns}

    def visit(frame: Frame, around: frozenset[str]) -> None:
        if frame.kind in ("module", "region", "collector"):
            name = MODULES if frame.kind == "module" else frame.name
            if name not in around:
                found[name] = found.get(name, 0) + frame.total_ns
            around |= {name}
        for inner in frame.inner.values():
            visit(inner, around)

    visit(tree, frozenset())
    return found


def layer_rows(
    profile: Profile, allocated: Allocated, timed: bool, placed: Mapping[str, Placed] | None = None
) -> list[LayerRow]:
    """Return one row for each module that ran or whose backward ran, each before those in it, and for each region.

    Arguments are those of `op_rows`; ``placed`` is of `roofline.place_layers`. In a timed run the shares of the
    outermost modules, of "" and of the regions sum to 1.
    """
    classes, groups, tree = module_classes(profile), layer_groups(profile), call_tree(profile)
    wall = profile.end - profile.start

    def seconds(nanoseconds: int) -> float | None:
        return nanoseconds * 1e-9 if timed else None

    if timed:
        classes.setdefault("", "")
        groups.setdefault("", [])
    between = dict.fromkeys(classes, 0)
    regions: dict[str, list[Frame]] = {}
    for frame in tree.all():
        if frame.kind in ("region", "collector"):
            regions.setdefault(frame.name, []).append(frame)
        elif frame.kind == "module" and frame.self_ns:
            for outer in frames_of(frame.path, set(classes)):
                between[outer] += frame.self_ns
        elif frame.kind == "run" and "" in between:
            between[""] += frame.self_ns
    spans: dict[str, list[int]] = {}
    for span in profile.spans:
        spans.setdefault(span.path, []).append(span.end - span.start)
    rows = []
    for path, indices in groups.items():
        found = _sums(profile, indices)
        rows.append(
            LayerRow(
                path=path,
                module=classes[path],
                depth=sum(inside(path, other) for other in classes if other and other != path),
                calls=len(spans.get(path, [])),
                share=(found.self_ns + between[path]) / wall if timed else None,
                self_seconds=seconds(found.own("path", path)),
                total_seconds=seconds(found.self_ns),
                forward_seconds=seconds(found.own("phase", "forward")),
                backward_seconds=seconds(found.own("phase", "backward")),
                between_seconds=seconds(between[path]),
                span_seconds=seconds(sum(spans.get(path, []))),
                **_work(found, indices, allocated, timed, (placed or {}).get(path)),
            )
        )
    for name, frames in regions.items() if timed else ():
        own = sum(frame.self_ns for frame in frames)
        rows.append(
            LayerRow(
                path=name,
                module=REGION,
                depth=0,
                calls=sum(frame.calls for frame in frames),
                self_seconds=0.0,
                total_seconds=0.0,
                forward_seconds=0.0,
                backward_seconds=0.0,
                between_seconds=own * 1e-9,
                span_seconds=sum(frame.total_ns for frame in frames) * 1e-9,
                share=own / wall,
            )
        )
    return rows


def attention_seconds(profile: Profile) -> float:
    """Return the time of a timed run in modules whose class has "attention" in its name, and in such ops elsewhere.

    A module's time is that of its forward calls, with its projections and the Python between its ops, and of its
    backward's ops.
    """
    rows = [row for row in layer_rows(profile, None, timed=True) if "attention" in row.module.lower()]
    outer = [row for row in rows if not any(inside(row.path, one.path) for one in rows if one is not row)]
    elsewhere = (
        event.self_ns * 1e-9
        for event in profile.events
        if "attention" in event.op and not any(inside(event.path, row.path) for row in outer)
    )
    return sum((row.total_seconds or 0) + (row.between_seconds or 0) for row in outer) + sum(elsewhere)


#: Share of a part beyond which no limit is told: a thousand is as good as none.
MOST = 0.999


def amdahl(share: float, speedup: float) -> float:
    """Return the whole's predicted speedup when a part of ``share`` of its time gets ``speedup`` times faster.

    1 / ((1 - p) + p / s); infinity is allowed for ``speedup`` and gives the bound. A prediction, not a
    measurement. Source: G. Amdahl, AFIPS Spring Joint Computer Conference, 1967.

    Raises:
        ValueError: if ``share`` is outside 0 to 1 or ``speedup`` is not above 0.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"share must lie between 0 and 1, not {share}")
    if not speedup > 0:
        raise ValueError(f"speedup must be above 0, not {speedup}; above 1 is faster")
    left = (1 - share) + share / speedup
    return 1 / left if left else math.inf


def predicted_speedup(share: Measurement, speedup: Measurement | None, name: str) -> Measurement:
    """Return `amdahl` of a measured share and a measured speedup of that part; None bounds it by a part without time.

    It holds all that is known of both. A share that noise puts below 0 or above `MOST` is taken as that.
    """

    def whole(part: Any, times: Any = math.inf) -> Any:
        clipped = np.clip(part, 0.0, MOST)
        return 1 / ((1 - clipped) + clipped / times)

    sides = (share,) if speedup is None else (share, speedup)
    return derived(name, whole, *sides, statistic="Amdahl's law of the median")


def amdahl_of_parts(seconds: Sequence[float], ratios: Sequence[float]) -> float:
    """Return the predicted speedup of a whole whose parts take ``seconds`` and change by ``ratios``, after over before.

    Σ t / Σ t r: with the two parts 1 - p and p and the ratios 1 and 1 / s it is `amdahl`.

    Raises:
        ValueError: if there are no parts, not as many ratios, a number is below 0, or no time is left.
    """
    if not seconds or len(seconds) != len(ratios):
        raise ValueError(f"ratios must be as many as the parts, {len(seconds)} and at least 1, not {len(ratios)}")
    if min(*seconds, *ratios) < 0:
        raise ValueError(f"seconds and ratios must be at least 0, not {min(*seconds, *ratios)}")
    left = sum(time * ratio for time, ratio in zip(seconds, ratios, strict=True))
    if not left > 0:
        raise ValueError("ratios must leave some time: nothing runs in no time")
    return sum(seconds) / left


_shown_work = (
    Column("flops", "MFLOPs", number(3, 1e-6)),
    Column("elementwise", "others (M)", number(3, 1e-6)),
    Column("bytes", "traffic (MiB)", mebibytes),
    Column("gflops_per_second", "GFLOP/s", number(1)),
    Column("allocated", "allocated (MiB)", mebibytes),
    Column("of_roof", "of roof (%)", percent),
    Column("bound", "bound by", lambda words: words.removesuffix("-bound") if words else "–", numeric=False),
)

OP_COLUMNS = (
    Column("op", "op", numeric=False),
    Column("phase", "phase", numeric=False),
    Column("implementation", "by", numeric=False),
    Column("calls", "calls", whole),
    Column("share", "share (%)", percent),
    Column("self_seconds", "self (ms)", milliseconds),
    Column("total_seconds", "total (ms)", milliseconds),
    Column("waiting_seconds", "waiting (ms)", milliseconds),
    Column("short", "", lambda short: "*" if short else "", numeric=False),
    *_shown_work,
)

LAYER_COLUMNS = (
    Column("path", "module", lambda path: path or "(outside modules)", numeric=False),
    Column("module", "class", numeric=False),
    Column("calls", "calls", whole),
    Column("share", "share (%)", percent),
    Column("self_seconds", "self (ms)", milliseconds),
    Column("total_seconds", "total (ms)", milliseconds),
    Column("forward_seconds", "forward (ms)", milliseconds),
    Column("backward_seconds", "backward (ms)", milliseconds),
    Column("between_seconds", "between ops (ms)", milliseconds),
    *_shown_work,
)
