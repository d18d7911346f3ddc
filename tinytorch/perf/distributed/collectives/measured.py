"""Collectives measured on ranks: times over message sizes, the links fitted to them, and their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.perf.distributed.collectives.link_fit import BECAUSE, FittedLink, fit_pieces
from tinytorch.perf.distributed.collectives.timing import KINDS, Kind, checked_plan, launched_times, time_collectives
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import may_pin
from tinytorch.perf.measuring import Measurement, Unmeasured, collector_off
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.codec import Format
from tinytorch.perf.measuring.conditions import BlasThreads, Caches, Conditions, Ranks
from tinytorch.perf.measuring.measurement import Seconds
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

#: 8 B to 2 MiB, twice as many each time.
SIZES = tuple(2**power for power in range(3, 22))

#: Groups of fresh processes that a measurement is spread over at most.
LAUNCHES = 6


@dataclass(frozen=True)
class Collectives:
    """Times of collectives on some ranks, by kind and size.

    Attributes:
        ranks, hosts: how many there were.
        library: the MPI library's own name and version.
        oversubscribed: whether a host had more ranks than cores: nothing is fitted or judged then.
        times: by kind and size in bytes (of the message, of what a gathering makes, of what each rank gives to a
            reduction), the seconds of one call, that of the slowest rank.
        barrier: seconds of a barrier, by which a sample, of 100 µs or more, may be wrong.

    Examples:
        >>> from tinytorch.perf.distributed.collectives.measured import Collectives
        >>> from tinytorch.perf.measuring import Measurement
        >>> made = Measurement("made", (2e-6, 1e-6, 3e-6), "s")
        >>> found = Collectives(2, 1, "an MPI library", False, {"all-reduce": {1024: made}}, barrier=made)
        >>> found.kinds, found.sizes, found.of("all-reduce")[1024].median
        (('all-reduce',), (1024,), 2e-06)
    """

    ranks: int
    hosts: int
    library: str
    oversubscribed: bool
    times: Mapping[Kind, Mapping[int, Seconds]]
    barrier: Seconds

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of collectives that were measured."""
        return tuple(self.times)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the messages, in bytes, in increasing order."""
        return tuple(sorted(next(iter(self.times.values()))))

    def of(self, kind: Kind) -> Mapping[int, Measurement]:
        """Return the times of a kind by size.

        Raises:
            ValueError: if it was not measured.
        """
        if kind not in self.times:
            raise ValueError(f"kind must be one that was measured, {', '.join(self.times)}, not {kind!r}")
        return self.times[kind]

    def links(self, kind: Kind = "point to point") -> tuple[FittedLink, ...] | Unmeasured:
        """Return the smallest number of lines (at most three) that fit the times, each for a range of sizes.

        Raises:
            ValueError: if the kind was not measured, or not for sizes enough.
        """
        return Unmeasured(BECAUSE) if self.oversubscribed else fit_pieces(self.of(kind))


def measure_collectives(
    ranks: int,
    sizes: Sequence[int] = SIZES,
    *,
    kinds: Sequence[Kind] = KINDS,
    repeats: int = 30,
    at_most_seconds: float = 6.0,
    seed: int = 0,
) -> Collectives:
    """Return the times of collectives on ``ranks`` processes of this machine, each pinned to its own core if possible.

    Kinds and sizes take turns in rounds. The rounds are those of up to six groups of fresh processes, one after the
    other: what a message takes differs more between two groups than within one.

    Args:
        sizes: of messages, in bytes; rounded up to what can be shared out to the ranks.
        kinds: what to measure; those for which there are no two ranks are left out.
        repeats: rounds in all, six or more in each group; fewer, but six at least, when ``at_most_seconds`` have
            passed.
        seed: random seed for the order of the kinds and sizes.

    Raises:
        ValueError: if there are fewer than two ranks, or an argument is out of its range.
        MPIMissingError: if there is no MPI.
        RankError: if a rank fails.

    Examples:
        >>> from tinytorch.perf.distributed.collectives.measured import measure_collectives
        >>> measure_collectives(ranks=1)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ranks must be at least 2...
    """
    if ranks < 2:
        raise ValueError(f"ranks must be at least 2, because one rank has no partner, not {ranks}")
    plan = checked_plan(kinds, sizes, repeats, at_most_seconds, FEWEST_FOR_INTERVAL, seed)
    launches = max(1, min(LAUNCHES, repeats // FEWEST_FOR_INTERVAL))
    plan |= {"repeats": repeats // launches, "at_most_seconds": at_most_seconds / launches}
    told = [
        launch(launched_times, ranks, {**plan, "seed": seed + number}, threads=1, pinned=True)[0]
        for number in range(launches)
    ]
    rounds = min(len(one["barrier"]) for one in told)
    return _collectives(_joined(told, rounds), limited_blas_threads(1) or "unknown", may_pin(), rounds)


def measure_collectives_on(
    communicator: Communicator, sizes: Sequence[int] = SIZES, *, at_most_seconds: float = 60.0
) -> Collectives:
    """Return what `measure_collectives` does, of a group that runs already, as under a cluster's own ``mpiexec``.

    All ranks call it together and get the same. Where the group spans hosts, messages between two hosts are a kind of
    their own. Who pins ranks to cores is the cluster's scheduler.

    Raises:
        ValueError: as `measure_collectives`.
    """
    if communicator.size < 2:
        raise ValueError(
            "communicator must have at least 2 ranks, because one rank has no partner: start it with mpiexec"
        )
    plan = checked_plan(KINDS, sizes, 30, at_most_seconds, FEWEST_FOR_INTERVAL, 0)
    with collector_off():
        return _collectives(time_collectives(communicator, **plan))


def _joined(launches: Sequence[Mapping[str, Any]], rounds: int) -> dict[str, Any]:
    """Return the samples of several groups as those of one, ``rounds`` of each, one group after the other."""
    first = launches[0]
    return {
        **first,
        "seconds": np.concatenate([np.asarray(one["seconds"])[:, :rounds] for one in launches], axis=1),
        "barrier": np.concatenate([np.asarray(one["barrier"])[:rounds] for one in launches]),
        "cpu_per_wall": min(one["cpu_per_wall"] for one in launches),
    }


def _collectives(
    values: Mapping[str, Any], threads: BlasThreads | None = None, pinned: bool | None = None, block: int | None = None
) -> Collectives:
    """Return the samples of ranks as measurements.

    Args:
        values: what `time_collectives` returns.
        threads: of each rank's BLAS; None if not known.
        pinned: whether each rank was kept on a core of its own; None if not known.
        block: samples in a row of one group of processes; None if there was one group.
    """
    ranks = Ranks(ranks=values["ranks"], oversubscribed=values["oversubscribed"], pinned=pinned)
    conditions = Conditions(
        blas_threads=threads,
        caches=Caches.WARM,
        collector_off=True,
        cpu_per_wall=float(f"{values['cpu_per_wall']:.3g}"),
        order_seed=values["seed"],
        instrument=ranks,
        note=f"By {values['library']} on {values['hosts']} {'host' if values['hosts'] == 1 else 'hosts'}.",
    )
    cases = list(zip(values["kinds"], values["sizes"], strict=True))
    times: dict[Kind, dict[int, Measurement]] = {}
    for index, (kind, size) in enumerate(cases):
        others = (_name(*other) for other in cases if other != (kind, size) and (other[0] == kind or other[1] == size))
        own = replace(
            conditions,
            instrument=replace(ranks, series=f"{kind}, {values['ranks']} ranks"),
            inner_loops=int(values["loops"][index]),
            interleaved_with=tuple(others),
        )
        seconds = Measurement(_name(kind, size), tuple(values["seconds"][index].tolist()), "s", own)
        times.setdefault(kind, {})[size] = with_between_run_spread(seconds, block, of="messages")
    barrier = Measurement("barrier", tuple(values["barrier"].tolist()), "s", conditions)
    barrier = with_between_run_spread(barrier, block, of="messages")
    return Collectives(values["ranks"], values["hosts"], values["library"], values["oversubscribed"], times, barrier)


def _name(kind: str, size: int) -> str:
    return f"{kind} of {size} B"


#: Files of collectives.
COLLECTIVES = Format("tinytorch-collectives", 3, Collectives, "`tinytorch links --json FILE`")
