"""The training loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Sized
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import Progress

from tinytorch.core.contexts import contextmanager
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import region
from tinytorch.core.layers import checked_positive
from tinytorch.core.module import Module
from tinytorch.core.optimizers import Optimizer
from tinytorch.core.tensor import Tensor

#: One step of a training, with the arguments and the result of `train_step`.
Step = Callable[[Module, Any, Any, Callable[[Tensor, Any], Tensor], Optimizer], float]


@dataclass(frozen=True)
class History:
    """Record of `fit`: the mean loss of each epoch, in which each example counts alike."""

    losses: list[float] = field(default_factory=list)


def train_step(
    model: Module, inputs: Any, targets: Any, loss: Callable[[Tensor, Any], Tensor], optimizer: Optimizer
) -> float:
    """Run one forward, backward and optimizer step; return the loss before it.

    Raises:
        FloatingPointError: if the loss is not finite; no parameter is changed then.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.core.losses import MSELoss
        >>> from tinytorch.core.optimizers import SGD
        >>> from tinytorch.core.training import train_step
        >>> model, x, y = Linear(2, 1, seed=0), Tensor([[1, 2]]), Tensor([[3]])
        >>> optimizer = SGD(model.parameters(), lr=0.01)
        >>> first = train_step(model, x, y, MSELoss(), optimizer)
        >>> train_step(model, x, y, MSELoss(), optimizer) < first
        True
    """
    value = loss(model(inputs), targets)
    with region("loss read-out"):
        found = float(value.item())
    if not math.isfinite(found):
        raise FloatingPointError(f"the loss became {found}: use a smaller lr than {optimizer.lr}")
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return found


_make_step: ContextVar[Callable[[], Step]] = ContextVar("make_step", default=lambda: train_step)


@contextmanager
def training_steps(make_step: Callable[[], Step]) -> Iterator[None]:
    """Have each `fit` in the body train with the step that ``make_step()`` returns, instead of `train_step`.

    A step may be faster; it must compute what `train_step` computes. Each `fit` makes its own, so a step may remember
    the model that it is called with.
    """
    token = _make_step.set(make_step)
    try:
        yield
    finally:
        _make_step.reset(token)


def fit(
    model: Module,
    batches: DataLoader | Sequence[tuple[Any, Any]],
    loss: Callable[[Tensor, Any], Tensor],
    optimizer: Optimizer,
    epochs: int,
    *,
    schedule: Callable[[float], float] | None = None,
    name: str = "training",
) -> History:
    """Train ``model`` on (inputs, targets) batches and return the losses; the model is left in eval mode.

    The optimizer's learning rate is afterwards what it was before, also after an error.

    Args:
        batches: a `DataLoader`, or a list of pairs; it is gone through once an epoch.
        schedule: factor of the learning rate at each fraction (0 to 1) of the training done.
        name: what the progress bar says; it is shown on a terminal only.

    Raises:
        TypeError: if ``batches`` can be gone through only once, as a generator can.
        ValueError: if ``epochs`` is not a whole number above 0, or there are no batches.
        FloatingPointError: if the loss is not finite, which names the epoch.

    Examples:
        >>> from tinytorch.core.dataloader import DataLoader
        >>> from tinytorch.core.losses import CrossEntropyLoss
        >>> from tinytorch.core.optimizers import AdamW
        >>> from tinytorch.core.training import fit
        >>> from tinytorch.datasets import digits
        >>> from tinytorch.models import mlp
        >>> data, model = digits(), mlp()
        >>> batches = DataLoader(data.train_inputs, data.train_targets, batch_size=256)
        >>> history = fit(model, batches, CrossEntropyLoss(), AdamW(model.parameters()), epochs=2)
        >>> history.losses[1] < history.losses[0]
        True
    """
    checked_positive(epochs=epochs)
    if not isinstance(batches, Sized):
        raise TypeError(f"batches must be a DataLoader or a list of (inputs, targets), not a {type(batches).__name__}")
    if not len(batches):
        raise ValueError("batches must hold at least one pair of (inputs, targets)")
    rate, done, total = optimizer.lr, 0, epochs * len(batches)
    history, console = History(), Console(stderr=True)
    step = _make_step.get()()
    model.train()
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    try:
        with region("training loop"), bar as progress:
            task = progress.add_task(name, total=total)
            for epoch in range(epochs):
                summed, examples = 0.0, 0
                for inputs, targets in batches:
                    optimizer.lr = rate * schedule(done / total) if schedule else rate
                    try:
                        found = step(model, inputs, targets, loss, optimizer)
                    except FloatingPointError as error:
                        raise FloatingPointError(f"in epoch {epoch + 1}, {error}") from None
                    summed, examples, done = summed + found * len(inputs), examples + len(inputs), done + 1
                    with region("progress bar"):
                        progress.advance(task)
                history.losses.append(summed / examples)
    finally:
        optimizer.lr = rate
        model.eval()
    return history
