"""Training on ranks, as new processes import it by name, beside the same training in one process."""

import contextlib
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tinytorch.core.activations import ReLU
from tinytorch.core.layers import Dropout, Flatten, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.op import Array
from tinytorch.core.optimizers import SGD, AdamW, Optimizer
from tinytorch.core.spatial import Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.core.transformers import GPT
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.distributed.training.batches import ShardedBatches
from tinytorch.perf.distributed.training.data_parallel import DataParallel, counted_targets
from tinytorch.perf.distributed.training.run import Checkpoints, load_checkpoint, train

#: Marks targets that do not count.
IGNORED = -1
BATCH = 12


class Problem(NamedTuple):
    """A model and what it is trained on: 40 examples, so that the last batch is smaller."""

    model: Module
    inputs: Array
    targets: Array


def mlp() -> Problem:
    draw = np.random.default_rng(1)
    model = Sequential(Linear(6, 16, seed=2), ReLU(), Linear(16, 5, seed=3))
    return Problem(model, draw.normal(size=(40, 6)).astype(np.float32), draw.integers(5, size=40))


def cnn() -> Problem:
    draw = np.random.default_rng(2)
    model = Sequential(Conv2d(2, 4, 3, padding=1, seed=1), ReLU(), MaxPool2d(2), Flatten(), Linear(16, 3, seed=2))
    return Problem(model, draw.normal(size=(40, 2, 4, 4)).astype(np.float32), draw.integers(3, size=40))


def gpt() -> Problem:
    """Sequences of which each example counts another number of targets."""
    draw = np.random.default_rng(3)
    tokens = draw.integers(11, size=(40, 7))
    targets = np.roll(tokens, -1, axis=1)
    targets[np.arange(7) < draw.integers(6, size=(40, 1))] = IGNORED
    return Problem(GPT(11, 16, 2, 2, 8, seed=1), tokens, targets)


PROBLEMS: dict[str, Callable[[], Problem]] = {"mlp": mlp, "cnn": cnn, "gpt": gpt}


def problem_of(name: str) -> Problem:
    """Return the problem in float64, so that rounding can be told from a wrong formula."""
    problem = PROBLEMS[name]()
    for _, tensor in [*problem.model.named_parameters(), *problem.model.named_buffers()]:
        tensor.data = tensor.data.astype(np.float64)
    inputs = problem.inputs
    return problem._replace(inputs=inputs.astype(np.float64) if inputs.dtype.kind == "f" else inputs)


def adamw(parameters: Sequence[Parameter]) -> Optimizer:
    return AdamW(parameters, lr=1e-2)


def momentum(parameters: Sequence[Parameter]) -> Optimizer:
    return SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


OPTIMIZERS = {"adamw": adamw, "momentum": momentum}


def loss(prediction: Tensor, targets: Any) -> Tensor:
    value: Tensor = CrossEntropyLoss(ignore_index=IGNORED)(prediction, targets)
    return value


def batches_of(problem: Problem, rank: int = 0, size: int = 1, batch_size: int = BATCH) -> ShardedBatches:
    return ShardedBatches(problem.inputs, problem.targets, batch_size=batch_size, rank=rank, size=size, seed=5)


def trained_alone(name: str, optimizer: str, epochs: int = 1, batch_size: int = BATCH) -> dict[str, Array]:
    """Return losses and weights of one process on the whole batches."""
    problem = problem_of(name)
    batches = batches_of(problem, batch_size=batch_size)
    rule = OPTIMIZERS[optimizer](problem.model.parameters())
    steps = [batch for epoch in range(epochs) for batch in batches.epoch(epoch)]
    losses = [train_step(problem.model, inputs, targets, loss, rule) for inputs, targets in steps]
    return {"losses": np.array(losses), **problem.model.state_dict()}


def train_in_all_ways(communicator: Communicator) -> dict[str, Any]:
    """Return losses and weights of every problem and way of training, by ``problem way/name``."""
    found: dict[str, Any] = {}
    for name in PROBLEMS:
        for way, optimizer, options in WAYS:
            problem = problem_of(name)
            if communicator.rank:  # whatever others begin with, they get rank 0's
                for parameter in problem.model.parameters():
                    parameter.data += 1
            trainer = DataParallel(
                problem.model, OPTIMIZERS[optimizer], loss, communicator, terms=counted_targets(IGNORED), **options
            )
            batches = batches_of(problem, communicator.rank, communicator.size)
            losses = [trainer.step(batch) for batch in batches.epoch(0)]
            found |= {f"{name} {way}/{key}": array for key, array in problem.model.state_dict().items()}
            found[f"{name} {way}/losses"] = np.array(losses)
            found[f"{name} {way}/state_bytes"] = trainer.optimizer.state_nbytes()
    return found


#: Ways of training: what they are called, the optimizer, and the options of `DataParallel`.
WAYS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("many buckets", "adamw", {"bucket_bytes": 256}),
    ("one bucket, afterwards", "momentum", {"overlap": False}),
    ("sharded", "adamw", {"sharded": True, "bucket_bytes": 256}),
    ("sharded, one bucket", "momentum", {"sharded": True}),
)


class InterruptedTrainingError(Exception):
    """Ends a training between two steps."""


def train_from_checkpoint(
    communicator: Communicator, name: str, folder: str, until: int, dies: bool, sharded: bool
) -> dict[str, Any]:
    """Train two epochs, three steps a checkpoint; end after step ``until``: all ranks, or rank 1 by a signal."""

    def stop(steps: int, _: float) -> None:
        if steps == until and not dies:
            raise InterruptedTrainingError
        if steps == until and communicator.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    problem = problem_of(name)
    batches = batches_of(problem, communicator.rank, communicator.size)
    trainer = DataParallel(
        problem.model, adamw, loss, communicator, terms=counted_targets(IGNORED), sharded=sharded, bucket_bytes=512
    )
    losses: list[float] = []
    with contextlib.suppress(InterruptedTrainingError):
        losses = train(trainer, batches, 2, communicator, checkpoints=Checkpoints(folder, every=3), after_step=stop)
    return {**problem.model.state_dict(), "losses": np.array(losses), "bytes": trainer.optimizer.state_nbytes()}


def small(
    communicator: Communicator, make: Callable[[Sequence[Parameter]], Optimizer] = adamw, p: float = 0.0
) -> DataParallel:
    """Return a trainer of a model that drops out with probability ``p``."""
    model = Sequential(Linear(6, 16, seed=2), Dropout(p, seed=3), ReLU(), Linear(16, 5, seed=3))
    return DataParallel(model, make, loss, communicator)


def restart(communicator: Communicator, folder: str) -> dict[str, Any]:
    """Return losses of a run and of one that is interrupted and continued, and what wrong restarts are told.

    Also ``drawn``, numbers of a Dropout's generator, of which each rank has its own part.
    """
    problem = mlp()
    batches = batches_of(problem, communicator.rank, communicator.size)

    def stop(steps: int, _: float) -> None:
        if steps == 3:
            raise InterruptedTrainingError

    found: dict[str, Any] = {"whole": np.array(train(small(communicator), batches, 2, communicator))}
    checkpoints = Checkpoints(folder, every=2)
    with contextlib.suppress(InterruptedTrainingError):
        train(small(communicator), batches, 2, communicator, checkpoints=checkpoints, after_step=stop)
    found["continued"] = np.array(train(small(communicator), batches, 2, communicator, checkpoints=checkpoints))
    (dropout,) = [layer for _, layer in small(communicator, p=0.5).model.named_modules() if isinstance(layer, Dropout)]
    found["drawn"] = dropout.generator.random(3)
    return found | wrong_restarts(communicator, folder, small(communicator), batches)


def wrong_restarts(
    communicator: Communicator, folder: str, trainer: DataParallel, batches: ShardedBatches
) -> dict[str, Any]:
    """Return what each wrong restart is told, and whether all left the trainer as it was."""
    checkpoints = Checkpoints(folder, every=2)
    before = trainer.model.state_dict()
    wrong: dict[str, Callable[[], Any]] = {
        "draws": lambda: train(small(communicator, p=0.5), batches, 2, communicator, checkpoints=checkpoints),
        "rule": lambda: load_checkpoint(folder, small(communicator, momentum), communicator, {}),
        "plan": lambda: train(trainer, batches, 3, communicator, checkpoints=checkpoints),
        "damaged": lambda: load_damaged(folder, trainer, communicator),
    }
    found: dict[str, Any] = {}
    for name, call in wrong.items():
        try:
            call()
        except ValueError as error:
            found[name] = str(error)
    after = trainer.model.state_dict()
    return {**found, "unchanged": all(bool((after[name] == before[name]).all()) for name in before)}


def load_damaged(folder: str, trainer: DataParallel, communicator: Communicator) -> None:
    communicator.barrier()
    if communicator.rank == 0:
        (Path(folder) / "step-00000008" / "state.npz").write_bytes(b"PK")
    communicator.barrier()
    load_checkpoint(folder, trainer, communicator, {})


#: Whether rank 0 and rank 1 use the branch in each step.
USED = ((True, True), (True, False), (False, True), (False, False))


class Branch(Module):
    """A layer that all inputs pass, and one that some do."""

    def __init__(self) -> None:
        self.always, self.sometimes = Linear(3, 3, seed=1), Linear(3, 3, seed=2)
        self.use = True

    def forward(self, x: Tensor) -> Tensor:
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
