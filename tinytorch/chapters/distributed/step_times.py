"""Training steps of the zoo on ranks: overlap of communication, and memory by sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytorch.chapters.distributed import step_programs
from tinytorch.chapters.distributed.step_programs import Case, check_batch
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.measuring import checked_rounds, compare_on_ranks
from tinytorch.perf.distributed.ranks.turns import measured_turns
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison

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
