"""Layer and batch normalization against their formulas."""

import numpy as np
import pytest

from tests.core.cases import normal, positive
from tests.core.gradients import gradient_of
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize("shape", [(4,), (1, 4), (5, 4), (2, 3, 4), (BLOCK // 4 + 3, 4), (2, BLOCK + 1), (3, 1)])
def test_layer_norm(shape: tuple[int, ...]) -> None:
    x, weight, bias = 3 * normal(*shape) + 7, positive(shape[-1]), normal(shape[-1])
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    expected = (x - mean) / np.sqrt(variance + 1e-5) * weight + bias
    made = apply(ops.layer_norm, Tensor(x), Tensor(weight), Tensor(bias), epsilon=1e-5)
    assert made.shape == shape
    np.testing.assert_allclose(made.data, expected, rtol=1e-9, atol=1e-9)


def test_layer_norm_gradient_in_blocks() -> None:
    """Many rows at once give the rows' own gradients, and the sums of those of weight and bias."""
    count, width = BLOCK // 4 + 3, 4
    rows, weight, bias, down = normal(count, width), positive(width), normal(width), normal(count, width, seed=1)
    tensors = [Tensor(array, requires_grad=True) for array in (rows, weight, bias)]
    apply(ops.layer_norm, *tensors, epsilon=1e-5).backward(down)
    deviation = np.sqrt(rows.var(axis=1, keepdims=True) + 1e-5)
    normalized = (rows - rows.mean(axis=1, keepdims=True)) / deviation
    inner = down * weight
    projected = inner - inner.mean(1, keepdims=True) - normalized * (inner * normalized).mean(1, keepdims=True)
    np.testing.assert_allclose(gradient_of(tensors[0]), projected / deviation, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gradient_of(tensors[1]), (down * normalized).sum(axis=0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient_of(tensors[2]), down.sum(axis=0), rtol=1e-9, atol=1e-9)


def _normalized(x: Array, mean: Array, variance: Array, weight: Array, bias: Array) -> Array:
    shape = (1, -1, 1, 1)
    scaled = (x - mean.reshape(shape)) / np.sqrt(variance.reshape(shape) + 1e-5)
    return scaled * weight.reshape(shape) + bias.reshape(shape)


def test_batch_norm_by_its_own_and_by_given_statistics() -> None:
    x, weight, bias = 3 * normal(4, 3, 2, 5) + 7, positive(3), normal(3)
    tensors = Tensor(x), Tensor(weight), Tensor(bias)
    statistics: list[Array] = []
    own = apply(ops.batch_norm, *tensors, epsilon=1e-5, statistics=statistics)
    mean, variance = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    np.testing.assert_allclose(own.data, _normalized(x, mean, variance, weight, bias), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(statistics, [mean, x.var(axis=(0, 2, 3), ddof=1)], rtol=1e-12)
    mean, variance = normal(3, seed=1), positive(3, seed=1)
    given = apply(ops.batch_norm, *tensors, mean, variance, epsilon=1e-5)
    np.testing.assert_allclose(given.data, _normalized(x, mean, variance, weight, bias), rtol=1e-10, atol=1e-10)
