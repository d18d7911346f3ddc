"""Sums of more addends than float32 can add up one after the other, against closed forms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.core.gradients import gradient_of
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Embedding, LayerNorm, Linear
from tinytorch.core.losses import MSELoss
from tinytorch.core.op import Array
from tinytorch.core.spatial import BatchNorm2d, Conv2d
from tinytorch.core.tensor import Tensor

#: Ones that float32 cannot count one by one: it stops at 2**24.
N = 2**24 + 2**20


def ones(*shape: int) -> Tensor:
    return Tensor(np.ones(shape, np.float32))


def slope(operand: Tensor, make: Callable[[Tensor], Tensor]) -> Array:
    operand.requires_grad = True
    make(operand).sum().backward()
    return gradient_of(operand)


def weight_gradient(layer: Any, x: Any, name: str = "weight") -> Array:
    layer(x).sum().backward()
    return gradient_of(getattr(layer, name))


def running_variance() -> Array:
    layer, x = BatchNorm2d(2, momentum=1.0), np.random.default_rng(0).random((1, 2, 2048, 2048), dtype=np.float32)
    layer(Tensor(x))
    return layer.running_var.data / x.astype(np.float64).var(axis=(0, 2, 3))


WIDE = np.where(np.arange(2**20) % 2, 3.1, 1.1).astype(np.float32)[None]
CASES: dict[str, tuple[Callable[[], Any], float]] = {
    "sum of rows": (lambda: ones(N, 1).sum(axis=0), N),
    "sum of rows and columns": (lambda: ones(2, N // 4, 2).sum(axis=(1, 2)), N // 2),
    "sum of a part of each row": (lambda: Tensor(np.ones((N, 2), np.float32)[:, :1]).sum(), N),
    "mean of rows": (lambda: ones(N, 1).mean(axis=0), 1),
    "mean of halves": (lambda: Tensor(np.full((70_000, 1), 2, np.float16)).mean(axis=0), 2),
    "sum of halves": (lambda: Tensor(np.ones((30_000, 1), np.float16)).sum(axis=0), 30_000),
    "row added to each": (lambda: slope(ones(1), lambda row: ones(N, 1) + row), N),
    "number times each": (lambda: slope(Tensor(np.float32(1)), lambda one: ones(N, 1) * one), N),
    "bias": (lambda: weight_gradient(Linear(1, 2), ones(N, 1), "bias"), N),
    "weight of one output": (lambda: weight_gradient(Linear(2, 1), ones(N, 2)), N),
    "matmul with a column": (lambda: slope(ones(2, 1), lambda column: ones(N, 2) @ column), N),
    "bias of a convolution": (lambda: weight_gradient(Conv2d(1, 2, 1), ones(17, 1, 1024, 1024), "bias"), 17 * 2**20),
    "row of a table": (lambda: weight_gradient(Embedding(1, 1), np.zeros(N, np.int64)), N),
    "element picked often": (lambda: slope(ones(1), lambda row: row[np.zeros(N, np.int64)]), N),
    "bias of a normalization": (lambda: weight_gradient(LayerNorm(1), ones(N, 1), "bias"), N),
    "ties of a maximum": (lambda: slope(ones(N, 1), lambda x: x.max(axis=0))[:1], 1 / N),
    "softmax along rows": (lambda: apply(ops.softmax, ones(N, 1), axis=0).data[:1], 1 / N),
    "squared error": (lambda: MSELoss()(Tensor(np.full(N, 1.1, np.float32)), np.zeros(N)).item(), 1.1**2),
    "variance of channels": (running_variance, 1),
    "variance of a wide row": (lambda: LayerNorm(2**20)(Tensor(WIDE)).data[0, 1], 1 / np.sqrt(1 + 1e-5)),
}


@pytest.mark.parametrize(("make", "expected"), CASES.values(), ids=[*CASES])
def test_sums_of_many_addends(make: Callable[[], Any], expected: float) -> None:
    np.testing.assert_allclose(np.asarray(make()), expected, rtol=1e-5)
