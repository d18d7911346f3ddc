"""Study of faults: a training that loses a rank, what is told then, and what a restart ends with."""

import os
import signal
import time
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
from tinytorch.perf.measuring import Counted, Measurement

#: Steps of the training, examples in each, and after how many steps a checkpoint is written.
STEPS, BATCH, EVERY = 24, 16, 10
#: The step after which the last rank dies.
FATAL_STEP = Counted(17, "steps", "steps done when the rank was killed")
#: Seconds that a rank may keep the others waiting.
_LONGEST_WAIT = 30.0


def sort_digits(communicator: Communicator, folder: str, dies: bool) -> dict[str, Any]:
    """Train the zoo's GPT, in float64 so that rounding can be told from a mistake; return the weights.

    It continues from the checkpoints in ``folder``; if it ``dies``, the last rank does of SIGKILL after `FATAL_STEP`.
    """
    model = models.gpt(seed=0)
    for _, parameter in model.named_parameters():
        parameter.data = parameter.data.astype(np.float64)
    terms = counted_targets(datasets.IGNORED)
    trainer = DataParallel(
        model, lambda parameters: AdamW(parameters, lr=3e-3), models.loss_function(), communicator, terms=terms
    )
    inputs, targets = datasets.sorting_examples(STEPS * BATCH, seed=1)
    batches = ShardedBatches(inputs, targets, batch_size=BATCH, rank=communicator.rank, size=communicator.size)

    def stop(steps: int, _: float) -> None:
        if dies and steps == FATAL_STEP.value and communicator.rank == communicator.size - 1:
            (Path(folder) / "stopped").write_text(str(time.time()), "utf-8")
            os.kill(os.getpid(), signal.SIGKILL)

    train(trainer, batches, 1, communicator, checkpoints=Checkpoints(folder, EVERY), after_step=stop)
    return dict(model.state_dict())


def lose_a_rank(folder: str, ranks: int = 2) -> tuple[str, Counted, Measurement]:
    """Train on ranks of which the last dies, with checkpoints in an empty ``folder``.

    Return what was told, the steps in the last checkpoint, and the seconds from the death to the end of the run.
    """
    try:
        launch(sort_digits, ranks, {"folder": folder, "dies": True}, longest_wait=_LONGEST_WAIT, threads=1)
    except RankError as error:
        seconds = time.time() - float((Path(folder) / "stopped").read_text("utf-8"))
        kept = max((int(path.name.removeprefix("step-")) for path in Path(folder).glob("step-*")), default=0)
        took = Measurement("from the death of the rank to the end of the run", (seconds,), "s")
        return str(error), Counted(kept, "steps", "steps in the last checkpoint"), took
    raise RuntimeError(f"rank {ranks - 1} was to end the run, but the run ended well")


def trained_on(folder: str, ranks: int) -> dict[str, Array]:
    """Return the weights of a training on ``ranks`` ranks, from the checkpoint in ``folder`` if there is one."""
    return dict(launch(sort_digits, ranks, {"folder": folder, "dies": False}, threads=1)[0])


def difference(one: dict[str, Array], other: dict[str, Array]) -> Counted:
    """Return the largest difference of any two weights, relative to the largest weight of ``one``."""
    largest = max(float(abs(weight).max()) for weight in one.values())
    apart = max(float(abs(weight - other[name]).max()) for name, weight in one.items())
    return Counted(apart / largest, "1", "largest difference of a weight, relative to the largest weight")
