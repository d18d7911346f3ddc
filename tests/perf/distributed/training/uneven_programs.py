"""A model whose ranks do not all use all parameters, as new processes import it by name."""

from typing import Any

import numpy as np

from tests.perf.distributed.training.training_programs import momentum
from tinytorch.core.layers import Linear
from tinytorch.core.losses import MSELoss
from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.training.data_parallel import DataParallel

#: Whether rank 0 and rank 1 use the branch in each step.
USED = ((True, True), (True, False), (False, True), (False, False))


class Branch(Module):
    """A layer that all inputs pass, and one that some do."""

    def __init__(self) -> None:
        self.always, self.sometimes = Linear(3, 3, seed=1), Linear(3, 3, seed=2)
        self.use = True

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, 3) of (N, 3)."""
        x = self.always(x)
        return self.sometimes(x) if self.use else x


def part(step: int, rank: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a rank: one example more on rank 1."""
    inputs, targets = np.random.default_rng((step, rank)).normal(size=(2, 2 + rank, 3)).astype(np.float32)
    return Tensor(inputs), Tensor(targets)


def train_uneven(communicator: Communicator) -> dict[str, Any]:
    """Return the weights after all steps, and what sharded state is told where nobody uses a parameter."""
    model = Branch()
    trainer = DataParallel(model, momentum, MSELoss(), communicator, bucket_bytes=8)
    for step, used in enumerate(USED):
        model.use = used[communicator.rank]
        trainer.step(part(step, communicator.rank))
    other = Branch()
    other.use = False
    sharded = DataParallel(other, momentum, MSELoss(), communicator, sharded=True)
    told = ""
    try:
        sharded.step(part(0, communicator.rank))
    except ValueError as error:
        told = str(error)
    try:
        inputs, targets = part(0, communicator.rank)
        trainer.step((Tensor(inputs.data * np.float32(np.inf)) if communicator.rank else inputs, targets))
    except FloatingPointError as error:
        told += f"; {error}"
    return {**model.state_dict(), "told": told}


def trained_uneven_alone() -> dict[str, Array]:
    """Return the weights if one process adds up the gradients of both parts, by their shares of the examples."""
    model = Branch()
    rule = momentum(model.parameters())
    for step, used in enumerate(USED):
        rule.zero_grad()
        parts = [part(step, rank) for rank in range(2)]
        examples = sum(len(inputs) for inputs, _ in parts)
        for (inputs, targets), use in zip(parts, used, strict=True):
            model.use = use
            value = MSELoss()(model(inputs), targets)
            (value * (len(inputs) / examples)).backward()
        rule.step()
    return model.state_dict()
