"""Models small enough to count by hand or to run fast, their inputs, and functions that fresh processes time."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch.core.activations import ReLU
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.op import Array, Gradients, Op, Saved
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT

ROWS, INPUTS, HIDDEN, OUTPUTS = 4, 6, 5, 3


def two_layers() -> Sequential:
    """Return Linear(6, 5), ReLU, Linear(5, 3): 53 parameters, 45 multiply-accumulates a row."""
    return Sequential(Linear(INPUTS, HIDDEN, seed=0), ReLU(), Linear(HIDDEN, OUTPUTS, seed=1))


def rows(count: int = ROWS) -> Tensor:
    return Tensor(np.random.default_rng(0).normal(size=(count, INPUTS)).astype(np.float32))


def floats(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def tokens(batch: int, length: int, vocabulary: int = 11) -> Array:
    return np.random.default_rng(batch).integers(0, vocabulary, (batch, length))


def settled(model: Module) -> Module:
    """Give every vector of a model, as those of normalization and biases, other numbers than it starts with."""
    draw = np.random.default_rng(5)
    for _, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.ndim == 1:
            tensor.data[...] = draw.uniform(0.5, 2, tensor.shape)
    return model.eval()


def _forward(keep: bool, x: Array) -> tuple[Array, Saved]:
    return x + 1, ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    return (gradient,)


#: An op without a work formula.
mystery = Op("mystery", _forward, _backward, None)


class Mystery(Module):
    """Runs `mystery`, then a linear layer."""

    def __init__(self) -> None:
        self.linear = Linear(INPUTS, OUTPUTS, seed=0)

    def forward(self, x: Any) -> Any:
        return self.linear(apply(mystery, x))


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def small_gpt(seed: int = 0, max_seq_len: int = 12, num_heads: int = 2) -> GPT:
    """Return a GPT of two blocks with 13 tokens, 20 wide, with weights of the size of trained ones."""
    model = GPT(13, 20, 2, num_heads, max_seq_len, seed=seed).eval()
    draw = np.random.default_rng(seed)
    for parameter in model.parameters():
        parameter.data[...] += draw.normal(0, 0.3, parameter.shape).astype(np.float32)
    return model


def tokens_of(batch: int, length: int, seed: int = 0) -> npt.NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 13, (batch, length))


Functions = Mapping[str, Callable[[], Any]]


def twice_the_work() -> Functions:
    return {"long": lambda: sum(range(8_000)), "short": lambda: sum(range(4_000))}


def broken() -> Functions:
    raise ZeroDivisionError("nothing to compare")
