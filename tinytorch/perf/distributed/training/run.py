"""A whole training on ranks: epochs over sharded batches, continued from the last checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinytorch.perf.distributed.ranks.agreement import check_agreement
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.training.checkpoint import load_checkpoint, save_checkpoint
from tinytorch.perf.distributed.training.data_parallel import DataParallel
from tinytorch.perf.distributed.training.sampler import ShardedBatches, micro_batches


@dataclass(frozen=True)
class Checkpoints:
    """Where checkpoints go, a folder that all ranks see, and after how many steps one is written."""

    folder: str | Path
    every: int

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"every must be at least 1 step, not {self.every}")


def train(
    trainer: DataParallel,
    batches: ShardedBatches,
    epochs: int,
    communicator: Communicator,
    *,
    parts: int = 1,
    schedule: Callable[[float], float] | None = None,
    checkpoints: Checkpoints | None = None,
    after_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train until ``epochs`` are done and return the loss of every step since the very first; leaves eval mode on.

    Args:
        parts: pieces that each rank cuts its part of a batch into, to add their gradients up.
        schedule: factor of the learning rate at each fraction (0 to 1) of the training done.
        checkpoints: where to continue from, if one was written there, and where to write; on any number of ranks.
        after_step: told the number of steps done and the loss of the last.

    Raises:
        ValueError: if a number is out of range, the ranks do not agree on the batches, or the checkpoint is of another
            training.
        FloatingPointError: if the loss is not finite; the last checkpoint stays.
    """
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, not {epochs}")
    if (batches.rank, batches.size) != (communicator.rank, communicator.size):
        raise ValueError(
            f"batches must be those of rank {communicator.rank} of {communicator.size}, "
            f"not of {batches.rank} of {batches.size}"
        )
    if not 1 <= parts <= batches.smallest // batches.size:
        raise ValueError(
            f"parts must be 1 to {batches.smallest // batches.size}, the examples of a rank in the smallest batch, "
            f"not {parts}"
        )
    plan = {"examples": batches.examples, "batch_size": batches.batch_size, "seed": batches.seed, "epochs": epochs}
    check_agreement(communicator, {**plan, "parts": parts})
    losses: list[float] = []
    rate = trainer.optimizer.lr
    if checkpoints is not None:
        losses, rate = _continued(checkpoints, trainer, communicator, plan, rate)
    trainer.model.train()
    total = epochs * len(batches)
    while len(losses) < total:
        epoch, first = divmod(len(losses), len(batches))
        for batch in batches.epoch(epoch, first):
            trainer.optimizer.lr = rate * schedule(len(losses) / total) if schedule else rate
            losses.append(trainer.step(*micro_batches(batch, parts)))
            if checkpoints is not None and (len(losses) % checkpoints.every == 0 or len(losses) == total):
                progress = {"steps": len(losses), "losses": losses, "plan": plan, "rate": rate}
                save_checkpoint(checkpoints.folder, trainer, communicator, progress)
            if after_step is not None:
                after_step(len(losses), losses[-1])
    trainer.optimizer.lr = rate
    trainer.model.eval()
    return losses


def _continued(
    checkpoints: Checkpoints, trainer: DataParallel, communicator: Communicator, plan: dict[str, Any], rate: float
) -> tuple[list[float], float]:
    """Return losses and learning rate of the last checkpoint, or none and ``rate``."""
    progress = load_checkpoint(checkpoints.folder, trainer, communicator, plan)
    if progress is None:
        return [], rate
    return list(progress["losses"]), float(progress["rate"])
