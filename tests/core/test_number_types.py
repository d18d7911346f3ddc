"""Integers, halves, and sums of more addends than float32 can add up one after the other, in layers, losses and ops."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.core.gradients import gradient_of
from tinytorch.core import activations, ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Dropout, Embedding, LayerNorm, Linear
from tinytorch.core.losses import CrossEntropyLoss, MSELoss
from tinytorch.core.op import Array
from tinytorch.core.spatial import AdaptiveAvgPool2d, AvgPool2d, BatchNorm2d, Conv2d, MaxPool2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import accelerated

Layer = Callable[[Tensor], Tensor]
ROWS, IMAGES, HEADS = (3, 8), (2, 4, 6, 6), (1, 2, 3, 4)
LAYERS: dict[str, tuple[Callable[[], Layer], tuple[int, ...]]] = {
    **{
        name: (getattr(activations, name), ROWS)
        for name in ("ReLU", "GELU", "SiLU", "Sigmoid", "Tanh", "LeakyReLU", "Softmax")
    },
    "log_softmax": (lambda: lambda x: apply(ops.log_softmax, x), ROWS),
    "exp": (lambda: lambda x: apply(ops.exp, Tensor(np.minimum(x.data, x.data.dtype.type(5)))), ROWS),
    "log": (lambda: lambda x: Tensor(np.maximum(x.data, x.data.dtype.type(1))).log(), ROWS),
    "sqrt": (lambda: lambda x: Tensor(np.maximum(x.data, x.data.dtype.type(0))).sqrt(), ROWS),
    "Linear": (lambda: Linear(8, 4, seed=0), ROWS),
    "LayerNorm": (lambda: LayerNorm(8), ROWS),
    "Dropout": (lambda: Dropout(0.5, seed=0), ROWS),
    "MultiHeadAttention": (lambda: MultiHeadAttention(8, 2, seed=0), (1, *ROWS)),
    "attention": (lambda: lambda x: apply(ops.attention, x, x, x, causal=True), HEADS),
    "Conv2d": (lambda: Conv2d(4, 4, 3, padding=1, seed=0), IMAGES),
    "BatchNorm2d": (lambda: BatchNorm2d(4), IMAGES),
    "BatchNorm2d in eval mode": (lambda: BatchNorm2d(4).eval(), IMAGES),
    "MaxPool2d": (lambda: MaxPool2d(3, padding=1), IMAGES),
    "AvgPool2d": (lambda: AvgPool2d(3, padding=1), IMAGES),
    "AdaptiveAvgPool2d": (lambda: AdaptiveAvgPool2d(4), IMAGES),
    "MSELoss": (lambda: lambda x: MSELoss()(x, Tensor(x.data[::-1])), ROWS),
    "MSELoss of integer targets": (lambda: lambda x: MSELoss()(Tensor(x.data * np.float32(0.5)), x), ROWS),
    "CrossEntropyLoss": (lambda: lambda x: CrossEntropyLoss()(x, [0, 3, 7]), ROWS),
}
#: Smallest and largest number that is drawn.
DTYPES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-300, 300), "int64": (-300, 300), "bool": (0, 1)}


def drawn(shape: tuple[int, ...], low: int, high: int) -> Array:
    numbers = np.random.default_rng(0).integers(low, high, shape, endpoint=True)
    numbers.flat[:2] = low, high
    return numbers


@pytest.mark.parametrize("kernels", [nullcontext, accelerated], ids=["numpy", "compiled"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    # NumPy has no difference of truth values.
    [one for one in product(LAYERS, [*DTYPES, "float16"]) if one != ("MSELoss", "bool")],
)
def test_a_layer_gives_of_integers_and_halves_what_it_gives_of_floats(
    name: str, dtype: str, kernels: Callable[[], Any]
) -> None:
    make, shape = LAYERS[name]
    given = drawn(shape, *DTYPES.get(dtype, (-300, 300))).astype(dtype)
    expected = make()(Tensor(given.astype(np.float64 if name != "Dropout" else np.float32))).data
    with kernels():
        found = make()(Tensor(given)).data
    if name == "Dropout":  # kernels draw others: what is kept is scaled alike
        kept = found != 0
        np.testing.assert_array_equal(found[kept], 2 * given.astype(np.float32)[kept])
        return
    assert found.dtype.kind == "f" or name in ("ReLU", "MaxPool2d")
    np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 2e-5, atol=2e-3)


@pytest.mark.parametrize(
    ("layer", "shape"), [(LayerNorm(4096), (4, 4096)), (BatchNorm2d(1), (2, 1, 200, 200))], ids=repr
)
def test_a_normalization_of_halves_neither_overflows_nor_forgets(layer: Any, shape: tuple[int, ...]) -> None:
    for parameter in layer.parameters():
        parameter.data = parameter.data.astype(np.float16)
    x = (np.random.default_rng(0).normal(size=shape) * 400 + 3000).astype(np.float16)
    given = Tensor(x, requires_grad=True)
    output = layer(given)
    axes = -1 if len(shape) == 2 else (0, 2, 3)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
    assert output.dtype == np.float16
    np.testing.assert_allclose(output.data, expected, atol=3e-3)
    (output * output).mean().backward()
    assert all(each.grad is not None and np.isfinite(each.grad).all() for each in (given, layer.weight))


@pytest.mark.parametrize(
    ("dtype", "pair"),
    [("int8", (100, -100)), ("uint8", (0, 200)), ("int64", (2**40 + 1, 2**40)), ("float16", (2**15, -(2**14) * 0.83))],
)
def test_squared_errors_of_narrow_numbers_are_exact(dtype: str, pair: tuple[float, float]) -> None:
    one, other = (np.array([each]).astype(dtype) for each in pair)
    exact = (float(one[0]) - float(other[0])) ** 2
    np.testing.assert_allclose(MSELoss()(Tensor(one), Tensor(other)).item(), exact, rtol=1e-6)


#: Ones that float32 cannot count one by one: it stops at 2**24.
ADDENDS = 2**24 + 2**20


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
SUMS: dict[str, tuple[Callable[[], Any], float]] = {
    "sum of rows": (lambda: ones(ADDENDS, 1).sum(axis=0), ADDENDS),
    "sum of rows and columns": (lambda: ones(2, ADDENDS // 4, 2).sum(axis=(1, 2)), ADDENDS // 2),
    "sum of a part of each row": (lambda: Tensor(np.ones((ADDENDS, 2), np.float32)[:, :1]).sum(), ADDENDS),
    "mean of rows": (lambda: ones(ADDENDS, 1).mean(axis=0), 1),
    "mean of halves": (lambda: Tensor(np.full((70_000, 1), 2, np.float16)).mean(axis=0), 2),
    "sum of halves": (lambda: Tensor(np.ones((30_000, 1), np.float16)).sum(axis=0), 30_000),
    "row added to each": (lambda: slope(ones(1), lambda row: ones(ADDENDS, 1) + row), ADDENDS),
    "number times each": (lambda: slope(Tensor(np.float32(1)), lambda one: ones(ADDENDS, 1) * one), ADDENDS),
    "bias": (lambda: weight_gradient(Linear(1, 2), ones(ADDENDS, 1), "bias"), ADDENDS),
    "weight of one output": (lambda: weight_gradient(Linear(2, 1), ones(ADDENDS, 2)), ADDENDS),
    "matmul with a column": (lambda: slope(ones(2, 1), lambda column: ones(ADDENDS, 2) @ column), ADDENDS),
    "bias of a convolution": (lambda: weight_gradient(Conv2d(1, 2, 1), ones(17, 1, 1024, 1024), "bias"), 17 * 2**20),
    "row of a table": (lambda: weight_gradient(Embedding(1, 1), np.zeros(ADDENDS, np.int64)), ADDENDS),
    "element picked often": (lambda: slope(ones(1), lambda row: row[np.zeros(ADDENDS, np.int64)]), ADDENDS),
    "bias of a normalization": (lambda: weight_gradient(LayerNorm(1), ones(ADDENDS, 1), "bias"), ADDENDS),
    "ties of a maximum": (lambda: slope(ones(ADDENDS, 1), lambda x: x.max(axis=0))[:1], 1 / ADDENDS),
    "softmax along rows": (lambda: apply(ops.softmax, ones(ADDENDS, 1), axis=0).data[:1], 1 / ADDENDS),
    "squared error": (lambda: MSELoss()(Tensor(np.full(ADDENDS, 1.1, np.float32)), np.zeros(ADDENDS)).item(), 1.1**2),
    "variance of channels": (running_variance, 1),
    "variance of a wide row": (lambda: LayerNorm(2**20)(Tensor(WIDE)).data[0, 1], 1 / np.sqrt(1 + 1e-5)),
}


@pytest.mark.parametrize(("make", "expected"), SUMS.values(), ids=[*SUMS])
def test_sums_of_many_addends(make: Callable[[], Any], expected: float) -> None:
    np.testing.assert_allclose(np.asarray(make()), expected, rtol=1e-5)
