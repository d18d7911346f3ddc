"""Study of faults: a training that loses a rank, what is told then, and what a restart ends with."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.ranks.launch import RankError, launch
from tinytorch.perf.distributed.training.batches import ShardedBatches
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.training.run import Checkpoints, train

#: Steps of the training, and after how many a checkpoint is written.
STEPS, EVERY = 24, 10
#: The step after which the last rank dies.
FATAL_STEP = 17
#: Seconds that a rank may keep the others waiting, from which follows how often it writes its state.
LONGEST_WAIT = 30.0
BATCH = 16


@dataclass(frozen=True)
class Trained:
    """Result of a training: the loss of each step, the weights by name, and the ranks that ended it."""

    losses: Array
    weights: dict[str, Array]
    ranks: int

    def difference(self, other: Trained) -> float:
        """Return the largest difference of any weight to the other's, relative to the largest weight."""
        largest = max(float(abs(weight).max()) for weight in self.weights.values())
        apart = max(float(abs(weight - other.weights[name]).max()) for name, weight in self.weights.items())
        return apart / largest


@dataclass(frozen=True)
class Lost:
    """A lost rank: what was told, the steps that its last checkpoint holds, and seconds from its death to the end."""

    message: str
    steps_kept: int
    seconds: float


def sort_digits(communicator: Communicator, folder: str, dies: bool) -> dict[str, Any]:
    """Train the zoo's GPT, in float64 so that rounding can be told from a mistake; return losses and weights.

    Args:
        folder: of checkpoints, from which it continues.
        dies: whether the last rank dies of SIGKILL after step `FATAL_STEP`.
    """
    model = models.gpt(seed=0)
    for _, parameter in model.named_parameters():
        parameter.data = parameter.data.astype(np.float64)
    trainer = DataParallel(
        model,
        lambda parameters: AdamW(parameters, lr=3e-3),
        models.loss_function(),
        communicator,
        terms=counted_targets(datasets.IGNORED),
    )
    inputs, targets = datasets.sorting_examples(STEPS * BATCH, seed=1)
    batches = ShardedBatches(inputs, targets, batch_size=BATCH, rank=communicator.rank, size=communicator.size)

    def stop(steps: int, _: float) -> None:
        if dies and steps == FATAL_STEP and communicator.rank == communicator.size - 1:
            (Path(folder) / "stopped").write_text(str(time.time()), "utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    losses = train(trainer, batches, 1, communicator, checkpoints=Checkpoints(folder, EVERY), after_step=stop)
    return {"losses": np.array(losses), **{f"/{name}": array for name, array in model.state_dict().items()}}


def lose_a_rank(folder: str | Path, ranks: int = 2) -> Lost:
    """Train on ``ranks`` ranks of which the last dies, and return what was told.

    Args:
        folder: for checkpoints; exists and is empty.

    Raises:
        RuntimeError: if the training ends well nevertheless.
    """
    try:
        launch(sort_digits, ranks, {"folder": str(folder), "dies": True}, longest_wait=LONGEST_WAIT, threads=1)
    except RankError as error:
        seconds = time.time() - float((Path(folder) / "stopped").read_text("utf-8"))
        kept = [int(path.name.removeprefix("step-")) for path in Path(folder).glob("step-*")]
        return Lost(str(error), max(kept, default=0), seconds)
    raise RuntimeError(f"rank {ranks - 1} was to end the run, but the run ended well")


def trained_on(folder: str | Path, ranks: int) -> Trained:
    """Train on ``ranks`` ranks to the end, from the checkpoint in ``folder`` if there is one, and return that.

    Raises:
        RankError: if a rank fails.
    """
    found = launch(sort_digits, ranks, {"folder": str(folder), "dies": False}, threads=1)[0]
    losses = np.asarray(found.pop("losses"))
    return Trained(losses, {name.removeprefix("/"): np.asarray(array) for name, array in found.items()}, ranks)
