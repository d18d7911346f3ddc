"""Training on ranks from the first step to the last, continued from the last checkpoint on any number of ranks.

A checkpoint is a folder ``step-00000012`` with ``state.npz`` (parameters, buffers and optimizer state by name, each
whole) and ``progress.json``. It is written aside and renamed, so that a run that dies while it writes leaves the one
before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tinytorch.core.layers import Dropout
from tinytorch.core.op import Array
from tinytorch.perf.distributed.ranks.communicator import Communicator, check_agreement
from tinytorch.perf.distributed.training.batches import ShardedBatches
from tinytorch.perf.distributed.training.data_parallel import DataParallel
from tinytorch.perf.distributed.training.updates import check_settings, restore_settings, settings
from tinytorch.perf.measuring.atomic_io import read_arrays, write_arrays, write_whole

#: Of the form of the two files.
VERSION = 3
#: Checkpoints that are kept: the last one, and the one before it in case that disk fails.
KEPT = 2


def save_checkpoint(
    folder: str | Path, trainer: DataParallel, communicator: Communicator, progress: dict[str, Any]
) -> None:
    """Write the trainer's state and ``progress``, JSON values with the steps done as ``steps``; all ranks call it.

    Raises:
        OSError: on rank 0, which writes, if the folder cannot be written to; the checkpoints before stay.
    """
    state = trainer.gather_state()
    document = {"version": VERSION, "progress": progress, "optimizer": settings(trainer.optimizer)}
    if communicator.rank == 0:
        target = Path(folder) / f"step-{progress['steps']:08d}"
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            aside.mkdir(parents=True)
            write_arrays(aside / "state.npz", state)
            write_whole(aside / "progress.json", json.dumps(document))
            shutil.rmtree(target, ignore_errors=True)
            aside.rename(target)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        for old in _written(folder)[:-KEPT]:
            shutil.rmtree(old)
    communicator.barrier()


def load_checkpoint(
    folder: str | Path, trainer: DataParallel, communicator: Communicator, plan: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Take over the last checkpoint in ``folder`` and return its progress, or None if there is none; all ranks call it.

    The progress must have this ``plan``.

    Raises:
        ValueError: on all ranks, if the checkpoint is damaged, of another version, model, optimizer or setting; nothing
            is changed then.
    """
    written = _written(folder)
    latest = written[-1].name if written else None
    seen = communicator.exchange(latest)
    if len(set(seen)) != 1:
        raise ValueError(f"folder {str(folder)!r} must be the same on all ranks, but they see {seen}")
    if not written:
        return None
    problem, read = "", None
    try:
        read = _checked(written[-1], trainer, plan)
    except ValueError as error:
        problem = str(error)
    for rank, told in enumerate(communicator.exchange(problem)):
        if told:
            raise ValueError(f"checkpoint {latest} cannot be continued: {told} ({communicator.places[rank]})")
    assert read is not None
    document, state = read
    restore_settings(trainer.optimizer, document["optimizer"])
    trainer.restore_state(state)
    progress: dict[str, Any] = document["progress"]
    return progress


def _written(folder: str | Path) -> list[Path]:
    return sorted(Path(folder).glob("step-[0-9]*"))


def _checked(path: Path, trainer: DataParallel, plan: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what the checkpoint holds, once it is known to fit."""
    try:
        document: dict[str, Any] = json.loads((path / "progress.json").read_text("utf-8"))
        version, before = document["version"], document["progress"]["plan"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"progress.json is not what was written: {error}") from None
    if version != VERSION:
        raise ValueError(f"version must be {VERSION}, not {version!r}")
    for name, value in plan.items():
        if before[name] != value:
            raise ValueError(f"{name} must be {before[name]!r} as it was, not {value!r}")
    check_settings(trainer.optimizer, document["optimizer"])
    state = read_arrays(path / "state.npz")
    trainer.check_state(state)
    return document, state


@dataclass(frozen=True)
class Checkpoints:
    """Folder of checkpoints, which all ranks see, and after how many steps one is written.

    Examples:
        >>> from tinytorch.perf.distributed import Checkpoints
        >>> Checkpoints("checkpoints", every=100).every
        100
    """

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
    checkpoints: Checkpoints | None = None,
    after_step: Callable[[int, float], None] | None = None,
) -> list[float]:
    """Train until ``epochs`` are done, and return the losses of all steps; the model is left in eval mode.

    Args:
        checkpoints: where to continue from, if one was written there, and where to write; on any number of ranks.
        after_step: told the number of steps done and the loss of the last.

    Raises:
        ValueError: if a number is out of range, the ranks do not agree on the batches, the checkpoint is of another
            training, or the model draws random numbers, whose generators no checkpoint holds.
        FloatingPointError: if the loss is not finite; the last checkpoint stays.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.core.losses import MSELoss
        >>> from tinytorch.core.optimizers import SGD
        >>> from tinytorch.perf.distributed import DataParallel, ShardedBatches, train, world
        >>> group, x = world(), np.ones((8, 2), np.float32)
        >>> trainer = DataParallel(Linear(2, 1, seed=0), lambda p: SGD(p, lr=0.01), MSELoss(), group)
        >>> batches = ShardedBatches(x, x[:, :1], batch_size=4, rank=group.rank, size=group.size)
        >>> losses = train(trainer, batches, epochs=3, communicator=group)
        >>> len(losses), losses[-1] < losses[0]
        (6, True)
    """
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, not {epochs}")
    if (batches.rank, batches.size) != (communicator.rank, communicator.size):
        raise ValueError(
            f"batches must belong to rank {communicator.rank} of {communicator.size}, "
            f"not to rank {batches.rank} of {batches.size}"
        )
    plan = {"examples": batches.examples, "batch_size": batches.batch_size, "seed": batches.seed, "epochs": epochs}
    check_agreement(communicator, plan)
    losses: list[float] = []
    if checkpoints is not None:
        if any(isinstance(each, Dropout) and each.p > 0 for _, each in trainer.model.named_modules()):
            raise ValueError("a model with Dropout draws random numbers, so it cannot be continued: set p to 0")
        progress = load_checkpoint(checkpoints.folder, trainer, communicator, plan)
        losses = [] if progress is None else list(progress["losses"])
    trainer.model.train()
    total = epochs * len(batches)
    while len(losses) < total:
        epoch, first = divmod(len(losses), len(batches))
        for inputs, targets in batches.epoch(epoch, first):
            losses.append(trainer.step((inputs, targets)))
            if checkpoints is not None and (len(losses) % checkpoints.every == 0 or len(losses) == total):
                progress = {"steps": len(losses), "losses": losses, "plan": plan}
                save_checkpoint(checkpoints.folder, trainer, communicator, progress)
            if after_step is not None:
                after_step(len(losses), losses[-1])
    trainer.model.eval()
    return losses
