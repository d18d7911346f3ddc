"""Whole models and optimizers against PyTorch's: output, loss, all gradients, and several training steps."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from peers.agreement import assert_close, give_linear, give_plain, theirs
from tests.perf.small_models import drawn
from tinytorch.core import optimizers
from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.spatial import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.pytorch import twin_of

#: Models add up the roundings of their layers, and of the steps before.
TOLERANCE = 1e-4
Pair = tuple[Any, Any, bool]


def compare_training(
    ours: Module, other: nn.Module, x: Any, y: Any, matched: list[Pair], options: dict[str, Any], optimizer: str
) -> None:
    """Train both for five steps, and compare logits and loss of each, the first gradients and the last weights.

    ``matched`` are pairs of a parameter of ours and one of PyTorch's, and whether the latter is transposed.
    """
    mine = getattr(optimizers, optimizer)(ours.parameters(), **options)
    their = getattr(torch.optim, optimizer)(other.parameters(), **options)
    assert len(ours.parameters()) == len(matched) == len(list(other.parameters()))
    for step in range(5):
        logits, expected = ours(x if x.dtype.kind == "i" else Tensor(x)), other(torch.tensor(x))
        assert_close(logits, expected, TOLERANCE)
        loss = CrossEntropyLoss()(logits, y)
        their_loss = functional.cross_entropy(expected.reshape(-1, expected.shape[-1]), torch.tensor(y).reshape(-1))
        assert_close(loss, their_loss, TOLERANCE)
        ours.zero_grad()
        other.zero_grad()
        loss.backward()
        their_loss.backward()
        if step == 0:
            for one, same, transposed in matched:
                assert_close(one.grad, same.grad.T if transposed else same.grad, TOLERANCE)
        mine.step()
        their.step()
    for one, same, transposed in matched:
        assert_close(one, same.T if transposed else same, TOLERANCE)


def layer_pairs(ours: Any, other: Any) -> list[Pair]:
    """Return the parameters of layers in pairs, after giving PyTorch's numbers to ours."""
    pairs = []
    for mine, twin in zip(ours, other, strict=True):
        if hasattr(twin, "weight"):
            (give_linear if isinstance(twin, nn.Linear) else give_plain)(twin, mine)
            pairs += [(mine.weight, twin.weight, isinstance(twin, nn.Linear)), (mine.bias, twin.bias, False)]
    return pairs


def test_mlp() -> None:
    ours = Sequential(Linear(64, 128), ReLU(), Linear(128, 96), GELU(), Linear(96, 10))
    other = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 96), nn.GELU("tanh"), nn.Linear(96, 10))
    labels, pairs = np.random.default_rng(0).integers(0, 10, 32), layer_pairs(ours, other)
    compare_training(ours, other, drawn(32, 64), labels, pairs, {"lr": 0.1, "momentum": 0.9}, "SGD")


def test_cnn() -> None:
    grouped: dict[str, Any] = {"stride": 2, "padding": 1, "groups": 4}
    ours = Sequential(
        *(Conv2d(3, 16, 3, padding=1), BatchNorm2d(16), ReLU(), MaxPool2d(2)),
        *(Conv2d(16, 32, 3, **grouped), ReLU(), AdaptiveAvgPool2d((2, 2)), Flatten(), Linear(128, 10)),
    )
    other = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, **grouped), nn.ReLU(), nn.AdaptiveAvgPool2d((2, 2)), nn.Flatten(), nn.Linear(128, 10)),
    )
    labels, pairs = np.random.default_rng(0).integers(0, 10, 8), layer_pairs(ours, other)
    compare_training(ours, other, drawn(8, 3, 16, 16), labels, pairs, {"lr": 0.05, "momentum": 0.9}, "SGD")


def test_gpt() -> None:
    ours = GPT(50, 48, 2, 4, 16)
    twin = twin_of(ours)
    pairs = [(parameter, *twin.pairs[name]) for name, parameter in ours.named_parameters()]
    generator = np.random.default_rng(0)
    tokens, targets = generator.integers(0, 50, (3, 12)), generator.integers(0, 50, (3, 12))
    compare_training(ours, twin.module, tokens, targets, pairs, {"lr": 1e-2, "eps": 1e-4}, "AdamW")


SHAPES = [(30, 20), (7,), (3, 2, 5, 5), (200, 300)]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
        ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
        ("Adam", {}),
        ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3}),
        ("Adam", {"lr": 0.01, "weight_decay": 0.1}),
        ("AdamW", {}),
        ("AdamW", {"lr": 0.01, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    ],
    ids=str,
)
def test_optimizers(name: str, options: dict[str, Any]) -> None:
    mine = [Parameter(drawn(*shape)) for shape in SHAPES]
    their = [theirs(parameter.data) for parameter in mine]
    ours, other = getattr(optimizers, name)(mine, **options), getattr(torch.optim, name)(their, **options)
    for step in range(10):
        for one, same in zip(mine, their, strict=True):
            gradient = drawn(*one.shape, seed=step + 1)
            one.grad, same.grad = gradient, torch.tensor(gradient)
        ours.step()
        other.step()
    for one, same in zip(mine, their, strict=True):
        assert_close(one, same)
