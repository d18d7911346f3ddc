"""``mpiexec -n 2 python -m`` this, and a way in which rank 1 may fail: training that nobody watches."""

import resource
import sys
from typing import Any

import numpy as np

from tinytorch.core.layers import Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import SGD
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.distributed import Communicator, DataParallel, world
from tinytorch.perf.distributed.training.data_parallel import counted_targets

#: Targets of four examples, of which the first two do not count.
IGNORED = -100
TARGETS = np.array([IGNORED, IGNORED, 1, 2])
INPUTS = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


def model() -> Module:
    return Sequential(Linear(8, 6, seed=0), Linear(6, 3, seed=1))


def step_of_one_process() -> tuple[float, float]:
    """Return the losses before a step on all examples, and after it."""
    trained, loss = model(), CrossEntropyLoss(IGNORED)
    optimizer = SGD(trained.parameters(), lr=0.1)
    first, second = (train_step(trained, Tensor(INPUTS), TARGETS, loss, optimizer) for _ in range(2))
    return first, second


def broken_loss(logits: Any, targets: Any) -> Any:
    raise OSError("rank one is broken")


def data_parallel(group: Communicator, loss: Any) -> Any:
    mine = slice(2 * group.rank, 2 * group.rank + 2)
    terms = counted_targets(IGNORED)
    trainer = DataParallel(model(), lambda parameters: SGD(parameters, lr=0.1), loss, group, terms=terms)
    return lambda: trainer.step((Tensor(INPUTS[mine]), TARGETS[mine]))


def main(way: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # a rank that nobody ends waits without giving its core away
    group = world()
    fails, loss = group.rank == 1, CrossEntropyLoss(IGNORED)
    step = data_parallel(group, broken_loss if way == "in the loss" and fails else loss)
    if way == "between steps" and fails:
        raise OSError("rank one is broken")
    try:
        print(f"losses {step()} {step()}", flush=True)
    except OSError as error:  # as a program may that goes on with its next batch
        print(f"caught {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
