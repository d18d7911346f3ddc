"""Models of the zoo trained on with rounding in their forward pass, kept so that a page need not wait."""

import sys
from pathlib import Path

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.training import train_step, training_steps
from tinytorch.models import weights
from tinytorch.perf.ops import affine, packed_codes
from tinytorch.perf.quantization import convert, layers, storage, training
from tinytorch.perf.quantization.convert import load_quantized, save_quantized
from tinytorch.perf.quantization.layers import Plan
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
    rounded = prepare_training(model, plan)
    # A plan would keep the scales of the first step, and they follow the weights.
    with training_steps(lambda: train_step):
        models.train_on(name, rounded, epochs=epochs, learning_rate=learning_rate, examples=examples, seed=seed)
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

    The file lies in ``folder``, or with the zoo's weights if None; its name has a hash of the arguments, of the float
    weights, and of the code that trains.
    """
    model = models.trained(name)
    arguments = repr((name, plan, epochs, learning_rate, examples, seed))
    given = [np.ascontiguousarray(each.data).tobytes() for each in model.parameters()]
    modules = (affine, packed_codes, convert, layers, storage, training, sys.modules[__name__])
    key = weights.weights_key(arguments, *given, modules=modules)
    return weights.kept_or_made(
        (folder or weights.WEIGHTS) / f"{name}-{plan.weights.bits}-bits-{key}.npz",
        lambda kept: load_quantized(kept, model),
        lambda: train_rounded(
            name, model, plan, epochs=epochs, learning_rate=learning_rate, examples=examples, seed=seed
        ),
        save_quantized,
    )
