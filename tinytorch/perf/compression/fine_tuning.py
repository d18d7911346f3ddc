"""Fine-tuning of compressed models on the zoo's data, with or without a teacher; trained weights are kept in files."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tinytorch import datasets, models
from tinytorch.core import ops
from tinytorch.core.activations import ReLU
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.op import Array
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import fit
from tinytorch.kept import keep
from tinytorch.models import weights
from tinytorch.perf.compression import distillation, pruning
from tinytorch.perf.compression.distillation import KnowledgeDistillation
from tinytorch.perf.compression.pruning import MaskedParameter


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
    """Return a copy of ``model`` trained further on the zoo's data of that name, in eval mode; from a file if kept.

    The file's name has a hash of the arguments, of the weights and masks of both models, and of the code that trains.

    Args:
        name: the zoo's entry, whose data, loss, batches and schedule are used.
        model: where the training starts; it is not changed.
        epochs: passes over the training examples.
        learning_rate: that of AdamW at the top of its schedule.
        examples: the number of training examples, from the first; all if None.
        seed: seed of the order of the examples.
        teacher: a model that teaches by `KnowledgeDistillation` with ``temperature`` and ``alpha``.
        folder: the folder of the files; that of the zoo's weights if None.

    Raises:
        ValueError: if the zoo has no such entry, or a count is below 1.
    """
    how = _How(name, epochs, learning_rate, examples, seed, temperature, alpha)

    def make() -> Module:
        made = copy.deepcopy(model)
        how.train(made, teacher)
        return made

    path = (folder or weights.WEIGHTS) / how.file_of(model, teacher)
    return weights.kept_or_made(path, lambda kept: copy.deepcopy(model).load(kept).eval(), make, Module.save)


def train_together(
    name: str,
    networks: Sequence[Module],
    epochs: int,
    *,
    learning_rate: float = 1e-3,
    examples: int | None = None,
    teachers: Sequence[Module] | None = None,
    temperature: float = 3.0,
    alpha: float = 0.7,
    folder: Path | None = None,
) -> None:
    """Train several networks of one shape as one batch of networks, so that `trained_on` finds each of them kept.

    Small networks take hardly longer together than one of them alone. Each learns what `trained_on` would teach it
    alone, but for rounding.

    Args:
        networks: models whose linear layers, with ReLUs between them, have the same shapes.
        teachers: the teacher of each network, likewise of one shape.

    The other arguments are those of `trained_on`.
    """
    how = _How(name, epochs, learning_rate, examples, 0, temperature, alpha)
    taught: Sequence[Module | None] = teachers or [None] * len(networks)
    paths = [(folder or weights.WEIGHTS) / how.file_of(*pair) for pair in zip(networks, taught, strict=True)]
    if all(path.exists() for path in paths):
        return
    together = Stack(networks)
    how.train(together, Stack(teachers) if teachers else None, len(networks))
    for path, network in zip(paths, together.parted(networks), strict=True):
        keep(path, network.save)


class Stack(Module):
    """Networks of one shape that compute side by side: inputs (N, ...) to outputs (N, networks, classes).

    Args:
        networks: models that are linear layers with biases and ReLUs between them; they are copied.

    Raises:
        ValueError: if a network has other layers, or shapes differ.
    """

    def __init__(self, networks: Sequence[Module]) -> None:
        layers = [*zip(*map(_linear_layers, networks), strict=True)]
        self.weights = [_stacked([layer.weight for layer in each]) for each in layers]
        self.biases = [Parameter(np.stack([_bias(layer) for layer in each])[:, None]) for each in layers]

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of all networks for the same inputs."""
        found = x.reshape(len(x), -1)
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            found = apply(ops.relu, found @ weight + bias)
        return (found @ self.weights[-1] + self.biases[-1]).transpose(1, 0, 2)

    def parted(self, networks: Sequence[Module]) -> Iterator[Module]:
        """Yield a copy of each of the networks that this was made of, with the weights that it has now."""
        for index, network in enumerate(networks):
            made = copy.deepcopy(network)
            for layer, weight, bias in zip(_linear_layers(made), self.weights, self.biases, strict=True):
                layer.weight.data[...] = weight.data[index]
                _bias(layer)[...] = bias.data[index, 0]
            yield made


def _linear_layers(network: Module) -> list[Linear]:
    modules = [module for _, module in network.named_modules()]
    layers = [module for module in modules if type(module) is Linear and module.bias is not None]
    others = [module for module in modules if type(module) not in (Sequential, Flatten, ReLU) and module not in layers]
    if others:
        raise ValueError(
            f"networks must be linear layers with biases and ReLUs between them, but one holds {others[0]}"
        )
    return layers


def _bias(layer: Linear) -> Array:
    assert layer.bias is not None
    return layer.bias.data


def _stacked(parameters: Sequence[Parameter]) -> Parameter:
    values = np.stack([each.data for each in parameters])
    if not any(isinstance(each, MaskedParameter) for each in parameters):
        return Parameter(values)
    masks = [each.pruned if isinstance(each, MaskedParameter) else np.zeros(each.shape, bool) for each in parameters]
    return MaskedParameter(values, np.stack(masks))


@dataclass(frozen=True)
class _How:
    """A training on the zoo's data: the arguments of `trained_on` that are not models."""

    name: str
    epochs: int
    learning_rate: float
    examples: int | None
    seed: int
    temperature: float
    alpha: float

    def train(self, model: Module, teacher: Module | None, networks: int | None = None) -> None:
        """Train ``model``, or a `Stack` of so many ``networks``, and leave it in eval mode."""
        entry = models.entry(self.name)
        if self.examples is not None and self.examples < 1:
            raise ValueError(f"examples must be at least 1, not {self.examples}")
        inputs, targets = (array[: self.examples] for array in entry.train_data())
        # The loss of several networks is their mean: with as much smaller an epsilon, each step is that of each alone.
        optimizer = AdamW(model.parameters(), lr=self.learning_rate, eps=1e-8 / (networks or 1))
        if networks is not None:
            targets = np.repeat(targets[:, None], networks, axis=1)
        schedule = models.warm_up_then_cosine
        if teacher is not None:
            taught = KnowledgeDistillation(teacher, model, self.temperature, self.alpha, datasets.IGNORED)
            size = entry.batch_size
            taught.fit(inputs, targets, optimizer, self.epochs, batch_size=size, schedule=schedule, seed=self.seed)
            return
        batches = DataLoader(inputs, targets, batch_size=entry.batch_size, shuffle=True, seed=self.seed)
        said = f"training {self.name} on"
        fit(model, batches, models.loss_function(), optimizer, self.epochs, schedule=schedule, name=said)

    def file_of(self, model: Module, teacher: Module | None) -> str:
        """Return the name of the file of what ``model`` becomes: it holds a hash of all that decides the weights."""
        parts = [repr((self, teacher is None)).encode()]
        for given in (model, teacher):
            for key, tensor in (*given.named_parameters(), *given.named_buffers()) if given else ():
                parts.append(f"{key} {tensor.shape}".encode() + np.ascontiguousarray(tensor.data).tobytes())
                if isinstance(tensor, MaskedParameter):
                    parts.append(np.packbits(tensor.pruned).tobytes())
        key = weights.weights_key(*parts, modules=(distillation, pruning, sys.modules[__name__]))
        return f"{self.name}-on-{key}.npz"
