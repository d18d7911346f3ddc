"""What the page on memory computes: load latencies, what an access pattern costs, and what fresh memory costs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.perf.host.memory_pages import HUGE_PAGE, Arena
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.probes import LINE_BYTES, LINE_ELEMENTS
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import Level
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired

#: Bytes of an element of the arrays that are added up, and how many of these elements a line holds.
_ELEMENT = 4
IN_A_LINE = LINE_BYTES // _ELEMENT

Cycle = npt.NDArray[np.uint64]


def _in_turns(passes: Mapping[str, Callable[[], object]]) -> dict[str, Measurement]:
    """Return the seconds of passes that drift: a few dozen samples are over within one moment of the machine."""
    return interleave(passes, repeats=30, warmup_seconds=0.2)


def latencies(machine: Ceilings) -> dict[str, Any]:
    """Return the load latencies of this machine, from its ladder.

    The ``curve`` has the latency at every second working set as rows, ``borders`` what each cache holds, as far as that
    is known; ``near`` and ``far`` are the latencies of the first cache and of main memory, ``ratio`` the second over
    the first, ``far_over_second`` that of memory over the second cache, and ``after_second`` that of the level after
    the second cache over it. ``reported`` and ``kept`` are the bytes of the second cache, as the system reports them
    and as the ladder shows them.
    """
    near, far = machine.levels[0].latency, machine.levels[-1].latency
    sizes = {level.name: level.capacity for level in machine.levels[:-1]}
    return {
        "curve": [
            {"size": Counted(one.working_set, "B", "the working set"), "found": one.reached}
            for one in machine.curves["latency"][::2]
        ],
        "borders": {f"end of {name}": Counted(size, "B", f"what {name} holds") for name, size in sizes.items() if size},
        "near": near,
        "far": far,
        "ratio": quotient(far, near, "the latency of memory over that of the first cache"),
        "far_over_second": _over_second(machine, len(machine.levels) - 1),
        "after_second": _over_second(machine, min(2, len(machine.levels) - 1)),
        "reported": _bytes_of_second(machine, "what the system reports for L2", lambda level: level.capacity_reported),
        "kept": _bytes_of_second(machine, "what L2 holds of the arrays of this page", lambda level: level.capacity),
    }


def _bytes_of_second(machine: Ceilings, what: str, size_of: Callable[[Level], int | None]) -> Counted | Unmeasured:
    """Return a size of the second cache."""
    size = size_of(machine.levels[1]) if len(machine.levels) > 2 else None
    return Counted(size, "B", what) if size else Unmeasured("this machine shows no second cache")


def _over_second(machine: Ceilings, level: int) -> Measurement | Unmeasured:
    """Return the latency of the ``level``, counted from 0 for the first cache, over that of the second cache."""
    if level < 2:
        return Unmeasured("this machine shows no second cache")
    reached, second = machine.levels[level], machine.levels[1]
    return quotient(reached.latency, second.latency, f"the latency of {reached.name} over that of {second.name}")


def every(elements: npt.NDArray[np.int32], strides: Sequence[int], machine: Ceilings) -> dict[int, dict[str, Any]]:
    """Return a pass over a matrix for each stride, interleaved; each row of it is read with these strides.

    A pass has the seconds of the ``whole``, those of each element that was ``found``, and as ``predicted`` what an
    element takes if lines come at the speed at which memory is read, and nothing else takes time.

    Args:
        elements: much larger than any cache, and a view of a wider matrix, so that one compiled body takes all strides.
        strides: ascending; a stride divides the length of a row.
        machine: says how fast memory is read.
    """
    views = {stride: elements[:, ::stride] for stride in strides}
    times = _in_turns({str(stride): partial(probes.add_up, view) for stride, view in views.items()})
    read = machine.levels[-1].read
    found = {}
    for stride, view in views.items():
        name, whole = f"an element, stride {stride}", times[str(stride)]
        moved = read.per(min(stride, IN_A_LINE) * _ELEMENT, "s", name)
        found[stride] = {
            "stride": stride,
            "whole": whole,
            "found": whole.scaled(1 / view.size, "s", name),
            "predicted": Modelled.by("lines at the speed at which memory is read", moved),
        }
    return found


def at_distances(distances: Sequence[int], count: int = 1000) -> list[dict[str, Any]]:
    """Return the time of an element in a sum of ``count`` elements that lie so many lines apart, for each distance."""
    memory = np.ones(max(distances) * count * IN_A_LINE, np.int32)
    columns = {apart: memory[None, : apart * count * IN_A_LINE : apart * IN_A_LINE] for apart in distances}
    times = _in_turns({str(apart): partial(probes.add_up, column) for apart, column in columns.items()})
    return [
        {"distance": apart, "found": times[str(apart)].scaled(1 / count, "s", f"an element, {apart} lines apart")}
        for apart in distances
    ]


def company(machine: Ceilings, most: int = 8) -> dict[str, Any] | Unmeasured:
    """Return loads in one array that fills half of a cache, in several such arrays in turn, and in one as large as all.

    The cache is the second one, of which each core mostly has its own; the first where that is all that is known. A
    pass loads as many lines whatever it goes through, each array on a random cycle of its own, and all are interleaved.
    The result has the ``size`` of one array, and of loads in ``several`` and in one that is as ``large`` as they are
    the time over that of one in one array.
    """
    known = [level for level in machine.levels[:-1] if level.capacity]
    if not known:
        return Unmeasured("the system does not say what its caches hold, and no curve shows it")
    lines = int(known[min(1, len(known) - 1)].capacity or 0) // 2 // LINE_BYTES
    arrays, large = [random_cycle(lines, seed) for seed in range(most)], random_cycle(most * lines)
    place, in_large = np.zeros((2, 1), np.uint64)

    def in_turn(count: int) -> None:
        for at in range(most):
            probes.follow(arrays[at % count], place, lines)

    times = _in_turns(
        {
            "one": partial(in_turn, 1),
            "several": partial(in_turn, most),
            "large": partial(probes.follow, large, in_large, most * lines),
        }
    )
    return {
        "size": Counted(lines * LINE_BYTES, "B", "half of what a cache holds"),
        "several": ratio(times["several"], times["one"], f"a load in {most} arrays over one in one"),
        "large": ratio(times["large"], times["one"], f"a load in an array {most} times as large"),
    }


def random_cycle(lines: int, seed: int = 0, *, huge: bool = True) -> Cycle:
    """Return so many lines of memory, each with the index at which the next line of a random cycle begins.

    They lie on huge pages if the system has some, or else on normal ones.
    """
    cycle: Cycle = Arena(lines * LINE_BYTES, huge=huge).view(0, lines * LINE_ELEMENTS, np.uint64)
    probes.random_cycle()(cycle, np.uint64(seed))
    return cycle


def far_cycle(machine: Ceilings) -> Cycle:
    """Return a random cycle as long as the ladder of the ``machine`` goes, which no cache holds."""
    return random_cycle(machine.curves["latency"][-1].working_set // LINE_BYTES)


def together(cycle: Cycle, counts: Sequence[int], steps: int = 1000) -> dict[str, Any]:
    """Return loads from memory in 1 and more chains, all on one random cycle.

    All chains begin as far from one another along it as can be, so that none comes soon to lines that another one has
    left in a cache. The ``curve`` has the time of a load by the number of chains, and as ``predicted`` that of one
    chain shared by all; ``gain`` says by that number how many times as fast loads come as in one chain. ``random`` is a
    load in one chain over one element of each line of the same memory, read in order.
    """
    starts = np.zeros(sum(counts), np.uint64)
    for at in range(1, starts.size):
        starts[at] = probes.chase()(cycle, starts[at - 1], cycle.size // LINE_ELEMENTS // starts.size)
    of_count = np.split(starts, np.cumsum(counts)[:-1])
    strided = cycle.view(np.int32).reshape(64, -1)[:, ::IN_A_LINE]
    times = _in_turns(
        {f"chains: {n}": partial(probes.follow, cycle, at, steps) for n, at in zip(counts, of_count, strict=True)}
        | {"strided": partial(probes.add_up, strided)}
    )
    loads = {count: times[f"chains: {count}"].scaled(1 / (steps * count), "s") for count in counts}
    one = loads[counts[0]]
    law = "one latency, shared by the chains"
    return {
        "curve": [
            {"chains": count, "found": load, "predicted": Modelled.by(law, one.scaled(1 / count, "s"))}
            for count, load in loads.items()
        ],
        "gain": {count: ratio(one, load, f"one chain over {count}") for count, load in loads.items()},
        "random": ratio(one, times["strided"].scaled(1 / strided.size), "a random load over an element of each line"),
    }


def in_order(cycle: Cycle, distances: Sequence[int], machine: Ceilings, steps: int = 1000) -> dict[str, Any]:
    """Return dependent loads through the lines of a random ``cycle`` in orders that a prefetcher may guess.

    A line has room for one index of each order, so all orders go through the same lines. The ``curve`` has the time of
    a load if the next line lies so many lines further on, and ``random`` that on the random cycle. ``gain`` is
    ``random`` over the time at the first distance, and ``early`` the latency of the last cache over that time.

    Args:
        cycle: fills the first index of each line; the others are written here.
        distances: fewer than a line has indices, and with no factor in common with the number of lines.
        machine: says how long a load from the last cache takes.
        steps: loads of one call.
    """
    places = cycle.reshape(-1, LINE_ELEMENTS)
    lines = np.arange(len(places), dtype=np.uint64)
    for slot, apart in enumerate(distances, 1):
        places[:, slot] = (lines + np.uint64(apart)) % np.uint64(len(places)) * np.uint64(LINE_ELEMENTS)
        places[:, slot] += np.uint64(slot)
    starts = np.arange(len(distances) + 1, dtype=np.uint64)
    times = _in_turns(
        {
            str(apart): partial(probes.follow, cycle, starts[slot : slot + 1], steps)
            for slot, apart in enumerate(("random", *distances))
        }
    )
    loads = {apart: times[str(apart)].scaled(1 / steps, "s") for apart in ("random", *distances)}
    ordered, caches = loads[distances[0]], machine.levels[:-1]
    return {
        "curve": [{"distance": apart, "found": loads[apart], "random": loads["random"]} for apart in distances],
        "gain": ratio(loads["random"], ordered, "a load in random order over one in order"),
        "early": quotient(caches[-1].latency, ordered, "a load from the last cache, over in order")
        if caches
        else Unmeasured("this machine shows no cache"),
    }


def pages(sizes: Sequence[int], matters: float) -> dict[str, Any] | Unmeasured:
    """Return dependent loads in random order on normal pages and on huge ones.

    The ``curve`` has the time of a load by the size of the array and by its pages; ``compared`` says whether huge pages
    are faster for the last size, and ``gain`` how many times as long a load takes there on normal pages.

    Args:
        sizes: bytes of the arrays.
        matters: difference that matters between normal pages and huge ones.
    """
    curve = []
    times: dict[str, Measurement] = {}
    for size in sizes:
        lines = size // LINE_BYTES
        large = Arena(max(size, HUGE_PAGE))
        if not large.huge_bytes():
            return Unmeasured("the system gave no huge pages, or does not say whether it did")
        cycle: Cycle = large.view(0, lines * LINE_ELEMENTS, np.uint64)
        probes.random_cycle()(cycle, np.uint64(0))
        cycles = {"normal pages": random_cycle(lines, huge=False), "huge pages": cycle}
        steps = min(lines, 4000)
        times = _in_turns(
            {name: partial(probes.follow, one, np.zeros(1, np.uint64), steps) for name, one in cycles.items()}
        )
        curve += [
            {"size": Counted(size, "B", "the array"), "pages": name, "found": seconds.scaled(1 / steps, "s")}
            for name, seconds in times.items()
        ]
    return {
        "curve": curve,
        "compared": compare_paired(times["normal pages"], times["huge pages"], matters),
        "gain": ratio(times["normal pages"], times["huge pages"], "a load on normal pages over one on huge pages"),
    }


def page_faults(one: Measurement) -> Counted:
    """Return the minor page faults of one call of what was timed."""
    return Counted(one.conditions.page_faults_per_call or 0.0, "1", f"minor page faults of a call of {one.name!r}")


def stores(count: int) -> Measurement:
    """Return the time of overwriting ``count`` float32 elements over that of updating them."""
    elements = np.ones(count, np.float32)
    times = _in_turns(
        {
            "overwrite": partial(probes.overwrite, elements, np.float32(1)),
            "update": partial(probes.update, elements, np.float32(0)),
        }
    )
    return ratio(times["overwrite"], times["update"], "overwriting over updating")
