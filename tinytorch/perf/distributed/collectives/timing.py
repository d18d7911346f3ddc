"""Times of collectives on ranks, of the library's and of a ring to learn from. Brings no SciPy to ranks.

Ranks have no common clock that is as fine as a small message, so each takes its own time from a barrier on, and the
longest counts. What ranks leave the barrier apart is then part of the time; S. Hunold and A. Carpen-Amarie, 2016
(doi:10.1109/TPDS.2016.2539167), hold this way against others. So a sample is as many calls in a row as make it long
beside a barrier, which is timed, too.

Calls in a row must not run ahead of one another, or their rate would be taken for their latency. All ranks of a
reduction or a gathering need something of all others, so none can be more than a call ahead. In a broadcast the root
changes with every call: who sends next is who has received. A point-to-point message is half of a round trip.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.collective_ops import load_mpi
from tinytorch.perf.distributed.ranks.communicator import Communicator, Place

Kind = Literal[
    "point to point", "point to point between hosts", "broadcast", "all-gather", "reduce-scatter", "all-reduce",
    "ring all-reduce",
]  # fmt: skip
#: All kinds; the last is ours, there to teach, the others are the MPI library's.
KINDS: tuple[Kind, ...] = get_args(Kind)
#: A sample lasts this long at least, in seconds: a thousand readings of a clock, and many barriers.
SAMPLE_SECONDS = 100e-6
#: Calls of each case before the first that counts.
_WARM = 3
#: dtype of what is sent, and its bytes.
_DTYPE, _ITEM = np.float32, 4
#: Runs a number of calls in a row.
_Run = Callable[[int], None]


@dataclass
class _Case:
    """One kind at one size: how it runs, calls in a sample, and this rank's seconds of each."""

    kind: Kind
    nbytes: int
    run: _Run
    loops: int = 1
    seconds: list[float] = field(default_factory=list)

    def take(self, communicator: Communicator) -> None:
        """Take one sample on this rank; the call before it makes the caches warm."""
        self.run(1)
        communicator.raw.Barrier()
        start = time.perf_counter_ns()
        self.run(self.loops)
        self.seconds.append((time.perf_counter_ns() - start) * 1e-9 / self.loops)


def checked_plan(
    kinds: Sequence[str], sizes: Sequence[int], repeats: int, at_most_seconds: float, fewest: int, seed: int
) -> dict[str, Any]:
    """Return the arguments of `time_collectives` by name.

    Raises:
        ValueError: unless kinds are known, sizes and repeats at least 1 and the time above 0.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if not kinds or unknown or len(set(kinds)) < len(kinds):
        raise ValueError(f"kinds must be some of {', '.join(KINDS)}, each once, not {', '.join(kinds) or 'none'}")
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes must be at least one, of 1 byte or more, not {list(sizes)}")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, not {repeats}")
    if not at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {at_most_seconds}")
    plan = {"kinds": list(kinds), "sizes": list(sizes), "repeats": repeats, "at_most_seconds": at_most_seconds}
    return {**plan, "fewest": fewest, "seed": seed}


def largest(communicator: Communicator, values: Any) -> Array:
    """Return the largest of all ranks' values, elementwise, float64, in the shape of what each gives."""
    array = np.array(values, np.float64)
    communicator.raw.Allreduce(load_mpi().IN_PLACE, array, op=load_mpi().MAX)
    return array


def least(communicator: Communicator, value: float) -> float:
    """Return the smallest of all ranks' values."""
    return -float(largest(communicator, [-value])[0])


def rounds_within(communicator: Communicator, repeats: int, fewest: int, at_most_seconds: float) -> Iterator[int]:
    """Yield the numbers of the rounds from 0 on, the same on all ranks.

    There are ``repeats``; fewer, but not below ``fewest``, when ``at_most_seconds`` are over on rank 0.
    """
    until = time.monotonic() + at_most_seconds
    for number in range(repeats):
        if number >= fewest:
            over = np.array([time.monotonic() >= until])
            communicator.raw.Bcast(over)
            if over[0]:
                return
        yield number


def even_sizes(sizes: Sequence[int], ranks: int) -> list[int]:
    """Return sizes in bytes, rising, each rounded up to what can be shared out evenly to ``ranks`` in float32."""
    unit = _ITEM * ranks
    return sorted({-(-size // unit) * unit for size in sizes})


def pairs_of(places: Sequence[Place]) -> dict[str, tuple[int, int]]:
    """Return which two ranks talk, by kind: the first two of one host, and rank 0 and the first of another host."""
    found: dict[str, tuple[int, int]] = {}
    for place in places:
        first = next(other for other in places if other.host == place.host)
        if first is not place:
            found.setdefault("point to point", (first.rank, place.rank))
        if place.host != places[0].host:
            found.setdefault("point to point between hosts", (0, place.rank))
    return found


def time_collectives(
    communicator: Communicator,
    kinds: Sequence[Kind],
    sizes: Sequence[int],
    repeats: int,
    at_most_seconds: float,
    fewest: int,
    seed: int,
) -> dict[str, Any]:
    """Return the samples of all kinds and sizes, the same on every rank; all ranks call it together.

    ``seconds`` (cases, rounds) is the longest of all ranks for one call of ``kinds[i]`` with ``sizes[i]`` bytes,
    ``loops`` the calls of a sample, ``barrier`` (rounds,) a barrier's seconds, ``cpu_per_wall`` the CPU time over the
    wall time of all rounds on the rank that had least: ranks wait without giving their core away, so it is near 1.
    Every round takes one sample of each case, in an order drawn from ``seed``; rounds end early, but not before
    ``fewest``, when ``at_most_seconds`` are over. Kinds for which no two ranks exist are left out.
    """
    cases = _cases(communicator, kinds, even_sizes(sizes, communicator.size))
    barrier = _Case("point to point", 0, lambda loops: _repeated(lambda _: communicator.raw.Barrier(), loops))
    for case in (*cases, barrier):
        _prepare(case, communicator)
    order = np.random.default_rng(seed)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in rounds_within(communicator, repeats, fewest, at_most_seconds):
        for index in order.permutation(len(cases)):
            cases[index].take(communicator)
        barrier.take(communicator)
    used = (time.process_time() - cpu) / (time.perf_counter() - wall)
    return {
        "kinds": [case.kind for case in cases],
        "sizes": [case.nbytes for case in cases],
        "seconds": largest(communicator, [case.seconds for case in cases]),
        "loops": [case.loops for case in cases],
        "cpu_per_wall": least(communicator, used),
        "barrier": largest(communicator, [barrier.seconds])[0],
        "library": " ".join(load_mpi().Get_library_version().split("\n")[0].split()),
        "ranks": communicator.size,
        "hosts": len({place.host for place in communicator.places}),
        "oversubscribed": communicator.oversubscribed,
        "seed": seed,
    }


def launched_times(communicator: Communicator, **plan: Any) -> dict[str, Any]:
    """Do what `time_collectives` does, without garbage collections for the rest of this process, which ends here."""
    gc.collect()
    gc.disable()
    return time_collectives(communicator, **plan)


def _cases(communicator: Communicator, kinds: Sequence[Kind], sizes: Sequence[int]) -> list[_Case]:
    count = max(sizes) // _ITEM
    given, made = np.ones(count, _DTYPE), np.ones(count, _DTYPE)  # one pair for all, so that it stays in the caches
    pairs = pairs_of(communicator.places)
    cases = []
    for kind in kinds:
        for nbytes in sizes:
            length = nbytes // _ITEM
            run = _run_of(kind, communicator, given[:length], made[:length], pairs)
            if run is not None:
                cases.append(_Case(kind, nbytes, run))
    return cases


def _run_of(
    kind: Kind, communicator: Communicator, given: Array, made: Array, pairs: dict[str, tuple[int, int]]
) -> _Run | None:
    """Return what makes calls of a kind in a row, at mpi4py's level; None if the ranks have no pair for it."""
    raw, rank, size = communicator.raw, communicator.rank, communicator.size
    part = len(given) // size
    calls: dict[str, Callable[[int], Any]] = {
        "broadcast": lambda index: raw.Bcast(made, index % size),
        "all-gather": lambda _: raw.Allgather(given[:part], made),
        "reduce-scatter": lambda _: raw.Reduce_scatter_block(given, made[:part]),
        "all-reduce": lambda _: raw.Allreduce(given, made),
        "ring all-reduce": lambda _: ring_all_reduce(given, communicator),
    }
    if kind in calls:
        return lambda loops: _repeated(calls[kind], loops)
    if kind not in pairs:
        return None
    return lambda loops: _back_and_forth(raw, rank, pairs[kind], given, made, loops)


def _repeated(call: Callable[[int], Any], loops: int) -> None:
    for index in range(loops):
        call(index)


def _back_and_forth(raw: Any, rank: int, pair: tuple[int, int], given: Array, made: Array, loops: int) -> None:
    """Send ``loops`` messages, an even number, back and forth between two ranks; the others do nothing."""
    first, second = pair
    if rank == first:
        for _ in range(loops // 2 or 1):
            raw.Send(given, second)
            raw.Recv(made, second)
    elif rank == second:
        for _ in range(loops // 2 or 1):
            raw.Recv(made, first)
            raw.Send(given, first)


def _prepare(case: _Case, communicator: Communicator) -> None:
    """Warm a case up, and set how many calls make a sample, alike on all ranks, an even number."""
    case.loops = 2
    for _ in range(_WARM):
        case.take(communicator)
    for _ in range(3):  # few calls' time holds more than the calls: look again with many
        fastest = largest(communicator, case.seconds).min()
        case.loops = 2 * math.ceil(SAMPLE_SECONDS / (2 * max(fastest, 1e-9)))
        case.take(communicator)
    case.seconds.clear()


#: Tag of the ring's messages.
TAG = 71


def ring_all_reduce(array: Array, communicator: Communicator) -> Array:
    """Return the sum of every rank's ``array``, elementwise, by passing parts of it around a ring.

    Each rank sends 2 (ranks - 1) messages, each 1/ranks of the array: less than twice its bytes,
    however many ranks there are.

    Source: P. Patarasuk and X. Yuan, 2009 (doi:10.1016/j.jpdc.2008.09.002).
    """
    rank, size = communicator.rank, communicator.size
    total = array.flatten()
    parts = np.array_split(total, size)  # views: what is written to a part is in the total
    for step in range(size - 1):  # reduce-scatter: a part grows with each rank that it visits
        parts[(rank - step - 1) % size] += passed_on(parts[(rank - step) % size], communicator)
    for step in range(size - 1):  # all-gather: the whole sums go round
        parts[(rank - step) % size][:] = passed_on(parts[(rank - step + 1) % size], communicator)
    return total.reshape(array.shape)


def passed_on(part: Array, communicator: Communicator) -> Array:
    """Send ``part`` to the next rank of the ring and return what the one before sends meanwhile."""
    rank, size = communicator.rank, communicator.size
    sending = communicator.begin_send(part, (rank + 1) % size, TAG)
    received = communicator.receive((rank - 1) % size, TAG)
    sending.wait()
    return received
