"""Losses against SciPy, and what they refuse."""

import numpy as np
import pytest
import scipy.special

from tests.core.cases import normal
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor


@pytest.mark.parametrize("shape", [(), (1,), (3, 4), (2, 3, 4)])
def test_mean_squared_error(shape: tuple[int, ...]) -> None:
    a, b = normal(*shape), normal(*shape, seed=1)
    made = apply(ops.mean_squared_error, Tensor(a), Tensor(b))
    assert made.shape == ()
    np.testing.assert_allclose(made.item(), np.sum((a - b) ** 2) / a.size, rtol=1e-12)


@pytest.mark.parametrize("scale", [1, 1000])
@pytest.mark.parametrize("ignored", [None, 2, -100])
def test_cross_entropy(ignored: int | None, scale: int) -> None:
    logits, target = scale * normal(6, 4), np.array([0, 2, 3, 1, 2, -100 if ignored == -100 else 3])
    counted = [row for row in range(6) if target[row] != ignored]
    expected = -np.mean([scipy.special.log_softmax(logits[row])[target[row]] for row in counted])
    made = apply(ops.cross_entropy, Tensor(logits), target, ignore_index=ignored)
    np.testing.assert_allclose(made.item(), expected, rtol=1e-12)
