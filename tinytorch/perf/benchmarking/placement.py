"""Where a process of a run was when it took its times: its number, worker, host and cores, and who measured beside it.

It stands in the conditions of each measurement, under `WORKER`. Runs without workers note nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tinytorch.perf.benchmarking.performance import WORKER, Performance
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import CANNOT_TELL, Comparison

Json = dict[str, Any]
#: How many cores are told by their numbers.
_CORES_NAMED = 8
_TOO_MANY = "more workers than cores took these times"


def placed(one: Performance, place: Json) -> Performance:
    """Return ``one`` with ``place`` among the conditions of all its times.

    Args:
        place: ``process``, its number in the run, and what `stations.Station` holds.
    """

    def noted(times: Mapping[int, tuple[Measurement, ...]]) -> dict[int, tuple[Measurement, ...]]:
        return {
            size: tuple(replace(each, how={**each.how, WORKER: place}) for each in measured)
            for size, measured in times.items()
        }

    return replace(one, times=noted(one.times), reference=noted(one.reference))


def places(one: Performance) -> list[Json]:
    """Return the places of ``one``'s processes, in their order, but for those that noted none."""
    return [each.how[WORKER] for each in one.times[one.batches[0]] if WORKER in each.how]


def numbers_done(performances: Mapping[str, Performance], done: int) -> set[int]:
    """Return the numbers of the ``done`` processes; workers may have left out one that failed."""
    if not performances:
        return set()
    one = next(iter(performances.values()))
    processes = one.times[one.batches[0]]
    return {processes[at].how.get(WORKER, {"process": at})["process"] for at in range(done)}


def workers_at_once(performances: Mapping[str, Performance]) -> int:
    """Return how many workers of one host measured at the same time, at most; 1 where there were none."""
    return max((place["workers"] for one in performances.values() for place in places(one)), default=1)


def oversubscribed(performances: Iterable[Performance]) -> bool:
    """Return whether some host had more workers than cores for them: such times support no verdict."""
    return any(place["oversubscribed"] for one in performances for place in places(one))


def withheld(made: Comparison, performances: Iterable[Performance]) -> Comparison:
    """Return ``made``, without its verdict if more workers than cores took the times."""
    if not oversubscribed(performances):
        return made
    return replace(made, verdict=CANNOT_TELL, because=_TOO_MANY)


def place_words(performances: Mapping[str, Performance]) -> list[str]:
    """Return where the processes ran, a sentence for each host, and one more if it had too few cores; none if unknown.

    As in "measured on node7 by 2 workers at a time, kept on cores 0, 1".
    """
    found = [place for one in [*performances.values()][:1] for place in places(one)]
    said = []
    for host in dict.fromkeys(place["host"] for place in found):
        there = [place for place in found if place["host"] == host]
        cores = sorted({core for place in there for core in place["cores"]})
        workers = max(place["workers"] for place in there)
        pinned = "kept on" if all(place["pinned"] for place in there) else "not kept on"
        together = f"{workers} workers at a time" if workers > 1 else "one worker"
        said.append(f"measured on {host} by {together}, {pinned} {_core_words(cores)}")
    if any(place["oversubscribed"] for place in found):
        said.append(f"{_TOO_MANY}: they support no verdict")
    return said


def _core_words(cores: list[int]) -> str:
    if len(cores) > _CORES_NAMED:
        return f"{len(cores)} cores"
    return f"core{'s' if len(cores) > 1 else ''} {', '.join(map(str, cores))}"
