"""Whole models against PyTorch's with the same weights: output, loss, all gradients, and several training steps."""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from peers.agreement import assert_close, drawn, give_linear, give_plain
from tinytorch.core import optimizers
from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.spatial import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines.pytorch import twin_of

#: Models add up the roundings of their layers, and of the steps before.
TOLERANCE = 1e-4


def compare_training(
    ours: Module, other: nn.Module, x: Any, y: Any, matched: Any, options: dict[str, Any], optimizer: str
) -> None:
    """Train both for five steps, and compare logits and loss of each, the first gradients and the last weights.

    ``matched`` yields pairs of a parameter of ours and one of PyTorch's, and whether the latter is transposed.
    """
    mine = getattr(optimizers, optimizer)(ours.parameters(), **options)
    their = getattr(torch.optim, optimizer)(other.parameters(), **options)
    assert len(ours.parameters()) == len(list(matched())) == len(list(other.parameters()))
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
            for one, same, transposed in matched():
                assert_close(one.grad, same.grad.T if transposed else same.grad, TOLERANCE)
        mine.step()
        their.step()
    for one, same, transposed in matched():
        assert_close(one, same.T if transposed else same, TOLERANCE)


def _layer_pairs(ours: Any, other: Any) -> Any:
    """Yield the parameters of two layers in pairs."""
    yield ours.weight, other.weight, isinstance(other, nn.Linear)
    if other.bias is not None:
        yield ours.bias, other.bias, False


def test_mlp() -> None:
    ours = Sequential(Linear(64, 128), ReLU(), Linear(128, 96), GELU(), Linear(96, 10))
    other = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 96), nn.GELU("tanh"), nn.Linear(96, 10))
    for index in (0, 2, 4):
        give_linear(other[index], ours[index])

    def matched() -> Any:
        for index in (0, 2, 4):
            yield from _layer_pairs(ours[index], other[index])

    labels = np.random.default_rng(0).integers(0, 10, 32)
    compare_training(ours, other, drawn(32, 64), labels, matched, {"lr": 0.1, "momentum": 0.9}, "SGD")


def test_cnn() -> None:
    ours = Sequential(
        Conv2d(3, 16, 3, padding=1),
        BatchNorm2d(16),
        ReLU(),
        MaxPool2d(2),
        Conv2d(16, 32, 3, stride=2, padding=1, groups=4),
        ReLU(),
        AdaptiveAvgPool2d((2, 2)),
        Flatten(),
        Linear(128, 10),
    )
    other = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, groups=4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    for index in (0, 1, 4):
        give_plain(other[index], ours[index])
    give_linear(other[8], ours[8])

    def matched() -> Any:
        for index in (0, 1, 4, 8):
            yield from _layer_pairs(ours[index], other[index])

    labels = np.random.default_rng(0).integers(0, 10, 8)
    compare_training(ours, other, drawn(8, 3, 16, 16), labels, matched, {"lr": 0.05, "momentum": 0.9}, "SGD")


def test_gpt() -> None:
    ours = GPT(50, 48, 2, 4, 16)
    twin = twin_of(ours)

    def matched() -> Any:
        for name, parameter in ours.named_parameters():
            yield parameter, *twin.pairs[name]

    generator = np.random.default_rng(0)
    tokens, targets = generator.integers(0, 50, (3, 12)), generator.integers(0, 50, (3, 12))
    compare_training(ours, twin.module, tokens, targets, matched, {"lr": 1e-2, "eps": 1e-4}, "AdamW")
