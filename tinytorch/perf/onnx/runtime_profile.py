"""Where the time of a file goes in ONNX Runtime, what limits each part, and the gain of possible changes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, derived, quotient
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, new_turns, of_all
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.perf.onnx.nodes import CONVERSIONS, LAYOUTS, Graph, Origins, Row, Work, joined
from tinytorch.perf.onnx.runtime import (
    CPU,
    Calibration,
    Declared,
    File,
    NodeTimes,
    Settings,
    node_times,
)
from tinytorch.perf.profiling.breakdown import MOST
from tinytorch.perf.roofline.bounds import Bottleneck, Demand, roof_of, slope_of, verdict
from tinytorch.perf.roofline.placement import Placed

#: Rounds at most and at least, the seconds that they may take, and the runs of a turn.
_MOST_ROUNDS, _LEAST_ROUNDS, _SECONDS, _RUNS = 15, 6, 20.0, 8
#: Events that ONNX Runtime's profiler may hold: some kilobytes each.
_MOST_EVENTS = 60_000
#: How far from 1 the factor may be by which times of nodes are scaled to sum to the latency.
_FAR = 0.15
#: NumPy's types by those of ONNX Runtime.
_TYPES = {"float": "float32", "double": "float64", "string": "str"} | {
    name: name for name in ("float16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}


def made_inputs(
    declared: Sequence[Declared],
    lengths: Mapping[str, int],
    batch: int | None = None,
    first: Sequence[int] | None = None,
    given: Mapping[str, float] | None = None,
) -> dict[str, Array]:
    """Return inputs for a file: normal random numbers, ones for masks and for one whole number, zeros for other ones.

    Args:
        declared: by the file.
        lengths: of open axes, by their names.
        batch: of first axes that are open; 1 by default.
        first: the lengths of the first input after its batch.
        given: numbers for inputs, by their names.

    Raises:
        ValueError: if a length stays open, or no example of a type can be made; one sentence says what to do.
    """
    numbers, known, made = dict(given or {}), dict(lengths), dict[str, Array]()
    draw = np.random.default_rng(0)
    for each in declared:
        kind = each.type.removeprefix("tensor(").removesuffix(")")
        if not each.type.startswith("tensor(") or kind not in _TYPES:
            raise ValueError(f"no example of input {each} can be made: only tensors of numbers, truth values and text")
        shape = list[int]()
        for at, length in enumerate(each.shape):
            if first is not None and each is declared[0] and 0 < at <= len(first):
                wanted: int | None = first[at - 1]
                if isinstance(length, str):
                    known.setdefault(length, first[at - 1])
            elif isinstance(length, int):
                wanted = length
            elif at == 0 and length not in lengths:
                wanted = known.setdefault(length, batch or 1) if length else batch or 1
            else:
                wanted = known.get(length or "")
            if wanted is None:
                how = f"--axis {length}=N" if str(length or "?").strip("?") else "--inputs FILE.npz, or --input-shape"
                raise ValueError(f"input {each} leaves axis {at} open: give {how}")
            shape.append(wanted)
        if first is not None and each is declared[0] and len(shape) != len(first) + 1:
            lengths_of = f"{len(shape) - 1} length{'s' * (len(shape) != 2)}"
            raise ValueError(f"input {each} must have {lengths_of} after its batch, not {len(first)}")
        dtype = np.dtype(_TYPES[kind])
        if each.name in numbers:
            made[each.name] = np.full(shape, numbers.pop(each.name), dtype)
        elif dtype.kind == "f":
            made[each.name] = draw.standard_normal(shape).astype(dtype)
        elif dtype.kind == "U":
            made[each.name] = np.full(shape, "a")
        else:
            ones = dtype.kind == "b" or "mask" in each.name.lower() or math.prod(shape) <= 1
            made[each.name] = np.full(shape, int(ones), dtype)
    if numbers:
        named = ", ".join(each.name for each in declared)
        raise ValueError(f"given must name inputs of {named}, not {', '.join(map(repr, numbers))}")
    return made


@dataclass(frozen=True)
class Group:
    """Nodes together: those of one operator, or of one module."""

    name: str
    rows: tuple[Row, ...]

    @property
    def seconds(self) -> tuple[float, ...]:
        """Of all of them, one number for each round."""
        return tuple(np.sum([row.seconds for row in self.rows], axis=0).tolist())

    @property
    def middle(self) -> float:
        """The sum of the medians of its nodes: those of all groups sum, with the call, to the latency."""
        return sum(row.middle for row in self.rows)

    @property
    def work(self) -> Work:
        """What they ask for."""
        return sum((row.work for row in self.rows), Work())


@dataclass(frozen=True)
class Advice:
    """Something that would make a file faster.

    Attributes:
        what: a sentence without its full stop.
        share: the part of the latency that would change.
        gain: how many times as fast the file would be, by Amdahl's law.
        at_most: whether ``gain`` is an upper bound, and not an estimate.
        nodes: names of the nodes.
    """

    what: str
    share: Measurement
    gain: Measurement
    at_most: bool
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class RuntimeProfile:
    """A file in ONNX Runtime.

    Attributes:
        path, settings, inputs: what ran, how, and on what.
        times: of the call and of nodes.
        rows: of nodes, the longest first.
        work: of the file's own nodes.
        origins: what the nodes that run stand for.
        cost: of nodes that do next to nothing.
        held, grown, load: bytes of the process after loading, at most, and the seconds of loading.
        ceilings: of this machine for the threads that ran; None if they are not known.
        cores: physical ones that this process may use.
        graph: the one that runs.
        declared: the inputs as the file declares them.
    """

    path: Path
    settings: Settings
    inputs: Mapping[str, Array]
    times: NodeTimes
    rows: tuple[Row, ...]
    work: Work
    origins: Origins
    cost: Calibration
    held: int
    grown: int
    load: float
    cores: int
    graph: Graph
    declared: tuple[Declared, ...]
    ceilings: Ceilings | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether times of nodes are too uncertain for verdicts and advice: their scale is far from 1."""
        return abs(self.times.scale - 1) > _FAR

    def groups(self, of: Callable[[Row], str]) -> list[Group]:
        """Return the nodes by what ``of`` says of them, the longest group first."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(of(row), []).append(row)
        return sorted((Group(name, tuple(rows)) for name, rows in found.items()), key=lambda group: -group.middle)

    def share(self, rows: Sequence[Row], name: str) -> Measurement:
        """Return the share of the latency that nodes take.

        Their times are as uncertain as the recorded ones were corrected: the cost of a record, which is known of nodes
        that do next to nothing, was taken off, and the rest was scaled as if the profiler cost each node the same part.
        """
        seconds = np.sum([row.seconds for row in rows], axis=0)
        share, usual = self.share_of(seconds.tolist(), name), float(np.median(seconds))
        if not usual:
            return share
        wrong = abs(1 - 1 / self.times.scale) + len(rows) * self.cost.record / usual
        by = Measurement("the true time over that time", (1.0,), "", law=Stated(1.0, 1 / (1 + wrong), 1 + wrong))
        return derived(name, lambda part, by: np.minimum(part * by, 1.0), share, by, unit="%")

    def share_of(self, seconds: Sequence[float], name: str) -> Measurement:
        """Return the share of the latency that these seconds, one number for each round, are."""
        whole = self.times.latency
        conditions = replace(whole.conditions, part_of="the latency", between_runs=None)
        parts = tuple(min(part / whole.median, 1.0) for part in seconds)
        return with_between_run_spread(Measurement(name, parts, "%", conditions))

    def measured(self, seconds: Sequence[float], name: str) -> Measurement:
        """Return the seconds of nodes as a measurement."""
        conditions = replace(self.times.latency.conditions, between_runs=None)
        return with_between_run_spread(Measurement(name, tuple(seconds), "s", conditions))

    def placed(self, group: Group) -> Placed | None:
        """Return where nodes stand under the roofs of this machine; None if that is not known of one of them."""
        if self.is_disturbed:
            return None
        work, elsewhere = group.work, any(row.provider not in ("", CPU) for row in group.rows)
        if self.ceilings is None or elsewhere or work.uncounted or not work.bytes or not min(group.seconds) > 0:
            return None
        sets = Counter(row.work.bytes for row in group.rows)
        counts = tuple(sorted(sets.items()))
        demand = Demand(work.flops, work.elementwise, work.bytes, len(group.rows), max(sets), counts, work.integer)
        seconds = self.measured(group.seconds, group.name)
        least = Measurement("the least cost of a node", self.cost.node, "s", Conditions()).scaled(
            len(group.rows), "s", "nodes at their least cost"
        )
        found = verdict(demand, seconds, self.ceilings, least)
        return Placed(
            group.name,
            demand,
            seconds,
            roof_of([_demand(row.work) for row in group.rows], self.ceilings),
            slope_of(demand, self.ceilings),
            found,
        )


def profile_file(
    path: str | Path,
    settings: Settings,
    inputs: Callable[[Sequence[Declared]], Mapping[str, Array]],
    cores: int,
    trace: str | None = None,
) -> RuntimeProfile:
    """Return where the time of a file goes in ONNX Runtime.

    Args:
        path: of the file.
        settings: how it runs.
        inputs: called with the inputs that the file declares; returns them.
        cores: physical ones that this process may use.
        trace: where the events of ONNX Runtime's profiler are written, if anywhere: a timeline.

    Raises:
        RefusedError: if ONNX Runtime refuses the file or its inputs.
        RuntimeError: if ONNX Runtime is not installed.
    """
    with TemporaryDirectory() as folder, File(path, settings, folder) as plain:
        feeds = dict(inputs(plain.inputs))
        once = plain.feed(feeds)
        with File(path, replace(settings, level="none"), folder, profiled=True, dump=True) as unoptimized:
            unoptimized.feed(feeds)
            events = unoptimized.events()
            own = Graph(unoptimized.graph, events), events
        with File(path, settings, folder, profiled=True, dump=True) as profiled:
            cost = profiled.calibration()
            profiled.feed(feeds)
            nodes = sum(1 for node in Graph(profiled.graph).nodes for _ in node.all())
            rounds = int(np.clip(_SECONDS / max(12 * once, 1e-9), _LEAST_ROUNDS, _MOST_ROUNDS))
            runs = int(np.clip(_MOST_EVENTS // (rounds * max(nodes, 1)), 1, _RUNS if once < 0.2 else 3))
            turns = []
            for _ in range(rounds):
                turns.append(plain.turn(min(runs, 5)))
                profiled.record(runs)
            events = profiled.events()
            graph = Graph(profiled.graph, events)
            if trace is not None:
                write_whole(trace, profiled.events_path.read_text("utf-8"))
            times = node_times(turns, profiled.recorded(events, graph.bodies), cost, settings.threads)
            rows, work, mapped = joined(path, own, (graph, events), feeds, times.nodes)
        return RuntimeProfile(
            Path(path), settings, feeds, times, tuple(rows), work, mapped, cost, plain.held, plain.grown(),
            plain.seconds, cores, graph, tuple(plain.inputs),
        )  # fmt: skip


#: Gain below which nothing is advised, and that the lower end of its interval must reach.
_LEAST_GAIN, _LEAST_SURE = 1.02, 1.01
#: Share of its roof below which a node is far below it, and times its least cost up to which a node is overhead.
_FAR_BELOW, _SMALL = 0.25, 4.0
#: The part of its time that an element-by-element node needs for one of its two arrays, that which it reads or that
#: which it writes. If a node is removed, a neighbour may lose or win as much, because an array is in the caches or is
#: not. If nodes are joined, each but the longest saves at least as much, and at most all of its time.
_ONE_ARRAY = 0.5


def advice(profile: RuntimeProfile) -> list[Advice]:
    """Return what would make a file faster, the largest predicted gain first; gains below 2 % are left out.

    There is none if the times of nodes are too uncertain for that.
    """
    if profile.is_disturbed:
        return []
    found = [*_conversions(profile), *_pointwise(profile), *_overhead(profile), *_threads(profile), *_ceilings(profile)]
    kept = [each for each in found if each.gain.median >= _LEAST_GAIN and each.gain.interval.low >= _LEAST_SURE]
    return sorted(kept, key=lambda each: -each.gain.median)


def _advice(profile: RuntimeProfile, what: str, rows: Sequence[Row], left: Measurement, at_most: bool = True) -> Advice:
    """Return advice on nodes of whose time ``left``, a fraction, would be left."""
    return _of_share(profile.share(rows, f"share: {what}"), what, rows, left, at_most)


def _of_share(share: Measurement, what: str, rows: Sequence[Row], left: Measurement, at_most: bool = True) -> Advice:

    def whole(part: Any, rest: Any) -> Any:
        return 1 / np.maximum(1 - part * (1 - rest), 1 - MOST)

    gain = derived(f"gain: {what}", whole, share, left, statistic="Amdahl's law of the median")
    return Advice(what, share, gain, at_most, tuple(row.name for row in rows))


def _between(low: float, high: float) -> Measurement:
    """Return the fraction of a time that a change leaves, if a model only says between which ends it lies."""
    value = (low + high) / 2
    return Measurement("what is left of the time", (value,), "", law=Stated(value, low, high))


def _conversions(profile: RuntimeProfile) -> list[Advice]:
    """Return advice on conversions of types and layouts, which a file that is exported differently may not need."""
    found = []
    for kinds, verbs, what in (
        (
            CONVERSIONS, ("converts", "convert"),
            "arrays to another type; a file that uses one type throughout does not need them",
        ),
        (
            LAYOUTS, ("changes", "change"),
            "the memory layout of an array; if neighbouring nodes use the same layout, they are not needed",
        ),
    ):  # fmt: skip
        rows = [row for row in profile.rows if row.kind in kinds]
        if rows:
            what = f"{_those(rows, *verbs)} {what}"
            found.append(_advice(profile, what, rows, _between(-_ONE_ARRAY, _ONE_ARRAY), at_most=False))
    return found


def _count(rows: Sequence[Row]) -> str:
    return f"{len(rows)} node{'s' * (len(rows) != 1)}"


def _those(rows: Sequence[Row], of_one: str, of_several: str) -> str:
    """Return the number of nodes, their operators, and the verb that belongs to it: "2 nodes (Cast) convert"."""
    names = ", ".join(dict.fromkeys(row.kind.rpartition(".")[2] for row in rows))
    return f"{_count(rows)} ({names}) {of_one if len(rows) == 1 else of_several}"


def joined_chains(profile: RuntimeProfile) -> Advice:
    """Return the gain if one node replaced each chain of element-by-element nodes.

    That node takes at least the time of the longest node of its chain. At most it takes their sum without what each of
    the others needs for an array, which is known from the shortest node.

    Raises:
        ValueError: if there is no such chain.
    """
    found = _pointwise(profile)
    if not found:
        raise ValueError(f"{profile.path.name} must have element-by-element nodes that follow each other, and has none")
    return found[0]


def _pointwise(profile: RuntimeProfile) -> list[Advice]:
    """Return advice on chains of element-by-element nodes; none if there is no chain."""
    rows = {row.name: row for row in profile.rows if _is_pointwise(row)}
    chain_of: dict[str, list[Row]] = {}  # by the values that its last node makes
    chains = list[list[Row]]()
    for node in profile.graph.nodes:
        made_by = [chain_of.pop(name) for name in node.inputs if name in chain_of]
        if node.name in rows:
            chain = made_by[-1] if made_by else []
            if not chain:
                chains.append(chain)
            chain.append(rows[node.name])
            chain_of.update(dict.fromkeys(node.outputs, chain))
    long = [chain for chain in chains if len(chain) > 1]
    if not long:
        return []
    nodes = [row for chain in long for row in chain]
    usual = max(long, key=lambda chain: sum(row.middle for row in chain))
    names = ", ".join(row.kind.rpartition(".")[2] for row in usual)
    level = "" if profile.settings.level == "all" else ", and the optimization level all joins some chains by itself"
    chains_of = "a chain" if len(long) == 1 else f"{len(long)} chains"
    what = (
        f"{_count(nodes)} form {chains_of}, such as {names}, in which each node processes the output of the previous "
        f"node; one node could do the work of a chain{level}"
    )
    whole = sum(row.middle for row in nodes)
    least = sum(max(row.middle for row in chain) for chain in long)
    most = whole - _ONE_ARRAY * sum((len(chain) - 1) * min(row.middle for row in chain) for chain in long)
    return [_advice(profile, what, nodes, _between(least / whole, most / whole), at_most=False)]


#: Operators that treat each element by itself.
_POINTWISE = frozenset(
    {
        "Abs", "Add", "BatchNormalization", "Cast", "Ceil", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu",
        "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Max", "Min", "Mul", "Neg", "PRelu", "Pow", "Reciprocal",
        "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt", "Sub", "Tanh", "Where"
    }
)  # fmt: skip


def _is_pointwise(row: Row) -> bool:
    return row.kind in _POINTWISE or row.kind.rpartition(".")[2] in ("QuickGelu", "FastGelu", "BiasGelu")


def _overhead(profile: RuntimeProfile) -> list[Advice]:
    """Return advice on the cost of a call and of its nodes that does not depend on the size of the arrays."""
    least = float(np.median(profile.cost.node))
    rows = [row for row in profile.rows if row.middle < _SMALL * least]
    nodes = sum(min(row.middle, _SMALL * least) for row in profile.rows)
    spent = np.asarray(profile.times.call.samples) + nodes
    part = f", and is more than {1 / _SMALL:.0%} of the time of {_count(rows)}" if rows else ""
    what = (
        f"The cost of a call and of its {_count(profile.rows)} does not depend on the size of the arrays{part}; fewer "
        "and larger nodes would save some of it, and a larger batch divides it among more inputs"
    )
    return [_of_share(profile.share_of(spent.tolist(), f"share: {what}"), what, rows, Counted(0, "", "no overhead"))]


def _threads(profile: RuntimeProfile) -> list[Advice]:
    """Return advice on cores that are not used."""
    threads, least = profile.settings.threads, float(np.median(profile.cost.node))
    rows = [row for row in profile.rows if row.middle > 10 * _SMALL * least]
    if threads >= profile.cores or not rows:
        return []
    used = "is" if threads == 1 else "are"
    what = f"{threads} of {profile.cores} cores {used} used; with all of them, the longer nodes can become faster"
    left = Counted(threads / profile.cores, "", "the time that is left on all cores")
    return [_advice(profile, what, rows, left)]


def _ceilings(profile: RuntimeProfile) -> list[Advice]:
    """Return advice on nodes far below their roof, and on float32 products and weights that could have 8 bits."""
    here = profile.ceilings
    if here is None:
        return []
    found, products, loads = list[Advice](), list[Row](), list[Row]()
    for group in profile.groups(lambda row: row.kind):
        if group.name in CONVERSIONS or group.name in LAYOUTS or _is_pointwise(group.rows[0]):
            continue  # of which other advice speaks
        placed = profile.placed(group)
        is_far = placed is not None and placed.of_roof.median < _FAR_BELOW
        if placed is not None and is_far and Bottleneck.OVERHEAD not in placed.verdict.candidates:
            what = (
                f"{_those(group.rows, 'reaches', 'reach')} {placed.of_roof.median:.0%} of the roof; another "
                "operator for the same result, other sizes, or a newer ONNX Runtime may come closer to it"
            )
            found.append(_at_the_roof(profile, here, what, group.rows, [row.work for row in group.rows]))
    for row in profile.rows:
        if not row.work.flops or row.work.integer or not row.types or row.types[0] != "float":
            continue
        placed = profile.placed(Group(row.name, (row,)))
        limits = placed.verdict.candidates if placed is not None else ()
        if limits == (Bottleneck.COMPUTE,):
            products.append(row)
        elif limits == (Bottleneck.MEMORY,) and row.work.weights > row.work.bytes / 2:
            loads.append(row)
    ratio = quotient(here.int8_peak, here.fp32_peak, "8-bit peak over float32 peak")
    if products and ratio.interval.low > 1:
        what = (
            f"{_those(products, 'is', 'are')} limited by float32 arithmetic; the peak of 8-bit integers is "
            f"{ratio.median:.1f} times as high on this machine, but they lose some accuracy, and conversions to them "
            "take time"
        )
        works = [replace(row.work, integer=row.work.flops, bytes=row.work.bytes // 4) for row in products]
        found.append(_at_the_roof(profile, here, what, products, works))
    if loads:
        what = (
            f"{_those(loads, 'is', 'are')} limited by the bytes that are moved, most of them float32 weights; 8-bit "
            "weights have 25 % of the bytes"
        )
        works = [replace(row.work, bytes=row.work.bytes - row.work.weights * 3 // 4) for row in loads]
        found.append(_at_the_roof(profile, here, what, loads, works))
    return found


def _at_the_roof(
    profile: RuntimeProfile, here: Ceilings, what: str, rows: Sequence[Row], works: Iterable[Work]
) -> Advice:
    """Return advice on nodes that would take at least as long as ``works`` take at their roofs."""
    seconds = profile.measured(np.sum([row.seconds for row in rows], axis=0).tolist(), what)
    left = quotient(roof_of([_demand(each) for each in works], here), seconds, "what is left of the time")
    return _advice(profile, what, rows, left)


def _demand(work: Work) -> Demand:
    counts = ((work.bytes, 1),)
    return Demand(work.flops, work.elementwise, work.bytes, 1, work.bytes, counts, work.integer)


@dataclass(frozen=True)
class SideBySide:
    """Files that ran in turns: their seconds a call, and outputs, by the names that they were given."""

    times: Mapping[str, Measurement]
    outputs: Mapping[str, Mapping[str, Array]]


def side_by_side(
    files: Mapping[str, tuple[str | Path, Settings]],
    inputs: Callable[[str, Sequence[Declared]], Mapping[str, Array]],
    seconds: float = _SECONDS,
) -> SideBySide:
    """Return how long files take in ONNX Runtime, each in a process of its own, in turns.

    Args:
        files: path and settings of each, by a name.
        inputs: called with a name and the inputs that its file declares; returns them.
        seconds: that all turns may take.

    Raises:
        RefusedError: if ONNX Runtime refuses a file or its inputs.
        RuntimeError: if ONNX Runtime is not installed.
    """
    with TemporaryDirectory() as folder, ExitStack() as stack:
        loaded = {name: stack.enter_context(File(*each, folder)) for name, each in files.items()}
        once = sum(each.feed(inputs(name, each.inputs)) for name, each in loaded.items())
        rounds = int(np.clip(seconds / max(8 * once, 1e-9), _LEAST_ROUNDS, 2 * _MOST_ROUNDS))
        taken: dict[str, list[Measurement]] = {name: [] for name in loaded}
        order, names, turns = np.random.default_rng(0), list(loaded), new_turns()
        for _ in range(rounds):
            for at in order.permutation(len(names)):
                taken[names[at]].append(loaded[names[at]].turn(5))
        times = {}
        for name, each in taken.items():
            conditions = replace(
                of_all(turn.conditions for turn in each),
                blas_threads=files[name][1].threads,
                interleaved_with=tuple(other for other in names if other != name),
                turns=turns,
                between_runs=None,
            )
            times[name] = with_between_run_spread(
                Measurement(name, tuple(turn.median for turn in each), "s", conditions)
            )
        return SideBySide(times, {name: each.outputs() for name, each in loaded.items()})
