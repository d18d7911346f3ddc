"""Whole models against PyTorch's with the same weights: output, loss, all gradients, and several training steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from peers.agreement import assert_close, drawn, give, give_linear, give_plain
from tinytorch.core import optimizers
from tinytorch.core.activations import GELU, ReLU
from tinytorch.core.layers import Flatten, Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, Sequential
from tinytorch.core.spatial import AdaptiveAvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT

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


class TheirBlock(nn.Module):  # type: ignore[misc]  # where PyTorch is not installed, its classes are Any
    """The pre-norm block of GPT-2 with PyTorch's own attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        packed = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x)), approximate="tanh"))


class TheirGPT(nn.Module):  # type: ignore[misc]
    """GPT-2 with tied logits."""

    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, positions: int) -> None:
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = nn.ModuleList(TheirBlock(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for embedding in (self.token, self.position):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, tokens: Any) -> Any:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.token.weight.T


def test_gpt() -> None:
    torch.manual_seed(0)
    ours, other = GPT(50, 48, 2, 4, 16), TheirGPT(50, 48, 2, 4, 16)

    def matched() -> Any:
        yield ours.token_embedding.weight, other.token.weight, False
        yield ours.position_embedding.weight, other.position.weight, False
        for block, same in zip(ours.blocks, other.blocks, strict=True):
            assert isinstance(same, TheirBlock)
            pairs = [
                (block.norm1, same.norm1),
                (block.norm2, same.norm2),
                (block.attention.qkv, same.qkv),
                (block.attention.projection, same.projection),
                (block.mlp.expand, same.expand),
                (block.mlp.contract, same.contract),
            ]
            for layer, their_layer in pairs:
                yield from _layer_pairs(layer, their_layer)
        yield from _layer_pairs(ours.norm, other.norm)

    for target, source, transposed in matched():
        give(source, target, transposed)
    generator = np.random.default_rng(0)
    tokens, targets = generator.integers(0, 50, (3, 12)), generator.integers(0, 50, (3, 12))
    compare_training(ours, other, tokens, targets, matched, {"lr": 1e-2, "eps": 1e-4}, "AdamW")
