"""Optimizers against PyTorch's over several steps from the same weights with the same gradients."""

from typing import Any

import pytest
import torch

from peers.agreement import assert_close, theirs
from tests.perf.small_models import drawn
from tinytorch.core import optimizers
from tinytorch.core.module import Parameter

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
