"""Models of the zoo's data, pruned or small, trained on and kept, so that a page need not wait for them again."""

import copy
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from tinytorch import datasets, models
from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import fit
from tinytorch.kept import keep
from tinytorch.perf.compression import distillation, pruning
from tinytorch.perf.compression.distillation import KnowledgeDistillation
from tinytorch.perf.compression.pruning import MaskedParameter


def small_mlp(first: int, second: int, seed: int = 0) -> Sequential:
    """Return the zoo's MLP, untrained, with ``first`` and ``second`` neurons in its two inner layers."""
    generator = np.random.default_rng(seed)
    return Sequential(
        Flatten(),
        Linear(64, first, seed=generator),
        ReLU(),
        Linear(first, second, seed=generator),
        ReLU(),
        Linear(second, 10, seed=generator),
    ).eval()


def trained_on(
    name: str,
    model: Module,
    epochs: int,
    *,
    learning_rate: float = 1e-3,
    examples: int | None = None,
    seed: int = 0,
    teacher: Module | None = None,
    temperature: float = 3.0,
    alpha: float = 0.7,
    folder: Path | None = None,
) -> Module:
    """Return a copy of ``model`` trained on with the zoo's data of that name, in eval mode; from a file if kept.

    Files lie in ``folder``, by default beside the zoo's weights; their name is a hash of the arguments, the weights and
    masks of both models, the sources of the framework, the zoo, its data and distillation, and the `models.arithmetic`.

    Args:
        name: of the zoo's entry, whose loss, batches and schedule are used.
        model: where it starts, also untrained; it is not changed.
        epochs: passes over the training examples.
        learning_rate: of AdamW at the top of its schedule.
        examples: how many of the training examples, from the first; all by default.
        seed: of the order of the batches.
        teacher: teaches by `KnowledgeDistillation` with ``temperature`` and ``alpha``, if given.
        folder: where files lie.

    Raises:
        ValueError: if the zoo has no such entry, or a count is below 1.
    """
    entry = models.entry(name)
    if examples is not None and examples < 1:
        raise ValueError(f"examples must be at least 1, not {examples}")
    made = copy.deepcopy(model)
    arguments = (name, epochs, learning_rate, examples, seed, temperature, alpha, teacher is None)
    path = (folder or models.WEIGHTS) / f"{name}-on-{_key([model, teacher], repr(arguments))}.npz"
    with suppress(OSError, ValueError):  # not there, or cut off
        return made.load(path).eval()
    inputs, targets = (array[:examples] for array in entry.train_data())
    optimizer = AdamW(made.parameters(), lr=learning_rate)
    schedule = models.warm_up_then_cosine
    if teacher is None:
        batches = DataLoader(inputs, targets, batch_size=entry.batch_size, shuffle=True, seed=seed)
        fit(made, batches, models.loss_function(), optimizer, epochs, schedule=schedule, name=f"training {name} on")
    else:
        taught = KnowledgeDistillation(teacher, made, temperature, alpha, datasets.IGNORED)
        taught.fit(inputs, targets, optimizer, epochs, batch_size=entry.batch_size, schedule=schedule, seed=seed)
    keep(path, made.save)
    return made


def _key(every: list[Module | None], arguments: str) -> str:
    parts = [arguments.encode()]
    for model in every:
        for key, tensor in (*model.named_parameters(), *model.named_buffers()) if model else ():
            parts.append(f"{key} {tensor.shape}".encode() + np.ascontiguousarray(tensor.data).tobytes())
            if isinstance(tensor, MaskedParameter):
                parts.append(np.packbits(tensor.pruned).tobytes())
    return models.weights_key(*parts, modules=(distillation, pruning, sys.modules[__name__]))
