"""What the page on memory computes: how long loads wait, which lines a walk brings, and what a habit is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.host.pinned_threads import Team, usable_cores
from tinytorch.perf.kernels import probes, walks
from tinytorch.perf.kernels.probes import LINE_BYTES, LINE_ELEMENTS
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import Comparison, compare_paired

#: Bytes of a page of memory, where none is huge, and the places of a chase in one.
_PAGE = 4096
_PAGE_ELEMENTS = _PAGE // 8
#: Bytes of the whole numbers that are walked, and how many of them a line holds.
_NUMBER = 4
IN_A_LINE = LINE_BYTES // _NUMBER
#: Counters that one core counts on: half a line.
_COUNTERS = 4
_WARMUP_SECONDS = 0.2
#: Samples of passes that drift: a few dozen are over within one moment of the machine, and are worth hardly any.
_REPEATS = 30


@dataclass(frozen=True)
class Wait:
    """The wait for one load in a working set of so many bytes."""

    size: Counted
    found: Measurement


@dataclass(frozen=True)
class Waits:
    """How long one load waits: by the size of what it may lie in, near and far, and what a core could do meanwhile.

    Attributes:
        curve: the wait at each working set.
        borders: bytes of each cache, by its name, as far as they are known.
        near, far: the wait for the first cache, and for memory.
        ratio: far over near.
        cycles: of the clock, in the wait for memory.
    """

    curve: Sequence[Wait]
    borders: Mapping[str, Counted]
    near: Measurement
    far: Measurement
    ratio: Measurement
    cycles: Measurement


def waits(machine: Ceilings) -> Waits:
    """Return how long one load waits on this machine, by its ladder."""
    near, far = machine.levels[0].latency, machine.levels[-1].latency
    cycle = machine.clock.per(1, "s", "a cycle of the clock")
    sizes = {level.name: level.capacity for level in machine.levels[:-1]}
    return Waits(
        [Wait(Counted(one.working_set, "B", "the working set"), one.reached) for one in machine.curves["latency"]],
        {f"end of {name}": Counted(size, "B", f"what {name} holds") for name, size in sizes.items() if size},
        near,
        far,
        quotient(far, near, "the wait for memory over that for the first cache"),
        quotient(far, cycle, "cycles in the wait for memory", "cycles"),
    )


@dataclass(frozen=True)
class Stride:
    """A pass over every so-many-th number.

    Attributes:
        stride: how far one number is from the next.
        whole: seconds of the pass.
        found: seconds for each number that was added.
        predicted: the same, if lines came at the speed at which memory is read, and nothing else took time.
    """

    stride: int
    whole: Measurement
    found: Measurement
    predicted: Modelled


def every(numbers: npt.NDArray[np.int32], strides: Sequence[int], machine: Ceilings) -> dict[int, Stride]:
    """Return a pass over a matrix for each stride, taken in turns; each row of it is walked in these strides.

    Args:
        numbers: much larger than any cache, and a view of a wider matrix, so that one compiled body takes all strides.
        strides: ascending; a stride divides the length of a row.
        machine: says how fast memory is read.
    """
    views = {stride: numbers[:, ::stride] for stride in strides}
    passes = {str(stride): partial(walks.add_up, view) for stride, view in views.items()}
    times = interleave(passes, repeats=_REPEATS, warmup_seconds=_WARMUP_SECONDS)
    read = machine.levels[-1].read
    found = {}
    for stride, view in views.items():
        name, whole = f"a number, stride {stride}", times[str(stride)]
        moved = min(stride, IN_A_LINE) * _NUMBER
        bytes_alone = Modelled.by("lines at the speed at which memory is read", read.per(moved, "s", name))
        found[stride] = Stride(stride, whole, whole.scaled(1 / view.size, "s", name), bytes_alone)
    return found


def left(passes: Mapping[int, Stride], stride: int, of: int) -> Measurement:
    """Return what a pass in this stride takes of the time of one in the stride ``of``."""
    return ratio(passes[stride].whole, passes[of].whole, f"a pass in strides of {stride} over one in strides of {of}")


def per_number(passes: Mapping[int, Stride], stride: int) -> Measurement:
    """Return what a number takes in this stride over what it takes where all are used."""
    return ratio(passes[stride].found, passes[min(passes)].found, f"a number, stride {stride} over all")


@dataclass(frozen=True)
class Walk:
    """A matrix that is walked along its rows, and along its columns: seconds a number, and how the two compare."""

    apart: Counted
    rows: Measurement
    columns: Measurement
    slowdown: Measurement


def walks_of(height: int, width: int, pitches: Sequence[int]) -> dict[int, Walk]:
    """Return walks along the rows and columns of a matrix whose rows lie so many numbers apart, all taken in turns.

    A row must lie farther from the next than it is wide: then one compiled body takes rows, columns and all pitches.
    """
    matrices = {pitch: np.ones((height, pitch), np.int32)[:, :width] for pitch in pitches}
    passes = {f"rows, {pitch}": partial(walks.add_up, matrix) for pitch, matrix in matrices.items()}
    passes |= {f"columns, {pitch}": partial(walks.add_up, matrix.T) for pitch, matrix in matrices.items()}
    times = interleave(passes, repeats=_REPEATS, warmup_seconds=_WARMUP_SECONDS)
    found = {}
    for pitch in pitches:
        rows, columns = times[f"rows, {pitch}"], times[f"columns, {pitch}"]
        found[pitch] = Walk(
            Counted(pitch * _NUMBER, "B", "from a number to the one below it"),
            rows.scaled(1 / (height * width), "s"),
            columns.scaled(1 / (height * width), "s"),
            ratio(columns, rows, f"columns over rows, {pitch} numbers apart"),
        )
    return found


def slowdown(walked: Mapping[int, Walk], more: int, less: int) -> Measurement:
    """Return the walk along the columns with one pitch over that with another."""
    return ratio(walked[more].columns, walked[less].columns, f"columns, {more} numbers apart over {less}")


@dataclass(frozen=True)
class Company:
    """One array that is walked over and over, beside several of the same size that are walked in turn.

    Attributes:
        cache: name of the cache that they are about, by what it holds.
        size, all: bytes of one array, and of all.
        curve: seconds of a load by the number of arrays.
        found: a load in the largest number over a load in one.
        predicted: the same, by the staircase at ``all`` and at ``size``.
    """

    cache: str
    size: Counted
    all: Counted
    curve: Mapping[int, CompanyOf]
    found: Measurement
    predicted: Modelled


@dataclass(frozen=True)
class CompanyOf:
    """So many arrays in turn: their bytes in all, and seconds of a load."""

    arrays: int
    size: Counted
    found: Measurement


def company(machine: Ceilings, counts: Sequence[int] = (1, 2, 4, 8)) -> Company | Unmeasured:
    """Return walks through arrays that fill half of a cache each, alone and in turn, all taken in turns.

    The cache is the second one, of which each core mostly has its own; the first where that is all that is known. A
    pass goes through as many lines whatever the number of arrays, each on a random cycle of its own.
    """
    known = [level for level in machine.levels[:-1] if level.capacity]
    if not known:
        return Unmeasured("the system does not say what its caches hold, and no curve shows it")
    level, most = known[min(1, len(known) - 1)], max(counts)
    lines = int(level.capacity or 0) // 2 // LINE_BYTES
    arenas = [Arena(lines * LINE_BYTES) for _ in range(most)]
    cycles = [arena.view(0, lines * LINE_ELEMENTS, np.uint64) for arena in arenas]
    for at, cycle in enumerate(cycles):
        probes.random_cycle()(cycle, np.uint64(at))
    place = np.zeros(1, np.uint64)

    def in_turn(count: int) -> None:
        for at in range(most):
            walks.follow(cycles[at % count], place, lines)

    times = interleave(
        {str(count): partial(in_turn, count) for count in counts}, repeats=_REPEATS, warmup_seconds=_WARMUP_SECONDS
    )
    size, curve = lines * LINE_BYTES, machine.curves["latency"]
    near, far = (min(curve, key=lambda one: abs(one.working_set - wanted)) for wanted in (size, most * size))
    return Company(
        level.name,
        Counted(size, "B", f"half of {level.name}"),
        Counted(most * size, "B", f"{most} halves of {level.name}"),
        {
            count: CompanyOf(
                count,
                Counted(count * size, "B", "bytes of all arrays"),
                times[str(count)].scaled(1 / (most * lines), "s"),
            )
            for count in counts
        },
        ratio(times[str(most)], times[str(min(counts))], f"a load in {most} arrays over one in one"),
        Modelled.by("the staircase", quotient(far.reached, near.reached, "a load in all over one in one")),
    )


@dataclass(frozen=True)
class Chains:
    """Loads in so many chains at once: seconds a load, and as predicted if chains do not disturb one another."""

    chains: int
    found: Measurement
    predicted: Modelled


def together(counts: Sequence[int], machine: Ceilings, steps: int = 1000) -> dict[int, Chains]:
    """Return loads from memory in 1 and more chains, all on one random cycle.

    The cycle is as long as the ladder of the ``machine`` goes, which no cache holds. All chains begin as far from one
    another along it as can be, so that none comes soon to lines that another one has left in a cache.
    """
    lines = machine.curves["latency"][-1].working_set // LINE_BYTES
    arena = Arena(lines * LINE_BYTES)
    cycle = arena.view(0, lines * LINE_ELEMENTS, np.uint64)
    probes.random_cycle()(cycle, np.uint64(0))
    starts = np.zeros(sum(counts), np.uint64)
    for at in range(1, starts.size):
        starts[at] = probes.chase()(cycle, starts[at - 1], lines // starts.size)
    of_count = np.split(starts, np.cumsum(counts)[:-1])
    passes = {
        str(count): partial(walks.follow, cycle, places, steps) for count, places in zip(counts, of_count, strict=True)
    }
    times = interleave(passes, repeats=_REPEATS, warmup_seconds=_WARMUP_SECONDS)
    one = times[str(counts[0])].scaled(1 / steps, "s")
    found = {}
    for count in counts:
        name = f"a load, chains: {count}"
        law = Modelled.by("one wait, shared by the chains", one.scaled(1 / count, "s", name))
        found[count] = Chains(count, times[str(count)].scaled(1 / (steps * count), "s", name), law)
    return found


def in_flight(chains: Mapping[int, Chains], most: int) -> Measurement:
    """Return how many loads are on their way at once with the most chains, by Little's law: a wait over a load."""
    return ratio(chains[min(chains)].found, chains[most].found, "loads on their way at once")


def gain(chains: Mapping[int, Chains], count: int) -> Measurement:
    """Return how many times as fast loads come in so many chains as in one."""
    return ratio(chains[min(chains)].found, chains[count].found, f"one chain over {count}")


@dataclass(frozen=True)
class Chase:
    """A chase through as many lines on pages of some size: seconds a load."""

    lie: str
    found: Measurement


@dataclass(frozen=True)
class Pages:
    """The same number of lines side by side, a line a page, and a line a page of memory that is on huge pages."""

    chases: Sequence[Chase]
    apart: Measurement
    huge: Comparison


def random_over_strided(chains: Mapping[int, Chains], passes: Mapping[int, Stride]) -> Measurement:
    """Return a load in one random chain over a number in a stride of one line."""
    return quotient(chains[min(chains)].found, passes[IN_A_LINE].found, "a random load over a number of each line")


def pages(lines: int, together: str, normal: str, huge: str, matters: float) -> Pages | Unmeasured:
    """Return a chase through so many lines as they lie, by the three names, taken in turns.

    Args:
        lines: enough to exceed what remembers where pages are, and few enough for a cache.
        together, normal, huge: what the page calls lines side by side, one a page, and one a page on huge pages.
        matters: difference between the last two that matters.
    """
    draw = np.random.default_rng(0)
    order, within = draw.permutation(lines), draw.integers(0, _PAGE // LINE_BYTES, lines)
    spread = order * _PAGE_ELEMENTS + within[order] * LINE_ELEMENTS
    large = Arena(lines * _PAGE, huge=True)
    if not large.huge_bytes():
        return Unmeasured("the system gave no huge pages, or does not say whether it did")
    arenas = {together: (Arena(lines * LINE_BYTES, huge=False), order * LINE_ELEMENTS)}
    arenas |= {normal: (Arena(lines * _PAGE, huge=False), spread), huge: (large, spread)}
    passes: dict[str, Callable[[], object]] = {}
    for name, (arena, places) in arenas.items():
        following = arena.view(0, arena.memory.size // 8, np.uint64)
        following[places] = np.roll(places, -1).astype(np.uint64)
        passes[name] = partial(walks.follow, following, places[:1].astype(np.uint64), lines)
    times = interleave(passes, repeats=_REPEATS, warmup_seconds=_WARMUP_SECONDS)
    return Pages(
        [Chase(name, times[name].scaled(1 / lines, "s", f"a load, {name}")) for name in passes],
        ratio(times[normal], times[together], f"{normal} over {together}"),
        compare_paired(times[normal], times[huge], matters),
    )


def fresh(times: Mapping[str, Measurement], count: int, *, matters: float) -> dict[str, Any]:
    """Return a sum of ``count`` numbers into a "new" array beside that into the "same", with page faults of the former.

    A difference between their ``times``, which were taken in turns, counts from ``matters`` on.
    """
    what = f"minor page faults of a sum of {count} numbers into a new array, a call"
    return {
        "size": Counted(4 * count, "B", "bytes of the sum"),
        **times,
        "compared": compare_paired(times["new"], times["same"], matters),
        "faults": Counted(times["new"].conditions.page_faults_per_call or 0.0, "1", what),
    }


def stores(count: int) -> dict[str, Measurement]:
    """Return the seconds of "overwrite" and "update" of ``count`` float32 numbers, and the first over the second."""
    numbers = np.ones(count, np.float32)
    passes = {
        "overwrite": partial(walks.overwrite, numbers, np.float32(1)),
        "update": partial(walks.update, numbers, np.float32(0)),
    }
    times = interleave(passes, repeats=_REPEATS, warmup_seconds=_WARMUP_SECONDS)
    return {**times, "ratio": ratio(times["overwrite"], times["update"], "overwriting over updating")}


def shared_line(matters: float, times: int = 400_000) -> dict[str, Any] | Unmeasured:
    """Return two cores that count in one line beside two that count in lines of their own: "shared", "own", "compared".

    Each counts ``times`` steps on counters that no other core touches; seconds are those of a step.
    """
    if len(usable_cores()) < 2:
        return Unmeasured("the process that built this page could use one core only: build it where there are two")
    counters = Arena(3 * _PAGE).view(0, 3 * _PAGE_ELEMENTS, np.int64)
    first = counters[:_COUNTERS]
    others = {"shared": counters[_COUNTERS:][:_COUNTERS], "own": counters[2 * _PAGE_ELEMENTS :][:_COUNTERS]}
    with Team(2) as team:
        passes = {
            name: partial(team.run, [partial(walks.count_up, one, times) for one in (first, other)])
            for name, other in others.items()
        }
        taken = interleave(passes, repeats=40, warmup_seconds=_WARMUP_SECONDS)
    return {
        **{name: one.scaled(1 / times, "s") for name, one in taken.items()},
        "compared": compare_paired(taken["shared"], taken["own"], matters),
    }


@dataclass(frozen=True)
class Habit:
    """What a programmer does, instead of what, and how the times compare."""

    name: str
    instead: str
    compared: Comparison


def habit(name: str, instead: str, times: Mapping[str, Measurement]) -> Habit:
    """Return a habit of two functions that `interleave` timed: first what to do, then what was done before."""
    done, before = times.values()
    return Habit(name, instead, compare_paired(before, done, 0.1))
