"""What the page on memory computes: how long loads wait, which lines a walk brings, and what fresh memory costs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.perf.host.memory_pages import Arena
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.probes import LINE_BYTES, LINE_ELEMENTS
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, interleave, quotient, ratio
from tinytorch.perf.measuring.comparison import compare_paired

#: Bytes of a page of memory, where none is huge, and the places of a chase in one.
_PAGE = 4096
_PAGE_ELEMENTS = _PAGE // 8
#: Bytes of the whole numbers that are walked, and how many of them a line holds.
_NUMBER = 4
IN_A_LINE = LINE_BYTES // _NUMBER


def _in_turns(passes: Mapping[str, Callable[[], object]]) -> dict[str, Measurement]:
    """Return the seconds of passes that drift: a few dozen samples are over within one moment of the machine."""
    return interleave(passes, repeats=30, warmup_seconds=0.2)


def waits(machine: Ceilings) -> dict[str, Any]:
    """Return how long one load waits on this machine, by its ladder.

    The ``curve`` has the wait at every second working set as rows, ``borders`` what each cache holds, as far as that is
    known; ``near`` and ``far`` are the waits for the first cache and for memory, ``ratio`` the second over the first.
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
        "ratio": quotient(far, near, "the wait for memory over that for the first cache"),
    }


def every(numbers: npt.NDArray[np.int32], strides: Sequence[int], machine: Ceilings) -> dict[int, dict[str, Any]]:
    """Return a pass over a matrix for each stride, taken in turns; each row of it is walked in these strides.

    A pass has the seconds of the ``whole``, those for each number that was ``found``, and as ``predicted`` what a
    number takes if lines come at the speed at which memory is read, and nothing else takes time.

    Args:
        numbers: much larger than any cache, and a view of a wider matrix, so that one compiled body takes all strides.
        strides: ascending; a stride divides the length of a row.
        machine: says how fast memory is read.
    """
    views = {stride: numbers[:, ::stride] for stride in strides}
    times = _in_turns({str(stride): partial(probes.add_up, view) for stride, view in views.items()})
    read = machine.levels[-1].read
    found = {}
    for stride, view in views.items():
        name, whole = f"a number, stride {stride}", times[str(stride)]
        moved = read.per(min(stride, IN_A_LINE) * _NUMBER, "s", name)
        found[stride] = {
            "stride": stride,
            "whole": whole,
            "found": whole.scaled(1 / view.size, "s", name),
            "predicted": Modelled.by("lines at the speed at which memory is read", moved),
        }
    return found


def company(machine: Ceilings, most: int = 8) -> dict[str, Any] | Unmeasured:
    """Return loads in one array that fills half of a cache, in several such arrays in turn, and in one as large as all.

    The cache is the second one, of which each core mostly has its own; the first where that is all that is known. A
    pass goes through as many lines whatever it walks, each array on a random cycle of its own, and all are taken in
    turns. The result has the ``size`` of one array, and of loads in ``several`` and in one that is as ``large`` as
    they are the time over that of one in one array.
    """
    known = [level for level in machine.levels[:-1] if level.capacity]
    if not known:
        return Unmeasured("the system does not say what its caches hold, and no curve shows it")
    lines = int(known[min(1, len(known) - 1)].capacity or 0) // 2 // LINE_BYTES
    arrays, large = [_cycle(lines, seed) for seed in range(most)], _cycle(most * lines)
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


def _cycle(lines: int, seed: int = 0) -> npt.NDArray[np.uint64]:
    """Return so many lines of memory, each of which holds where the next one in a random cycle begins."""
    cycle = Arena(lines * LINE_BYTES).view(0, lines * LINE_ELEMENTS, np.uint64)
    probes.random_cycle()(cycle, np.uint64(seed))
    return cycle


def together(counts: Sequence[int], machine: Ceilings, steps: int = 1000) -> dict[str, Any]:
    """Return loads from memory in 1 and more chains, all on one random cycle.

    The cycle is as long as the ladder of the ``machine`` goes, which no cache holds. All chains begin as far from one
    another along it as can be, so that none comes soon to lines that another one has left in a cache. The ``curve`` has
    the time of a load by the number of chains, and as ``predicted`` that of one chain shared by all; ``gain`` says by
    that number how many times as fast loads come as in one chain. ``random`` is a load in one chain over one number of
    each line of the same memory, walked in strides.
    """
    lines = machine.curves["latency"][-1].working_set // LINE_BYTES
    cycle = _cycle(lines)
    starts = np.zeros(sum(counts), np.uint64)
    for at in range(1, starts.size):
        starts[at] = probes.chase()(cycle, starts[at - 1], lines // starts.size)
    of_count = np.split(starts, np.cumsum(counts)[:-1])
    strided = cycle.view(np.int32).reshape(64, -1)[:, ::IN_A_LINE]
    times = _in_turns(
        {f"chains: {n}": partial(probes.follow, cycle, at, steps) for n, at in zip(counts, of_count, strict=True)}
        | {"strided": partial(probes.add_up, strided)}
    )
    loads = {count: times[f"chains: {count}"].scaled(1 / (steps * count), "s") for count in counts}
    one = loads[counts[0]]
    law = "one wait, shared by the chains"
    return {
        "curve": [
            {"chains": count, "found": load, "predicted": Modelled.by(law, one.scaled(1 / count, "s"))}
            for count, load in loads.items()
        ],
        "gain": {count: ratio(one, load, f"one chain over {count}") for count, load in loads.items()},
        "random": ratio(one, times["strided"].scaled(1 / strided.size), "a random load over a number of each line"),
    }


def pages(lines: int, matters: float) -> dict[str, Any] | Unmeasured:
    """Return a chase through so many lines: ``apart``, one a page over side by side, and ``huge``, on larger pages.

    Args:
        lines: enough to exceed what remembers where pages are, and few enough for a cache.
        matters: difference that matters between the lines on normal pages and on huge ones.
    """
    draw = np.random.default_rng(0)
    order, within = draw.permutation(lines), draw.integers(0, _PAGE // LINE_BYTES, lines)
    spread = order * _PAGE_ELEMENTS + within[order] * LINE_ELEMENTS
    large = Arena(lines * _PAGE, huge=True)
    if not large.huge_bytes():
        return Unmeasured("the system gave no huge pages, or does not say whether it did")
    arenas = {
        "together": (Arena(lines * LINE_BYTES, huge=False), order * LINE_ELEMENTS),
        "normal": (Arena(lines * _PAGE, huge=False), spread),
        "huge": (large, spread),
    }
    passes: dict[str, Callable[[], object]] = {}
    for name, (arena, places) in arenas.items():
        following = arena.view(0, arena.memory.size // 8, np.uint64)
        following[places] = np.roll(places, -1).astype(np.uint64)
        passes[name] = partial(probes.follow, following, places[:1].astype(np.uint64), lines)
    times = _in_turns(passes)
    return {
        "apart": ratio(times["normal"], times["together"], "one line on each page over side by side"),
        "huge": compare_paired(times["normal"], times["huge"], matters),
    }


def fresh(times: Mapping[str, Measurement], count: int, *, matters: float) -> dict[str, Any]:
    """Return a sum of ``count`` numbers into a "new" array beside that into the "same", with page faults of the former.

    A difference between their ``times``, which were taken in turns, counts from ``matters`` on.
    """
    what = f"minor page faults of a sum of {count} numbers into a new array, a call"
    return {
        "size": Counted(4 * count, "B", "bytes of the sum"),
        "compared": compare_paired(times["new"], times["same"], matters),
        "faults": Counted(times["new"].conditions.page_faults_per_call or 0.0, "1", what),
    }


def stores(count: int) -> Measurement:
    """Return the time of overwriting ``count`` float32 numbers over that of updating them."""
    numbers = np.ones(count, np.float32)
    times = _in_turns(
        {
            "overwrite": partial(probes.overwrite, numbers, np.float32(1)),
            "update": partial(probes.update, numbers, np.float32(0)),
        }
    )
    return ratio(times["overwrite"], times["update"], "overwriting over updating")
