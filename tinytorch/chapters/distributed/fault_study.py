"""Study of faults: a training that loses a rank or waits for one, what is told then, and what a restart ends with."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
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
#: The step after which the last rank stops, and how.
FATAL_STEP = 17
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
    """A lost rank: what was told, the steps that its last checkpoint holds, and seconds from stop to end."""

    message: str
    steps_kept: int
    seconds: float


def sort_digits(communicator: Communicator, folder: str, stops: str) -> dict[str, Any]:
    """Train the zoo's GPT, in float64 so that rounding can be told from a mistake; return losses and weights.

    Args:
        folder: of checkpoints, from which it continues.
        stops: what the last rank does after step `FATAL_STEP`: "dies" of SIGKILL, "hangs" at work of its own, or "".
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
        if steps == FATAL_STEP and stops and communicator.rank == communicator.size - 1:
            (Path(folder) / "stopped").write_text(str(time.time()), "utf-8")
            _stop_here(stops, inputs)

    losses = train(trainer, batches, 1, communicator, checkpoints=Checkpoints(folder, EVERY), after_step=stop)
    return {"losses": np.array(losses), **{f"/{name}": array for name, array in model.state_dict().items()}}


def _stop_here(how: str, inputs: Array) -> None:
    if how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        np.sort(inputs, axis=1)


def lose_a_rank(folder: str | Path, ranks: int = 2, how: str = "dies", longest_wait: float = 30.0) -> Lost:
    """Train on ``ranks`` ranks of which the last dies or hangs, and return what was told.

    Args:
        folder: for checkpoints; exists and is empty.
        how: "dies" or "hangs". longest_wait: see `launch`.

    Raises:
        ValueError: if ``how`` is another word.
        RuntimeError: if the training ends well nevertheless.
    """
    if how not in ("dies", "hangs"):
        raise ValueError(f"how must be 'dies' or 'hangs', not {how!r}")
    arguments = {"folder": str(folder), "stops": how}
    try:
        launch(sort_digits, ranks, arguments, threads=1, longest_wait=longest_wait)
    except RankError as error:
        seconds = time.time() - float((Path(folder) / "stopped").read_text("utf-8"))
        kept = [int(path.name.removeprefix("step-")) for path in Path(folder).glob("step-*")]
        return Lost(str(error), max(kept, default=0), seconds)
    raise RuntimeError(f"rank {ranks - 1} was to end the run, but the run ended well")


def hang_a_rank(longest_wait: float) -> Lost:
    """Return what was told where one of two ranks hangs, which may keep the other waiting so many seconds."""
    with TemporaryDirectory() as folder:
        return lose_a_rank(folder, how="hangs", longest_wait=longest_wait)


def trained_on(folder: str | Path, ranks: int) -> Trained:
    """Train on ``ranks`` ranks to the end, from the checkpoint in ``folder`` if there is one, and return that.

    Raises:
        RankError: if a rank fails.
    """
    found = launch(sort_digits, ranks, {"folder": str(folder), "stops": ""}, threads=1)[0]
    losses = np.asarray(found.pop("losses"))
    return Trained(losses, {name.removeprefix("/"): np.asarray(array) for name, array in found.items()}, ranks)
