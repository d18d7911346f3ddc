"""Protocol of engines: a forward call and a training run of one of our models, with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.workloads import Loss

#: One forward pass; one training step; one text, greedy, from `subjects.prompt_of` on.
Phase = Literal["forward", "step", "decode"]


@dataclass(frozen=True)
class AdamWSettings:
    """Settings of the optimizer, as PyTorch's and ours default to."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.01


@dataclass(frozen=True)
class Training:
    """A model in training: ``step`` runs forward, backward and AdamW and returns the loss before it.

    ``state`` returns a copy of every parameter and buffer, by our names and in our layouts.
    """

    step: Callable[[], float]
    state: Callable[[], Mapping[str, Array]]


class Translation(Protocol):
    """Names that a module of this package defines to speak to an engine."""

    def scope(self, setting: str) -> AbstractContextManager[None]:
        """Return a context in which the engine uses a thread for each core that the process may use."""

    def forward(self, setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
        """Return a call that runs ``model`` in eval mode and returns its output, complete."""

    def training(
        self, setting: str, model: Module, batch: tuple[Array, Array], loss: Loss, optimizer: AdamWSettings
    ) -> Training:
        """Return ``model`` in training on one batch of inputs and targets."""

    def decoding(self, setting: str, model: GPT, prompt: Array, new_tokens: int) -> Callable[[], Array]:
        """Return a call that adds the likeliest tokens to each prompt, with a cache, and returns all tokens."""


@dataclass(frozen=True)
class Engine:
    """Something that runs models: its name, the packages it needs, how to get it, and in which setting it runs.

    ``translation`` names the module that speaks to it; ``phases`` what it can do.
    """

    name: str
    packages: tuple[str, ...]
    install: str
    translation: Literal["ours", "pytorch", "onnx_runtime", "jax_xla"]
    setting: str
    phases: tuple[Phase, ...] = ("forward", "step")


_TORCH = "pip install torch --index-url https://download.pytorch.org/whl/cpu"
_ONNX = "pip install onnx onnxruntime"
_EVERYTHING: tuple[Phase, ...] = ("forward", "step", "decode")
_ALL = (
    Engine("tinytorch", (), "", "ours", "numpy", _EVERYTHING),
    Engine("tinytorch accelerated", ("numba",), "pip install numba", "ours", "accelerated", _EVERYTHING),
    Engine("tinytorch fused", ("numba",), "pip install numba", "ours", "fused"),
    Engine("PyTorch eager", ("torch",), _TORCH, "pytorch", "eager", _EVERYTHING),
    Engine("PyTorch eager, cache concatenated", ("torch",), _TORCH, "pytorch", "concatenated", ("decode",)),
    Engine("PyTorch compiled", ("torch",), _TORCH, "pytorch", "compiled"),
    Engine("ONNX Runtime", ("onnx", "onnxruntime"), _ONNX, "onnx_runtime", "all", ("forward",)),
    Engine("JAX", ("jax",), "pip install jax", "jax_xla", "jit"),
)
#: Every engine by name. "tinytorch" is NumPy alone, "accelerated" its compiled kernels, and "fused" these on a fused
#: model's planned step in training, and in a forward on the model's plan, both frozen for one shape.
ENGINES = {engine.name: engine for engine in _ALL}
#: Names of the settings of our own.
OURS = tuple(engine.name for engine in _ALL if engine.translation == "ours")


def engine(name: str) -> Engine:
    """Return the engine of this name.

    Raises:
        ValueError: if there is none.
    """
    if name not in ENGINES:
        raise ValueError(f"name must be one of {', '.join(ENGINES)}, not {name!r}")
    return ENGINES[name]
