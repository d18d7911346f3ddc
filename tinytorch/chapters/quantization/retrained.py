"""Models of the zoo trained on with rounding in their forward pass, kept so that a page need not wait."""

import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from tinytorch import models
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import fit
from tinytorch.kept import keep
from tinytorch.perf.ops import affine, packed_codes
from tinytorch.perf.quantization import convert, layers, state, storage, training
from tinytorch.perf.quantization.layers import Plan
from tinytorch.perf.quantization.state import load_quantized, save_quantized
from tinytorch.perf.quantization.training import finish_training, prepare_training


def train_rounded(
    name: str, model: Module, plan: Plan, *, epochs: int, learning_rate: float, examples: int, seed: int = 0
) -> Module:
    """Return a quantized model of the zoo that was trained on, from ``model``, knowing that it will be rounded.

    The data, the loss, the batches and the schedule are those that the zoo's model was trained with.

    Args:
        name: which model of the zoo ``model`` is.
        model: where it starts; it is not changed.
        plan: how it is quantized, in training and in the result.
        epochs: passes over the training examples.
        learning_rate: of AdamW at the top of its schedule.
        examples: how many of the training examples, from the first.
        seed: of the order of the batches.

    Raises:
        ValueError: if the zoo has no such model, or a count is below 1.
    """
    if examples < 1:
        raise ValueError(f"examples must be at least 1, not {examples}")
    entry = models.entry(name)
    inputs, targets = entry.train_data()
    rounded = prepare_training(model, plan)
    batches = DataLoader(inputs[:examples], targets[:examples], batch_size=entry.batch_size, shuffle=True, seed=seed)
    optimizer = AdamW(rounded.parameters(), lr=learning_rate)
    schedule = models.warm_up_then_cosine
    fit(rounded, batches, models.loss_function(), optimizer, epochs, schedule=schedule, name=f"training rounded {name}")
    return finish_training(rounded)


def retrained(
    name: str,
    plan: Plan,
    *,
    epochs: int,
    learning_rate: float,
    examples: int,
    seed: int = 0,
    folder: Path | None = None,
) -> Module:
    """Return what `train_rounded` makes of the zoo's trained model, from a kept file if the same code made it.

    Files lie in ``folder``, by default beside the zoo's weights; their name is a hash of the arguments, the float
    weights, the sources of the framework, the zoo, its data and quantized training, and the `models.arithmetic`.
    """
    model = models.trained(name)
    arguments = (name, plan, epochs, learning_rate, examples, seed)
    path = (folder or models.WEIGHTS) / f"{name}-{plan.weights.bits}-bits-{_key(model, repr(arguments))}.npz"
    with suppress(OSError, ValueError):  # not there, or cut off
        return load_quantized(path, model)
    made = train_rounded(name, model, plan, epochs=epochs, learning_rate=learning_rate, examples=examples, seed=seed)
    keep(path, lambda to: save_quantized(made, to))
    return made


def _key(model: Module, arguments: str) -> str:
    weights = [np.ascontiguousarray(each.data).tobytes() for each in model.parameters()]
    modules = (affine, packed_codes, convert, layers, state, storage, training, sys.modules[__name__])
    return models.weights_key(arguments, *weights, modules=modules)
