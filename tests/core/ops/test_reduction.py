"""Sums, means, maxima and softmax against NumPy's own loops and SciPy."""

from typing import Any

import numpy as np
import pytest
import scipy.special

from tinytorch.core import ops
from tinytorch.core.activations import Softmax
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor

X = np.random.default_rng(0).normal(size=(2, 3, 4))
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (-1, -2), (0, 1, 2)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
def test_sum_mean_and_max(axis: Any, keepdims: bool) -> None:
    x = Tensor(X)
    add: Any = np.add
    maximum: Any = np.maximum
    for made, ufunc in ((x.sum(axis, keepdims), add), (x.max(axis, keepdims), maximum)):
        expected = np.asarray(ufunc.reduce(X, axis=axis, keepdims=keepdims))
        assert made.shape == expected.shape
        np.testing.assert_allclose(made.data, expected, rtol=1e-13)
    total = np.asarray(add.reduce(X, axis=axis, keepdims=keepdims))
    np.testing.assert_allclose(x.mean(axis, keepdims).data, total / (X.size / total.size), rtol=1e-13)


def test_sums_of_small_integers_do_not_overflow() -> None:
    assert Tensor(np.array([100, 100], np.int8)).sum().item() == 200
    assert Tensor(np.array([True, True, False])).sum().item() == 2


def test_ties_of_a_maximum_share_its_gradient() -> None:
    x = Tensor(np.array([[1.0, 3, 3], [2, 2, 2]]), requires_grad=True)
    x.max(axis=1).backward([6.0, 6.0])
    np.testing.assert_array_equal(x.grad, [[0, 3, 3], [2, 2, 2]])


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_softmax_and_its_logarithm(axis: int) -> None:
    for scale in (1, 1000):
        x = scale * X
        np.testing.assert_allclose(
            Softmax(dim=axis)(Tensor(x)).data, scipy.special.softmax(x, axis=axis), rtol=1e-10, atol=1e-300
        )
        np.testing.assert_allclose(
            apply(ops.log_softmax, Tensor(x), axis=axis).data,
            scipy.special.log_softmax(x, axis=axis),
            rtol=1e-12,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", ["mean", "max"])
def test_nothing_has_no_mean_and_no_maximum(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} needs at least one element, but the tensor's shape is \(0, 3\)"):
        getattr(Tensor(np.zeros((0, 3))), name)()
    assert Tensor(np.zeros((0, 3))).sum().item() == 0
