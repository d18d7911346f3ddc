"""Stations: which cores of its host each worker of a campaign measures on, and what it shares them with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tinytorch.perf.distributed.ranks.communicator import Place
from tinytorch.perf.host.pinned_threads import may_pin, usable_cores

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True)
class Station:
    """Where a worker measures.

    Attributes:
        rank: among the workers. host: its host's name.
        cores: numbers of the logical cores that it measures on.
        workers: of all on its host, itself included.
        pinned: whether it is kept on its cores.
        oversubscribed: whether its host has too few cores for its workers, so that some share one.
        shares_core: whether another worker measures on the second hardware thread of a core of its.
    """

    rank: int
    host: str
    cores: tuple[int, ...]
    workers: int
    pinned: bool
    oversubscribed: bool
    shares_core: bool


def physical_cores(cores: Sequence[int]) -> dict[int, int]:
    """Return, for each logical core, a number that those of one physical core share; its own where nobody says."""
    found = {}
    for core in cores:
        path = Path(_TOPOLOGY.format(core))
        first = path.read_text("ascii").strip().replace("-", ",").split(",")[0] if path.is_file() else str(core)
        found[core] = int(first)
    return found


def default_workers(threads: int) -> int:
    """Return how many workers this machine has physical cores for, if each measures with ``threads``; at least 1."""
    return max(1, len(set(physical_cores(usable_cores()).values())) // threads)


def stations(places: Sequence[Place], physical: Sequence[Mapping[int, int]], threads: int) -> tuple[Station, ...]:
    """Return the station of each worker: ``threads`` cores of its own, on physical cores of their own if there are.

    Where a host has too few cores, workers share them, and all workers of that host are oversubscribed.

    Args:
        places: of the workers, in the order of their ranks.
        physical: of each worker, as `physical_cores` says it of its cores.
        threads: that each measures with.
    """
    given: dict[int, tuple[int, ...]] = {}
    short: set[str] = set()
    taken: dict[str, list[int]] = {}
    # Who may use few cores chooses first: a launcher that binds each rank to a core leaves it no other.
    for place in sorted(places, key=lambda place: (len(place.cores), place.rank)):
        used = taken.setdefault(place.host, [])
        own = _chosen(place.cores, physical[place.rank], used, threads)
        if len(own) < threads or any(core in used for core in own):
            short.add(place.host)
        given[place.rank] = tuple(sorted(own))
        used += own
    return tuple(_station(place, places, given, physical[place.rank], place.host in short) for place in places)


def _chosen(cores: Sequence[int], kinds: Mapping[int, int], used: Sequence[int], threads: int) -> list[int]:
    """Return ``threads`` of ``cores``, fewer if there are not as many: those that the fewest others have."""
    own: list[int] = []
    for _ in range(min(threads, len(cores))):
        busy = {kinds[core] for core in (*used, *own) if core in kinds}
        left = [core for core in cores if core not in own]
        own.append(min(left, key=lambda core: (used.count(core), kinds[core] in busy, core)))
    return own


def _station(
    place: Place,
    places: Sequence[Place],
    given: Mapping[int, tuple[int, ...]],
    kinds: Mapping[int, int],
    short: bool,
) -> Station:
    others = [other.rank for other in places if other.host == place.host and other.rank != place.rank]
    own = {kinds[core] for core in given[place.rank]}
    return Station(
        place.rank,
        place.host,
        given[place.rank],
        len(others) + 1,
        may_pin(),
        short,
        any(kinds.get(core) in own for rank in others for core in given[rank]),
    )
