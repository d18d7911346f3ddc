"""Memory by sharding: the bytes that each rank really keeps of parameters, gradients and optimizer state."""

from __future__ import annotations

from dataclasses import dataclass

from tinytorch import models
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.scaling import scaling_programs


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
    """What each rank keeps after a step with AdamW, when all keep all and when the optimizer's state is shared out."""

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
    scaling_programs.checked_batch(batch, ranks)
    found = launch(scaling_programs.kept_memory, ranks, {"name": name, "batch": batch}, threads=1)
    replicated, sharded = (tuple(RankMemory(**one[way]) for one in found) for way in ("replicated", "sharded"))
    return ShardedMemory(name, batch, replicated, sharded)
