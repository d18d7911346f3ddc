"""Scaling: a training step on 1, 2, ... ranks, with the same work for all together (strong) or for each (weak)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tinytorch import models
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.oversubscription import BECAUSE, MARK
from tinytorch.perf.distributed.ranks.rounds import checked_rounds
from tinytorch.perf.distributed.scaling import scaling_programs
from tinytorch.perf.distributed.scaling.law_fit import LawFit, fit_law
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import may_pin, usable_cores
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

Way = Literal["strong", "weak"]
#: What an efficiency and its interval say.
Word = Literal["linear", "superlinear", "sublinear", "slower than one rank", "cannot tell"]
#: Relative distance from an efficiency of 1 that still counts as linear.
LINEAR = 0.05
#: Ranks wait without giving their cores away, so one that had less of its core than this shared it with other programs.
WHOLE_CORE = 0.9


@dataclass(frozen=True)
class ScalingVerdict:
    """How a step scales, in a word that code chose; None, with the reason, where no verdict can be given."""

    word: Word | None
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
        return bool(self.times[self._checked(count)].how[MARK])

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
        return comparison.ratio.scaled(factor, name=f"speedup of {count} ranks")

    def efficiency(self, count: int) -> Statistic | None:
        """Return the speedup over the number of ranks, a share; None if ranks had to share cores."""
        speedup = self.speedup(count)
        return None if speedup is None else speedup.scaled(1 / count, "%", f"efficiency of {count} ranks")

    def verdict(self, count: int) -> ScalingVerdict:
        """Return whether ``count`` ranks do ``count`` times the work of one, as far as the interval can tell.

        "linear" if the efficiency's interval lies within `LINEAR` of 1, "superlinear" or "sublinear" if all of it lies
        beyond, "slower than one rank" if the speedup's lies below 1. None if ranks had to share cores with one another;
        "cannot tell" where other programs took them.
        """
        comparison, efficiency = self._compared(count), self.efficiency(count)
        if comparison is None or efficiency is None:
            return ScalingVerdict(None, BECAUSE)
        if comparison.n < FEWEST_FOR_INTERVAL or comparison.dependence.objection:
            return ScalingVerdict("cannot tell", comparison.because)
        had = min(float(self.times[one].how["cpu_per_wall"]) for one in (1, count))
        if had < WHOLE_CORE:
            return ScalingVerdict("cannot tell", f"other programs ran beside the ranks: one had {had:.0%} of its core")
        return _verdict(efficiency, count)

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
        return compare_paired(self.times[1], self.times[count], delta=None)


def _verdict(efficiency: Statistic, count: int) -> ScalingVerdict:
    low, high = efficiency.interval.low, efficiency.interval.high
    found = f"the efficiency lies between {low:.1%} and {high:.1%}"
    if high * count < 1:
        return ScalingVerdict("slower than one rank", f"{found}, so that the speedup lies below 1")
    if low > 1 + LINEAR:
        return ScalingVerdict("superlinear", f"{found}, all of it beyond the ±{LINEAR:.0%} that count as linear")
    if high < 1 / (1 + LINEAR):
        return ScalingVerdict("sublinear", f"{found}, all of it beyond the ±{LINEAR:.0%} that count as linear")
    if low >= 1 / (1 + LINEAR) and high <= 1 + LINEAR:
        return ScalingVerdict("linear", f"{found}, all of it within the ±{LINEAR:.0%} that count as linear")
    return ScalingVerdict("cannot tell", f"{found}, which holds an end of the ±{LINEAR:.0%} that count as linear")


def strong_scaling(
    name: str,
    batch: int,
    counts: Sequence[int] | None = None,
    *,
    repeats: int = 20,
    at_most_seconds: float = 4.0,
    seed: int = 0,
) -> Scaling:
    """Return the times of a step of ``batch`` examples, shared out to 1, 2, ... ranks of this machine.

    All take turns in one launch, each rank kept on a core of its own if it may; ranks outside of a turn sleep: see
    `turns`.

    Args:
        name: of the zoo's model that is trained.
        batch: examples of a step, at least one for each rank.
        counts: numbers of ranks, 1 among them; by default powers of two up to the cores, and all cores.
        repeats: rounds; fewer, but six at least, when ``at_most_seconds`` are over.
        seed: of the order of turns.

    Raises:
        ValueError: if an argument is out of its range.
        MPIMissingError: if there is no MPI.
        RankError: if a rank fails.
    """
    return _scaling("strong", name, batch, counts, repeats, at_most_seconds, seed)


def weak_scaling(
    name: str,
    batch: int,
    counts: Sequence[int] | None = None,
    *,
    repeats: int = 20,
    at_most_seconds: float = 4.0,
    seed: int = 0,
) -> Scaling:
    """Return the times of a step of ``batch`` examples on each of 1, 2, ... ranks; all else as `strong_scaling`."""
    return _scaling("weak", name, batch, counts, repeats, at_most_seconds, seed)


def default_counts(cores: int) -> tuple[int, ...]:
    """Return powers of two up to ``cores``, and ``cores``."""
    powers = {2**power for power in range(cores.bit_length())}
    return tuple(sorted(powers | {cores}))


def _scaling(
    way: Way, name: str, batch: int, counts: Sequence[int] | None, repeats: int, at_most_seconds: float, seed: int
) -> Scaling:
    models.entry(name)
    chosen = sorted(set(default_counts(len(usable_cores())) if counts is None else counts))
    if not chosen or chosen[0] != 1:
        raise ValueError(f"counts must be numbers of ranks with 1 among them, to compare with, not {chosen}")
    scaling_programs.checked_batch(batch, 1 if way == "weak" else chosen[-1])
    checked_rounds(repeats, at_most_seconds)
    plan = {
        "name": name,
        "batch": batch,
        "counts": chosen,
        "weak": way == "weak",
        "repeats": repeats,
        "at_most_seconds": at_most_seconds,
        "fewest": FEWEST_FOR_INTERVAL,
        "seed": seed,
    }
    told = launch(scaling_programs.scaling_times, chosen[-1], plan, threads=1, pinned=True)[0]
    names = {str(count): f"a step on {count} {'ranks' if count > 1 else 'rank'}" for count in chosen}
    how = {"scaling": way, "model": name, "batch": batch, "idle_ranks_cpu_share": told["idle_cpu_share"], "seed": seed}
    times = step_measurements(told["counts"], names, how)
    return Scaling(way, name, batch, {int(count): seconds for count, seconds in times.items()})


def step_measurements(
    told: Mapping[str, Mapping[str, Any]], names: Mapping[str, str], how: Mapping[str, Any]
) -> dict[str, Measurement]:
    """Return what `scaling_programs` told of steps that took turns, by key, as measurements with these names."""
    found = {}
    for key, one in told.items():
        conditions = {
            **how,
            "time_is": "the slowest rank's",
            "inner_loops": one["loops"],
            "garbage_collector": "off",
            "blas_threads": limited_blas_threads(1),
            "pinned": may_pin(),
            "cpu_per_wall": float(f"{one['cpu_per_wall']:.3g}"),
            "minor_page_faults_per_call": float(f"{one['faults']:.3g}"),
            MARK: one["oversubscribed"],
            "interleaved_with": [other for at, other in names.items() if at != key],
        }
        found[key] = Measurement(names[key], tuple(np.asarray(one["seconds"]).tolist()), "s", conditions)
    return found
