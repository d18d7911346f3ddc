"""Breakdown of a profile: its events added up by op and by module."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinytorch.perf.events.stream import SHORT, Event, OpKey, Profile, inside, layer_groups, module_classes, op_groups
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.measuring.text_table import Column, mebibytes, milliseconds, number, percent, whole
from tinytorch.perf.roofline.placement import Placed


@dataclass(frozen=True, slots=True)
class OpRow:
    """All calls of one op in one phase.

    Attributes:
        total_seconds, self_seconds: with and without ops inside; None in a memory run.
        share: self time over the wall time of the run, 0 to 1; the rest is between ops. None in a memory run.
        macs, flops, elementwise: None if the op declares no work formula.
        bytes: compulsory traffic.
        gflops_per_second: FLOPs over self time, in 1e9; None where either is missing or no contraction ran.
        allocated: bytes that the calls allocated at their worst, added up; None without a memory run.
        short: whether a call is on average under 20 times the profiler's own cost; None in a memory run.
        of_roof: share of this machine's roof that was reached, 0 to 1; bound: what bounds it, such as "memory-bound"
            (see `roofline`). None without ceilings, in a memory run, and for ops that are uncounted or make views.
    """

    op: str
    phase: str
    implementation: str
    calls: int
    total_seconds: float | None
    self_seconds: float | None
    share: float | None
    macs: int | None
    flops: int | None
    elementwise: int | None
    bytes: int
    gflops_per_second: float | None
    allocated: int | None
    short: bool | None
    of_roof: float | None
    bound: str | None


@dataclass(frozen=True, slots=True)
class LayerRow:
    """All ops of one module, forward and backward.

    Attributes:
        path: from the outermost class, ``GPT.blocks.0.mlp``; "" holds what ran outside modules.
        module: class name; "" if the module's forward was not part of the run.
        depth: how many rows above hold this one.
        calls: how often its forward ran.
        self_seconds: its own ops; total_seconds: also those of the modules in it, as everything that follows.
        forward_seconds, backward_seconds: the two parts of ``total_seconds``.
        span_seconds: wall time of its forward calls, with the Python between ops.
        share: total time over the wall time of the run, 0 to 1.
        of_roof, bound: as in `OpRow`.
    """

    path: str
    module: str
    depth: int
    calls: int
    self_seconds: float | None
    total_seconds: float | None
    forward_seconds: float | None
    backward_seconds: float | None
    span_seconds: float | None
    share: float | None
    macs: int | None
    flops: int | None
    elementwise: int | None
    bytes: int
    gflops_per_second: float | None
    allocated: int | None
    of_roof: float | None
    bound: str | None


Allocated = Sequence[int] | None


def _total(values: Iterable[int | None]) -> int | None:
    """Return the sum, or None if one is not known: a part of a sum is not shown as the sum."""
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)


def _rate(flops: int | None, nanoseconds: int | None) -> float | None:
    """Return GFLOP/s, which is FLOPs a nanosecond."""
    return flops / nanoseconds if flops and nanoseconds else None


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
    places = placed or {}
    return [
        _op_row(profile, indices, allocated, timed, overhead_seconds, places.get(key))
        for key, indices in op_groups(profile).items()
    ]


def _op_row(
    profile: Profile,
    indices: list[int],
    allocated: Allocated,
    timed: bool,
    overhead: float | None,
    placed: Placed | None,
) -> OpRow:
    events = [profile.events[i] for i in indices]
    first = events[0]
    self_ns = sum(event.self_ns for event in events)
    total_ns = sum(event.total_ns for event in events)
    flops = _total(event.flops for event in events)
    return OpRow(
        first.op,
        first.phase,
        first.implementation,
        len(events),
        total_ns * 1e-9 if timed else None,
        self_ns * 1e-9 if timed else None,
        self_ns / (profile.end - profile.start) if timed else None,
        _total(event.macs for event in events),
        flops,
        _total(event.elementwise for event in events),
        sum(event.traffic for event in events),
        _rate(flops, self_ns) if timed else None,
        None if allocated is None else sum(allocated[i] for i in indices),
        self_ns * 1e-9 / len(events) < SHORT * overhead if timed and overhead is not None else None,
        placed.of_roof.median if placed else None,
        placed.verdict.sentence_word if placed else None,
    )


def layer_rows(
    profile: Profile, allocated: Allocated, timed: bool, placed: Mapping[str, Placed] | None = None
) -> list[LayerRow]:
    """Return one row for each module that ran or whose backward ran, each before those in it.

    Arguments are those of `op_rows`; ``placed`` is of `roofline.place_layers`.
    """
    classes, places = module_classes(profile), placed or {}
    rows = []
    for path, indices in layer_groups(profile).items():
        depth = sum(inside(path, other) for other in classes if other and other != path)
        rows.append(_layer_row(profile, (path, classes[path], depth), indices, allocated, timed, places.get(path)))
    return rows


def _layer_row(
    profile: Profile,
    module: tuple[str, str, int],
    here: list[int],
    allocated: Allocated,
    timed: bool,
    placed: Placed | None,
) -> LayerRow:
    path = module[0]
    events = [profile.events[i] for i in here]
    spans = [span for span in profile.spans if span.path == path]

    def nanoseconds(chosen: Iterable[Event]) -> int:
        return sum(event.self_ns for event in chosen)

    def seconds(value: int) -> float | None:
        return value * 1e-9 if timed else None

    total = nanoseconds(events)
    flops = _total(event.flops for event in events)
    return LayerRow(
        *module,
        len(spans),
        seconds(nanoseconds(event for event in events if event.path == path)),
        seconds(total),
        seconds(nanoseconds(event for event in events if event.phase == "forward")),
        seconds(nanoseconds(event for event in events if event.phase == "backward")),
        seconds(sum(span.end - span.start for span in spans)),
        total / (profile.end - profile.start) if timed else None,
        _total(event.macs for event in events),
        flops,
        _total(event.elementwise for event in events),
        sum(event.traffic for event in events),
        _rate(flops, total) if timed else None,
        None if allocated is None else sum(allocated[i] for i in here),
        placed.of_roof.median if placed else None,
        placed.verdict.sentence_word if placed else None,
    )


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


def predicted_speedup(share: Measurement, speedup: Measurement | None, name: str) -> Statistic:
    """Return `amdahl` of a measured share and a measured speedup of that part; None bounds it by a part without time.

    The interval holds what the intervals of both make of the prediction, each by itself, in quadrature on the log
    scale, because the two were not taken in turns.

    Raises:
        ValueError: as `amdahl` does.
    """
    times = math.inf if speedup is None else speedup.median
    value = amdahl(share.median, times)
    shares = [min(max(end, 0.0), 1.0) for end in (share.interval.low, share.interval.high)]
    moved = [sorted(math.log(amdahl(end, times) / value) for end in shares)]
    if speedup is not None:
        ends = (speedup.interval.low, speedup.interval.high)
        moved.append(sorted(math.log(amdahl(share.median, end) / value) for end in ends))
    low, high = (value * math.exp(sign * math.hypot(*(one[at] for one in moved))) for at, sign in ((0, -1), (1, 1)))
    confidence = min(one.interval.confidence for one in (share, speedup) if one is not None)
    samples = tuple(amdahl(min(max(each, 0.0), 1.0), times) for each in share.samples)
    how = {**share.how, "statistic": "Amdahl's law of the median"}
    return Statistic(name, samples, "", how, value=value, bounds=Interval(low, high, confidence))


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
    Column("macs", "MMACs", number(3, 1e-6)),
    Column("flops", "MFLOPs", number(3, 1e-6)),
    Column("elementwise", "elementwise (M)", number(3, 1e-6)),
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
    *_shown_work,
)
