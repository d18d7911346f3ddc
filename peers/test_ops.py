"""Ops that have no layer against PyTorch's functions: attention over more keys than queries, indexing, products."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from peers.agreement import assert_close, drawn, theirs
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor


def compare(ours: Any, other: Any, *arrays: Array) -> None:
    """Run two functions on the same arrays and compare the outputs and all gradients."""
    mine, their = [Tensor(array, requires_grad=True) for array in arrays], [theirs(array) for array in arrays]
    made, expected = ours(*mine), other(*their)
    assert_close(made, expected)
    down = drawn(*made.shape, seed=7)
    made.backward(down)
    expected.backward(torch.tensor(down))
    for one, same in zip(mine, their, strict=True):
        assert_close(one.grad, same.grad)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("length", [5, 64, 300])
def test_attention(length: int, causal: bool) -> None:
    compare(
        lambda q, k, v: apply(ops.attention, q, k, v, causal=causal),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
        *(drawn(2, 3, length, 8, seed=seed) for seed in range(3)),
    )


def test_attention_of_the_last_queries() -> None:
    """With fewer queries than keys, causal attention aligns the last of both: PyTorch's ``lower_right`` mask."""
    mask = torch.ones(4, 9, dtype=torch.bool).tril(diagonal=5)
    compare(
        lambda q, k, v: apply(ops.attention, q, k, v, causal=True),
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        drawn(2, 3, 4, 8),
        drawn(2, 3, 9, 8, seed=1),
        drawn(2, 3, 9, 8, seed=2),
    )


@pytest.mark.parametrize(
    ("a", "b"), [((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4,)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,))]
)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    compare(lambda x, y: x @ y, torch.matmul, drawn(*a), drawn(*b, seed=1))


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "arithmetic": (lambda x, y: (x + y) * (x - y) / (y * y + 1), lambda x, y: (x + y) * (x - y) / (y * y + 1)),
    "exp and log": (lambda x, y: (x.exp() + 1).log() * y, lambda x, y: (x.exp() + 1).log() * y),
    "sqrt and power": (lambda x, y: (x * x + 1).sqrt() * y**3, lambda x, y: (x * x + 1).sqrt() * y**3),
    "power of 0": (lambda x, y: (x * 0) ** 0 * y + x, lambda x, y: (x * 0) ** 0 * y + x),
    "sum and mean": (
        lambda x, y: x.sum(axis=1) * y.mean(axis=(0, 2)).sum(),
        lambda x, y: x.sum(1) * y.mean((0, 2)).sum(),
    ),
    "max": (lambda x, y: x.max(axis=2) * y.max(), lambda x, y: x.amax(2) * y.amax()),
    "index": (lambda x, y: x[:, [0, 0, 2]] * y[1], lambda x, y: x[:, [0, 0, 2]] * y[1]),
    "transpose": (
        lambda x, y: x.transpose(2, 0, 1).reshape(8, 3) @ y[0],
        lambda x, y: x.permute(2, 0, 1).reshape(8, 3) @ y[0],
    ),
    "concatenate": (lambda x, y: apply(ops.concatenate, x, y, x, axis=1), lambda x, y: torch.cat([x, y, x], dim=1)),
    "maximum": (lambda x, y: apply(ops.maximum, x, y), torch.maximum),
    "absolute": (lambda x, y: apply(ops.absolute, x * y), lambda x, y: (x * y).abs()),
    "log softmax": (lambda x, y: apply(ops.log_softmax, x * 5, axis=1) * y, lambda x, y: (x * 5).log_softmax(1) * y),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    compare(*FUNCTIONS[name], drawn(2, 3, 4), drawn(2, 3, 4, seed=1))


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.float16, np.float64])
def test_dtypes_of_results(kind: Any) -> None:
    """Arithmetic within one dtype and with Python numbers keeps it, as in PyTorch."""
    array = np.array([1, 2, 3]).astype(kind)
    mine, their = Tensor(array), theirs(array, requires_grad=False)
    for ours, other in (
        (mine + mine, their + their),
        (mine * 2, their * 2),
        (-mine, -their),
        (mine.sum(), their.sum()),
    ):
        assert_close(ours, other)
