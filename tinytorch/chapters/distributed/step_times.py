"""Training steps of the zoo on ranks: strong and weak scaling, overlap of communication, and memory by sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.step_programs import Case, check_batch
from tinytorch.perf.distributed.cluster_model.scaling_laws import LawFit, Way, fit_law
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.measuring import BECAUSE, MATTERS, checked_rounds, compare_on_ranks
from tinytorch.perf.distributed.ranks.turns import measured_turns
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import of_all
from tinytorch.perf.measuring.judge import Judgement, Verdict, had_less_than_a_core, word_between
from tinytorch.perf.measuring.measurement import Statistic

#: A step to be timed, with its name and a note.
_Step = tuple[Case, str, str]


def _timed(name: str, steps: Sequence[_Step], repeats: int, at_most_seconds: float) -> list[Measurement]:
    """Return steps that took turns, each with its name and a note, each rank kept on a core of its own if it may."""
    checked_rounds(repeats, at_most_seconds)
    cases, names = [case for case, _, _ in steps], dict.fromkeys(called for _, called, _ in steps)
    plan = {"name": name, "cases": cases, "repeats": repeats, "at_most_seconds": at_most_seconds}
    told = launch(step_programs.step_times, max(case[0] for case in cases), plan, threads=1, pinned=True)[0]
    idle = f"Idle ranks used {told['idle_cpu_share']:.2g} of a core."
    return [
        measured_turns(
            called, ranks, one, order_seed=step_programs.SEED, note=f"The zoo's {name.upper()}, {note}. {idle}",
            interleaved_with=tuple(other for other in names if other != called),
        )
        for ((ranks, _, _), called, note), one in zip(steps, told["steps"], strict=True)
    ]  # fmt: skip


@dataclass(frozen=True)
class Scaled:
    """A step on some ranks beside one on a single rank.

    The speedup is the work done in the time of one rank's: strong, one rank's time over that of all; weak, as many
    times that as there are ranks. Its word is what the efficiency is called; withheld where other programs took cores.
    """

    way: str
    one: Measurement
    step: Measurement
    speedup: Statistic
    efficiency: Statistic
    word: Judgement


@dataclass(frozen=True)
class Scaling:
    """Seconds of a step by the number of ranks, 1 among them, in turns: those of the slowest rank.

    Strong scaling has ``batch`` examples for all ranks together, weak scaling for each.
    """

    way: Way
    batch: int
    times: Mapping[int, Measurement]
    linear: float

    @cached_property
    def on(self) -> dict[int, Scaled]:
        """What each number of ranks above one does, rising."""
        return {count: self._scaled(count) for count in sorted(self.times) if count > 1}

    @property
    def most(self) -> Scaled:
        """What the largest number of ranks does."""
        return self.on[max(self.times)]

    @cached_property
    def law(self) -> LawFit:
        """The serial share that Amdahl's law (strong) or Gustafson's (weak) finds in the times."""
        return fit_law(self.way, self.times)

    def _scaled(self, count: int) -> Scaled:
        one, step, is_weak = self.times[1], self.times[count], self.way == "weak"
        estimate = compare_paired(one, step, MATTERS).estimate
        speedup = estimate.scaled(count if is_weak else 1, name=f"speedup of {count} ranks")
        efficiency = speedup.scaled(1 / count, "%", f"efficiency of {count} ranks")
        low, high = 1 / (1 + self.linear), 1 + self.linear
        word = word_between(
            efficiency,
            {
                "slower than one rank": (None, 1 / count),
                "superlinear": (high, None),
                "sublinear": (None, low),
                "linear": (low, high),
            },
        )
        # Ranks wait without giving their cores away: one that had less of its core shared it with other programs.
        if had_less_than_a_core(of_all((one.conditions, step.conditions))):
            word = Judgement(Verdict.WITHHELD)
        way = f"{self.way}, {self.batch} {'each' if is_weak else 'in all'}, {count} ranks"
        return Scaled(way, one, step, speedup, efficiency, word)


def rows_of(scalings: Sequence[Scaling] | Unmeasured) -> list[Scaled] | Unmeasured:
    """Return what each number of ranks above one does, one way of scaling after the other."""
    if isinstance(scalings, Unmeasured):
        return scalings
    return [row for scaling in scalings for row in scaling.on.values()]


def scaling(
    name: str,
    cases: Sequence[tuple[Way, int]],
    counts: Sequence[int],
    *,
    linear: float,
    repeats: int,
    at_most_seconds: float,
) -> list[Scaling] | Unmeasured:
    """Return the times of training steps of the zoo's ``name`` on some ``counts`` of ranks, 1 first, rising.

    Of the ``cases``, "strong" shares its examples out to the ranks and "weak" gives them to each. There are ``repeats``
    rounds; fewer, but six at least, when ``at_most_seconds`` are over.
    """
    if not 2 <= counts[-1] <= len(usable_cores()):
        return Unmeasured(BECAUSE)
    for way, batch in cases:
        check_batch(batch * counts[-1] if way == "weak" else batch, counts[-1])
    steps: list[_Step] = [
        (
            (count, batch * count if way == "weak" else batch, None if count == 1 else {}),
            f"a step on {count} {'ranks' if count > 1 else 'rank'}",
            f"{way} scaling, batch of {batch}",
        )
        for way, batch in cases
        for count in counts
    ]
    times = iter(_timed(name, steps, repeats, at_most_seconds))
    return [Scaling(way, batch, {count: next(times) for count in counts}, linear) for way, batch in cases]


@dataclass(frozen=True)
class Overlap:
    """Steps on the same ranks with the same batch, in turns: gradients are sent while the backward runs, or after it.

    Alone, each rank trains on its part by itself: all that ranks compute, and none of what joining them costs.
    """

    overlapped: Measurement
    apart: Measurement
    alone: Measurement

    @property
    def gain(self) -> Comparison | Unmeasured:
        """How much faster steps are that overlap: the ratio apart / overlapped, above 1 if overlap pays."""
        return compare_on_ranks(self.apart, self.overlapped)


def overlap(
    name: str, batch: int, ranks: int, *, bucket_bytes: int = 2**18, repeats: int, at_most_seconds: float
) -> Overlap:
    """Return steps of the zoo's ``name`` on ``batch`` examples of all ranks, with and without overlap, in turns.

    A bucket is sent at ``bucket_bytes``: of a single one nothing could travel early. There are ``repeats`` rounds;
    fewer, but six at least, when ``at_most_seconds`` are over.
    """
    check_batch(batch, ranks)
    note = f"batch of {batch}, gradients sent off at {bucket_bytes:,} bytes"
    how = {"bucket_bytes": bucket_bytes}
    ways = ({**how, "overlap": True}, "during the backward"), ({**how, "overlap": False}, "after the backward")
    steps: list[_Step] = [((ranks, batch, each), f"a step that sends {when}", note) for each, when in ways]
    steps.append(((ranks, batch, None), "a step that sends nothing", note))
    return Overlap(*_timed(name, steps, repeats, at_most_seconds))


@dataclass(frozen=True)
class RankMemory:
    """Bytes that the fullest rank keeps from one step to the next, counted on its arrays, padding included."""

    parameters: Counted
    gradients: Counted
    optimizer_state: Counted
    kept: Counted

    @classmethod
    def fullest(cls, ranks: Sequence[Mapping[str, int]]) -> RankMemory:
        """Return what the fullest of some ranks keeps of each kind, and in all."""
        kinds = {kind: max(rank[kind] for rank in ranks) for kind in ranks[0]}
        kinds["kept"] = max(sum(rank.values()) for rank in ranks)
        return cls(**{kind: Counted(size, "B", f"{kind.replace('_', ' ')} of a rank") for kind, size in kinds.items()})


@dataclass(frozen=True)
class ShardedMemory:
    """Bytes that a rank keeps after a step with AdamW, with the optimizer's state whole and shared out."""

    whole: RankMemory
    sharded: RankMemory

    @property
    def ratio(self) -> Counted:
        """Bytes kept with the state shared out over those without."""
        return Counted(self.sharded.kept.value / self.whole.kept.value, "%", "bytes kept, shared out over whole")


def sharded_memory(name: str, batch: int, ranks: int) -> ShardedMemory:
    """Return what ranks keep of the zoo's ``name``, trained both ways; bytes need no core for each rank."""
    check_batch(batch, ranks)
    found = launch(step_programs.kept_memory, ranks, {"name": name, "batch": batch}, threads=1)
    return ShardedMemory(*(RankMemory.fullest([one[way] for one in found]) for way in ("whole", "sharded")))
