"""Training steps of the zoo on ranks: strong and weak scaling, overlap of communication, and memory by sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinytorch import models
from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.scaling_laws import LawFit, fit_law
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.measuring import (
    BECAUSE,
    Withheld,
    checked_rounds,
    compare_on_ranks,
    is_oversubscribed,
)
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import may_pin, usable_cores
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Ranks, of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, verdict_between, word_between
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

Way = Literal["strong", "weak"]
#: Relative distance from an efficiency of 1 that still counts as linear.
LINEAR = 0.25
#: Ranks wait without giving their cores away, so one that had less of its core than this shared it with other programs.
WHOLE_CORE = 0.9


@dataclass(frozen=True)
class ScalingVerdict:
    """Verdict on how a step scales; None, with the reason, where ranks had to share cores."""

    word: Judgement | None
    because: str


@dataclass(frozen=True)
class Scaling:
    """Times of a training step by the number of ranks, taken in turns.

    Attributes:
        way: "strong": ``batch`` examples for all ranks together; "weak": for each.
        name: the model of the zoo.
        times: by number of ranks, seconds of a step, those of the slowest rank; on one rank a plain step.
    """

    way: Way
    name: str
    batch: int
    times: Mapping[int, Measurement]

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of ranks, rising."""
        return tuple(sorted(self.times))

    @property
    def judged(self) -> tuple[int, ...]:
        """Numbers of ranks above one that had a core for each."""
        return tuple(count for count in self.counts if count > 1 and not self.oversubscribed(count))

    def oversubscribed(self, count: int) -> bool:
        """Return whether ``count`` ranks had to share cores."""
        return is_oversubscribed(self.times[self._checked(count)])

    def speedup(self, count: int) -> Statistic | None:
        """Return the work done in the time of one rank's, in units of its work; None if ranks had to share cores.

        Strong: one rank's time over that of ``count``. Weak: ``count`` times that, Gustafson's scaled speedup. Pairs
        are the samples of one round, the interval is `compare_paired`'s.

        Raises:
            ValueError: if ``count`` was not measured, or is 1.
        """
        comparison = self._compared(count)
        if comparison is None:
            return None
        factor = count if self.way == "weak" else 1
        return comparison.estimate.scaled(factor, name=f"speedup of {count} ranks")

    def efficiency(self, count: int) -> Statistic | None:
        """Return the speedup over the number of ranks, a share; None if ranks had to share cores."""
        speedup = self.speedup(count)
        return None if speedup is None else speedup.scaled(1 / count, "%", f"efficiency of {count} ranks")

    def verdict(self, count: int) -> ScalingVerdict:
        """Return whether ``count`` ranks do ``count`` times the work of one, as far as the interval can tell.

        "linear" if the efficiency lies within `LINEAR` of 1, "superlinear" or "sublinear" if it lies beyond, "slower
        than one rank" if the speedup lies below 1. None if ranks had to share cores with one another, withheld where
        other programs took them.
        """
        efficiency = self.efficiency(count)
        if efficiency is None:
            return ScalingVerdict(None, BECAUSE)
        disturbed = self.disturbed(count)
        return (
            _verdict(efficiency, count) if disturbed is None else ScalingVerdict(Judgement(Verdict.WITHHELD), disturbed)
        )

    def disturbed(self, count: int) -> str | None:
        """Return what other programs took of a core while one rank or ``count`` were timed; None if nothing to tell."""
        had = of_all(self.times[one].conditions for one in (1, self._checked(count))).cpu_per_wall
        return (
            f"other programs ran beside the ranks: one had {had:.0%} of its core" if had and had < WHOLE_CORE else None
        )

    def law(self) -> LawFit | None:
        """Return the serial share that Amdahl's law (strong) or Gustafson's (weak) finds in the times.

        None if no number of ranks above one had a core for each.
        """
        if not self.judged:
            return None
        return fit_law(self.way, {count: self.times[count] for count in (1, *self.judged)})

    def _checked(self, count: int) -> int:
        if count not in self.times:
            raise ValueError(f"count must be one that was measured, {', '.join(map(str, self.counts))}, not {count}")
        return count

    def _compared(self, count: int) -> Comparison | None:
        """Return one rank's times against those of ``count``; None if these had to share cores."""
        if self.oversubscribed(count):
            return None
        if count == 1:
            raise ValueError("count must be above 1: one rank is what the others are compared with")
        return compare_paired(self.times[1], self.times[count], matters=0.15)


def _verdict(efficiency: Statistic, count: int) -> ScalingVerdict:
    within = f"the {1 / (1 + LINEAR):.2g} to {1 + LINEAR:.3g} that count as linear"
    words: dict[str, tuple[float | None, float | None, str]] = {
        "slower than one rank": (None, 1 / count, "so that the speedup lies below 1"),
        "superlinear": (1 + LINEAR, None, f"all of it beyond {within}"),
        "sublinear": (None, 1 / (1 + LINEAR), f"all of it beyond {within}"),
        "linear": (1 / (1 + LINEAR), 1 + LINEAR, f"all of it within {within}"),
    }
    found = f"the efficiency lies between {efficiency.interval.low:.1%} and {efficiency.interval.high:.1%}"
    for word, (low, high, because) in words.items():
        tested = verdict_between(efficiency, low, high, strict=word != "linear")
        if tested.verdict is Verdict.SUPPORTED:
            return ScalingVerdict(Judgement(tested.verdict, tested.tests, word), f"{found}, {because}")
    left = word_between(efficiency, {word: (low, high) for word, (low, high, _) in words.items()})
    return ScalingVerdict(left, f"{found}, which holds an end of {within}")


def scaling(
    name: str,
    cases: Sequence[tuple[Way, int]],
    counts: Sequence[int] | None = None,
    *,
    repeats: int = 20,
    at_most_seconds: float = 4.0,
    seed: int = 0,
) -> list[Scaling]:
    """Return the times of training steps on 1, 2, ... ranks of this machine, for each of ``cases``.

    All take turns in one launch, each rank kept on a core of its own if it may; ranks outside of a turn sleep: see
    `turns`.

    Args:
        name: of the zoo's model that is trained.
        cases: ways of scaling, each with its examples: "strong" shares them out to the ranks, "weak" gives each as
            many; at least one for each rank.
        counts: numbers of ranks, 1 among them; by default powers of two up to the cores, and all cores.
        repeats: rounds; fewer, but six at least, when ``at_most_seconds`` are over.
        seed: of the order of turns.

    Raises:
        ValueError: if an argument is out of its range.
        MPIMissingError: if there is no MPI.
        RankError: if a rank fails.
    """
    models.entry(name)
    chosen = sorted(set(default_counts(len(usable_cores())) if counts is None else counts))
    if not chosen or chosen[0] != 1:
        raise ValueError(f"counts must be numbers of ranks with 1 among them, to compare with, not {chosen}")
    if not cases:
        raise ValueError("cases must be at least one way of scaling with its examples")
    for way, batch in cases:
        step_programs.checked_batch(batch, 1 if way == "weak" else chosen[-1])
    checked_rounds(repeats, at_most_seconds)
    plan = {
        "name": name,
        "cases": [[way == "weak", batch] for way, batch in cases],
        "counts": chosen,
        "repeats": repeats,
        "at_most_seconds": at_most_seconds,
        "fewest": FEWEST_FOR_INTERVAL,
        "seed": seed,
    }
    told = launch(step_programs.scaling_times, chosen[-1], plan, threads=1, pinned=True)[0]
    names = {str(count): f"a step on {count} {'ranks' if count > 1 else 'rank'}" for count in chosen}
    found = []
    for (way, batch), one in zip(cases, told["cases"], strict=True):
        note = f"{way.capitalize()} scaling of the zoo's {name.upper()}, batch of {batch}."
        note = f"{note} Idle ranks used {told['idle_cpu_share']:.2g} of a core."
        times = step_measurements(one, names, seed, note)
        found.append(Scaling(way, name, batch, {int(count): seconds for count, seconds in times.items()}))
    return found


def default_counts(cores: int) -> tuple[int, ...]:
    """Return powers of two up to ``cores``, and ``cores``."""
    powers = {2**power for power in range(cores.bit_length())}
    return tuple(sorted(powers | {cores}))


def step_measurements(
    told: Mapping[str, Mapping[str, Any]], names: Mapping[str, str], seed: int, note: str, ranks: int | None = None
) -> dict[str, Measurement]:
    """Return what `step_programs` told of steps that took turns, by key, as measurements with these names.

    Without ``ranks``, keys are their numbers.
    """
    found = {}
    for key, one in told.items():
        conditions = Conditions(
            inner_loops=one["loops"],
            collector_off=True,
            blas_threads=limited_blas_threads(1) or "unknown",
            cpu_per_wall=float(f"{one['cpu_per_wall']:.3g}"),
            page_faults_per_call=float(f"{one['faults']:.3g}"),
            order_seed=seed,
            interleaved_with=tuple(other for at, other in names.items() if at != key),
            instrument=Ranks(ranks=ranks or int(key), oversubscribed=one["oversubscribed"], pinned=may_pin()),
            note=note,
        )
        seconds = tuple(np.asarray(one["seconds"]).tolist())
        found[key] = with_between_run_spread(Measurement(names[key], seconds, "s", conditions))
    return found


_NAMES = {
    "overlapped": "a step that sends during the backward",
    "apart": "a step that sends after the backward",
    "alone": "a step that sends nothing",
}


@dataclass(frozen=True)
class Overlap:
    """Steps on the same ranks with the same batch, in turns; seconds, those of the slowest rank.

    Attributes:
        ranks, name, batch, bucket_bytes: what ran: the zoo's model, examples of all ranks together, bytes at which
            gradients are sent off.
        overlapped, apart: gradients are sent while the backward runs, or after it.
        alone: each rank trains on its part by itself: all that ranks compute, and none of what joining them costs.
    """

    ranks: int
    name: str
    batch: int
    bucket_bytes: int
    overlapped: Measurement
    apart: Measurement
    alone: Measurement

    def compare(self) -> Comparison | Withheld:
        """Return how much faster steps are that overlap: the ratio apart / overlapped, above 1 if overlap pays."""
        return compare_on_ranks(self.apart, self.overlapped)


def overlap(
    name: str,
    batch: int,
    ranks: int,
    *,
    bucket_bytes: int = 2**18,
    repeats: int = 20,
    at_most_seconds: float = 4.0,
    seed: int = 0,
) -> Overlap:
    """Return steps of a model of the zoo on ``ranks`` of this machine, with and without overlap, in turns.

    Args:
        name: of the model. batch: examples of all ranks together.
        bucket_bytes: at which a bucket of gradients is sent: with a single bucket only the last could travel early.
        repeats: rounds; fewer, but six at least, when ``at_most_seconds`` are over.
        seed: of the order of turns.

    Raises:
        ValueError: if an argument is out of its range.
        MPIMissingError: if there is no MPI.
        RankError: if a rank fails.
    """
    models.entry(name)
    if ranks < 2:
        raise ValueError(f"ranks must be at least 2, as one has nothing to send, not {ranks}")
    step_programs.checked_batch(batch, ranks)
    if bucket_bytes < 1:
        raise ValueError(f"bucket_bytes must be at least 1, not {bucket_bytes}")
    checked_rounds(repeats, at_most_seconds)
    plan = {
        "name": name,
        "batch": batch,
        "bucket_bytes": bucket_bytes,
        "repeats": repeats,
        "at_most_seconds": at_most_seconds,
        "fewest": FEWEST_FOR_INTERVAL,
        "seed": seed,
    }
    told = launch(step_programs.overlap_times, ranks, plan, threads=1, pinned=True)[0]
    note = f"The zoo's {name.upper()}, batch of {batch}, gradients sent off at {bucket_bytes:,} bytes."
    found = step_measurements(told, _NAMES, seed, note, ranks)
    return Overlap(ranks, name, batch, bucket_bytes, found["overlapped"], found["apart"], found["alone"])


@dataclass(frozen=True)
class RankMemory:
    """Bytes that one rank keeps from one step to the next, counted on its arrays, padding included.

    Attributes:
        parameters, gradients, optimizer_state: bytes of the arrays that own the memory.
        step_peak: bytes by which a step goes beyond them at most, with its activations.
    """

    parameters: int
    gradients: int
    optimizer_state: int
    step_peak: int

    @property
    def kept(self) -> int:
        """Bytes between steps."""
        return self.parameters + self.gradients + self.optimizer_state


@dataclass(frozen=True)
class ShardedMemory:
    """Bytes that each rank keeps after a step with AdamW, with the optimizer's state whole and shared out."""

    name: str
    batch: int
    replicated: tuple[RankMemory, ...]
    sharded: tuple[RankMemory, ...]

    @property
    def ranks(self) -> int:
        """How many there were."""
        return len(self.replicated)


def sharded_memory(name: str, batch: int, ranks: int) -> ShardedMemory:
    """Return the memory that each of ``ranks`` keeps of a model of the zoo, trained both ways.

    Bytes do not depend on the cores, so more ranks than cores count as well as any.

    Args:
        name: of the model. batch: examples of all ranks together.

    Raises:
        ValueError: if there are fewer than two ranks, or fewer examples than ranks.
        MPIMissingError: if there is no MPI.
        RankError: if a rank fails.
    """
    models.entry(name)
    if ranks < 2:
        raise ValueError(f"ranks must be at least 2, as one has nobody to share with, not {ranks}")
    step_programs.checked_batch(batch, ranks)
    found = launch(step_programs.kept_memory, ranks, {"name": name, "batch": batch}, threads=1)
    replicated, sharded = (tuple(RankMemory(**one[way]) for one in found) for way in ("replicated", "sharded"))
    return ShardedMemory(name, batch, replicated, sharded)
