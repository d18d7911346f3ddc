"""What ranks of one machine show exactly: sums and weights to the last bit, and bytes by sharding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace as Row

from tinytorch.chapters.distributed import step_programs
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.measuring import Counted


def _bits(what: str, told: Sequence[float]) -> Row:
    """Return what a rank counted: numbers of which some ``differ`` between two ways, and their largest difference."""
    numbers, differ, largest = told
    return Row(
        what=what,
        numbers=Counted(numbers, "1", "numbers compared"),
        differ=Counted(differ / numbers, "%", "share of the numbers whose bits differ"),
        largest=Counted(largest, "1", "largest difference, relative to the largest number"),
    )


def fullest(ranks: Sequence[Mapping[str, int]]) -> Row:
    """Return the bytes of each kind, and in all, that the fullest of some ranks keeps from one step to the next."""
    kinds = {kind: max(rank[kind] for rank in ranks) for kind in ranks[0]}
    kinds["kept"] = max(sum(rank.values()) for rank in ranks)
    return Row(**{kind: Counted(size, "B", f"{kind.replace('_', ' ')} of a rank") for kind, size in kinds.items()})


@dataclass(frozen=True)
class Trained:
    """Four ranks that train with the optimizer's state whole and shared out: bytes, and bits of sums and weights."""

    whole: Row
    sharded: Row
    bits: Sequence[Row]

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
    whole, sharded = (fullest([one[way] for one in found]) for way in ("whole", "sharded"))
    return Trained(whole, sharded, [_bits(words, found[0]["bits"][key]) for key, words in rows.items()])
