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
from tinytorch.perf.distributed import Communicator, DataParallel, Pipeline, world
from tinytorch.perf.distributed.training.data_parallel import counted_targets

#: Targets of four examples, of which the first two do not count.
IGNORED = -100
TARGETS = np.array([IGNORED, IGNORED, 1, 2])
INPUTS = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)


def stages() -> list[Module]:
    return [Linear(8, 6, seed=0), Linear(6, 3, seed=1)]


def step_of_one_process() -> tuple[float, float]:
    """Return the losses before a step on all examples, and after it."""
    model, loss = Sequential(*stages()), CrossEntropyLoss(IGNORED)
    optimizer = SGD(model.parameters(), lr=0.1)
    first, second = (train_step(model, Tensor(INPUTS), TARGETS, loss, optimizer) for _ in range(2))
    return first, second


class Failing(Module):
    """Fails in forward, or in what a rank does before it."""

    def forward(self, x: Any) -> Any:
        raise OSError("rank one is broken")


def broken_loss(logits: Any, targets: Any) -> Any:
    raise OSError("rank one is broken")


def data_parallel(group: Communicator, model: Module, loss: Any) -> Any:
    mine = slice(2 * group.rank, 2 * group.rank + 2)
    terms = counted_targets(IGNORED)
    trainer = DataParallel(model, lambda parameters: SGD(parameters, lr=0.1), loss, group, terms=terms)
    return lambda: trainer.step((Tensor(INPUTS[mine]), TARGETS[mine]))


def pipeline(group: Communicator, stage: Module, loss: Any) -> Any:
    pipe = Pipeline(stage, loss, group, micro=2, terms=counted_targets(IGNORED))
    optimizer = SGD(stage.parameters(), 0.1)
    return lambda: pipe.step(optimizer, INPUTS, TARGETS)


def main(way: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # a rank that nobody ends waits without giving its core away
    group = world()
    fails, loss = group.rank == 1, CrossEntropyLoss(IGNORED)
    if way.startswith("data"):
        step = data_parallel(group, Sequential(*stages()), broken_loss if way == "data, loss" and fails else loss)
    else:
        stage = stages()[group.rank]
        step = pipeline(group, Sequential(stage, Failing()) if way == "pipeline, forward" and fails else stage, loss)
    if way.endswith("between") and fails:
        raise OSError("rank one is broken")
    try:
        print(f"losses {step()} {step()}", flush=True)
    except OSError as error:  # as a program may that goes on with its next batch
        print(f"caught {error}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
