"""The model zoo that the chapters study: MLP, CNN and GPT, their data, and their trained weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from tinytorch import datasets
from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Flatten, Linear, check_scores
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import AdamW
from tinytorch.core.spatial import BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit
from tinytorch.core.transformers import GPT
from tinytorch.core.undisturbed import evaluating, undisturbed
from tinytorch.models import weights

#: Test examples that are computed at once.
_AT_A_TIME = 256


def mlp(seed: int = 0, hidden: tuple[int, int] = (256, 128)) -> Sequential:
    """Return the zoo's MLP, untrained: digits (N, 1, 8, 8) to logits (N, 10) through two ``hidden`` layers.

    Examples:
        >>> from tinytorch.models import example, mlp
        >>> mlp()(example("mlp", 2)).shape
        (2, 10)
    """
    generator = np.random.default_rng(seed)
    return Sequential(
        Flatten(),
        Linear(64, hidden[0], seed=generator),
        ReLU(),
        Linear(hidden[0], hidden[1], seed=generator),
        ReLU(),
        Linear(hidden[1], 10, seed=generator),
    )


def cnn(seed: int = 0) -> Sequential:
    """Return the zoo's CNN, untrained: digits (N, 1, 8, 8) to logits (N, 10) through three convolutions.

    Examples:
        >>> from tinytorch.models import cnn, example
        >>> cnn()(example("cnn", 2)).shape
        (2, 10)
    """
    generator = np.random.default_rng(seed)
    return Sequential(
        Conv2d(1, 32, 3, padding=1, seed=generator),
        BatchNorm2d(32),
        ReLU(),
        Conv2d(32, 64, 3, padding=1, seed=generator),
        BatchNorm2d(64),
        ReLU(),
        MaxPool2d(2),
        Conv2d(64, 64, 3, padding=1, seed=generator),
        BatchNorm2d(64),
        ReLU(),
        MaxPool2d(2),
        Flatten(),
        Linear(256, 10, seed=generator),
    )


def gpt(seed: int = 0) -> GPT:
    """Return the zoo's GPT, untrained: two blocks, 96 wide, 4 heads, for sequences of the sorting task.

    Examples:
        >>> from tinytorch import Profiler
        >>> from tinytorch.models import gpt
        >>> model = gpt()
        >>> len(model.blocks), Profiler().count_parameters(model)
        (2, 226848)
    """
    return GPT(datasets.SEPARATOR + 1, 96, 2, 4, 2 * datasets.SORT_LENGTH, seed=seed)


@dataclass(frozen=True)
class Entry:
    """One model of the zoo: how it is made, what it learns from, and how it is trained."""

    name: str
    make: Callable[[int], Module]
    data: Callable[[], datasets.Split]
    train_data: Callable[[], tuple[npt.NDArray[np.generic], datasets.Integers]]
    score: str
    batch_size: int
    epochs: int
    learning_rate: float

    def example_input(self, batch: int) -> npt.NDArray[Any]:
        """Return ``batch`` inputs of the test part, repeated from its start if it is shorter.

        Raises:
            ValueError: if ``batch`` is below 1.
        """
        if batch < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        inputs = self.data().test_inputs
        return inputs[np.arange(batch) % len(inputs)]

    def example_target(self, batch: int) -> npt.NDArray[np.int64]:
        """Return the targets of `example_input`."""
        targets = self.data().test_targets
        return targets[np.arange(batch) % len(targets)]


def _plain(data: Callable[[], datasets.Split]) -> Callable[[], tuple[npt.NDArray[np.generic], datasets.Integers]]:
    """Return a function that gives the training part of ``data`` as it is."""
    return lambda: (data().train_inputs, data().train_targets)


ZOO: dict[str, Entry] = {
    "mlp": Entry("mlp", mlp, datasets.digits, datasets.shifted_digits, "test accuracy", 64, 40, 2e-3),
    "cnn": Entry("cnn", cnn, datasets.digits, _plain(datasets.digits), "test accuracy", 64, 12, 2e-3),
    "gpt": Entry("gpt", gpt, datasets.sorting, _plain(datasets.sorting), "exact test sequences", 64, 1, 3e-3),
}


def entry(name: str) -> Entry:
    """Return the zoo's entry of that name.

    Raises:
        ValueError: if there is none.
    """
    if name not in ZOO:
        raise ValueError(f"name must be one of {', '.join(ZOO)}, not {name!r}")
    return ZOO[name]


def example(name: str, batch: int) -> Any:
    """Return ``batch`` test inputs as the model takes them: images as a Tensor, tokens as an array.

    Examples:
        >>> from tinytorch.models import example
        >>> example("mlp", 3).shape
        (3, 1, 8, 8)
        >>> example("gpt", 3).dtype
        dtype('int64')
    """
    return as_input(entry(name).example_input(batch))


def loss_function() -> CrossEntropyLoss:
    """Return the loss that all models of the zoo are trained with."""
    return CrossEntropyLoss(ignore_index=datasets.IGNORED)


def warm_up_then_cosine(fraction: float) -> float:
    """Return the learning rate's factor: up linearly for a tenth of the training, then down a half cosine."""
    if fraction < 0.1:
        return (fraction + 0.002) / 0.102
    return 0.5 * (1 + math.cos(math.pi * (fraction - 0.1) / 0.9))


def train_on(
    name: str, model: Module, *, epochs: int, learning_rate: float, examples: int | None = None, seed: int = 0
) -> None:
    """Train ``model`` with the zoo's data, loss, batches and schedule of that name; leave it in eval mode.

    Args:
        epochs: passes over the training examples.
        learning_rate: that of AdamW at the top of `warm_up_then_cosine`.
        examples: the number of training examples, from the first; all if None.
        seed: seed of the order of the examples.

    Raises:
        ValueError: if the zoo has no such entry, or a count is below 1.
    """
    if examples is not None and examples < 1:
        raise ValueError(f"examples must be at least 1, not {examples}")
    inputs, targets = (array[:examples] for array in entry(name).train_data())
    batches = DataLoader(inputs, targets, batch_size=entry(name).batch_size, shuffle=True, seed=seed)
    optimizer = AdamW(model.parameters(), lr=learning_rate)
    fit(model, batches, loss_function(), optimizer, epochs, schedule=warm_up_then_cosine, name=f"training {name}")


def train(name: str, seed: int = 0) -> Module:
    """Return the zoo's model of that name, trained from ``seed`` on the training part, in eval mode."""
    model = entry(name).make(seed)
    train_on(name, model, epochs=entry(name).epochs, learning_rate=entry(name).learning_rate, seed=seed)
    return model


@overload
def trained(name: Literal["mlp", "cnn"], seed: int = 0) -> Sequential: ...
@overload
def trained(name: Literal["gpt"], seed: int = 0) -> GPT: ...
@overload
def trained(name: str, seed: int = 0) -> Module: ...
def trained(name: str, seed: int = 0) -> Module:
    """Return a trained model and its losses, from a file of weights if the same training has run before.

    The model is trained again when the code of the framework, the data or the seed has changed, or the BLAS of this
    machine; comments and docstrings do not count.

    Examples:
        >>> from tinytorch.models import trained
        >>> trained("resnet")
        Traceback (most recent call last):
        ValueError: name must be one of mlp, cnn, gpt, not 'resnet'
    """
    start = entry(name).make(seed)
    path = weights.WEIGHTS / f"{name}-{seed}-{weights.weights_key()}.npz"
    return weights.kept_or_made(path, lambda kept: start.load(kept).eval(), lambda: train(name, seed), Module.save)


def held_out_logits(model: Module, name: str) -> npt.NDArray[Any]:
    """Return the model's outputs for the whole test part, without gradients: logits, of shape (test examples, ...).

    They are computed some examples at a time, as all at once would take hundreds of megabytes for what lies in between.
    """
    inputs = entry(name).data().test_inputs
    with undisturbed(model), evaluating(model), no_grad():
        parts = [
            model(as_input(inputs[start : start + _AT_A_TIME])).data for start in range(0, len(inputs), _AT_A_TIME)
        ]
    return np.concatenate(parts)


def correct(model: Module, name: str) -> npt.NDArray[np.bool_]:
    """Return, for each test example, whether the model gets it right, shape (test examples,); see `right_answers`."""
    return right_answers(held_out_logits(model, name), name)


def right_answers(logits: npt.NDArray[Any], name: str) -> npt.NDArray[np.bool_]:
    """Return, for each test example, whether its outputs among ``logits`` are right, shape (test examples,).

    A digit is right if its logit is the largest. A sequence is right if every token of the answer is: greedy
    decoding reads its own tokens back, so it is right exactly when each token is right after the right ones.

    Args:
        logits: what `held_out_logits` returns.
        name: of the zoo's entry whose test part they are of.

    Raises:
        ValueError: if logits are NaN or infinite, so that no answer is the largest.
    """
    check_scores(logits)
    data = entry(name).data()
    chosen = logits.argmax(axis=-1)
    if chosen.ndim == 1:
        return np.asarray(chosen == data.test_targets)
    return np.asarray(((chosen == data.test_targets) | (data.test_targets == datasets.IGNORED)).all(axis=1))


def accuracy(model: Module, name: str) -> float:
    """Return the share (0 to 1) of the whole test part that the model gets right.

    Examples:
        >>> from tinytorch.models import accuracy, mlp
        >>> accuracy(mlp(), "mlp") < 0.5  # nobody has trained it
        True
    """
    return float(correct(model, name).mean())


def as_input(array: npt.NDArray[Any]) -> Any:
    """Return images as a Tensor; tokens are taken as they are."""

    return Tensor(array) if array.dtype.kind == "f" else array
