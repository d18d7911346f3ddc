"""Integers and halves in float layers and losses, against the same layers on the same numbers in float64."""

from collections.abc import Callable
from contextlib import nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest

from tinytorch.core import activations, ops
from tinytorch.core.attention import MultiHeadAttention
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Dropout, LayerNorm, Linear
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
