"""What ranks of one machine show exactly: sums and weights to the last bit, and bytes by sharding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinytorch.chapters.distributed import step_programs
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.measuring import Counted


@dataclass(frozen=True)
class Bits:
    """Numbers of which some differ between two ways to make them, and their largest difference."""

    what: str
    numbers: Counted
    differ: Counted
    largest: Counted

    @classmethod
    def of(cls, what: str, told: Sequence[float]) -> Bits:
        """Return what a rank counted."""
        numbers, differ, largest = told
        return cls(
            what,
            Counted(numbers, "1", "numbers compared"),
            Counted(differ / numbers, "%", "share of the numbers whose bits differ"),
            Counted(largest, "1", "largest difference, relative to the largest number"),
        )


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
class Trained:
    """Four ranks that train with the optimizer's state whole and shared out: bytes, and bits of sums and weights."""

    whole: RankMemory
    sharded: RankMemory
    bits: Sequence[Bits]

    @property
    def ratio(self) -> Counted:
        """Bytes kept with the state shared out over those without."""
        return Counted(self.sharded.kept.value / self.whole.kept.value, "%", "bytes kept, shared out over whole")


def trained(name: str, batch: int, ranks: int, rows: Mapping[str, str]) -> Trained:
    """Return what ranks keep of the zoo's ``name``, trained both ways, and which bits differ; no core for each needed.

    ``rows`` names the comparisons of `step_programs.compared_sums` and "sharded", the weights of both trainings.
    """
    step_programs.check_batch(batch, ranks)
    found = launch(step_programs.kept_memory, ranks, {"name": name, "batch": batch}, threads=1)
    whole, sharded = (RankMemory.fullest([one[way] for one in found]) for way in ("whole", "sharded"))
    return Trained(whole, sharded, [Bits.of(words, found[0]["bits"][key]) for key, words in rows.items()])
