"""Elementwise functions of other frameworks' models: against the standard library and NumPy, their gradients too."""

import math
from typing import Any

import numpy as np
import pytest

from tests.core.gradients import check_gradients
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.ops import pointwise

#: No number is near a corner of a function below.
X = np.random.default_rng(0).normal(size=(3, 4)) * 2 + 0.013
Y = np.random.default_rng(1).normal(size=(4,)) * 2


def test_the_error_function_is_the_standard_library_s() -> None:
    made = apply(pointwise.erf, X.astype(np.float32)).data
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, [[math.erf(x) for x in row] for row in X], rtol=1e-6)


def test_softplus_does_not_overflow() -> None:
    far = np.array([-1000.0, 0.0, 1000.0], np.float32)
    np.testing.assert_allclose(apply(pointwise.softplus, far).data, [0, math.log(2), 1000])


@pytest.mark.parametrize(
    ("op", "operands", "params"),
    [
        (pointwise.clip, (X,), {"low": -1.0, "high": 0.5}),
        (pointwise.clip, (X,), {"low": -math.inf, "high": 0.0}),
        (pointwise.hard_sigmoid, (X,), {"slope": 0.3, "shift": 0.4}),
        (pointwise.elu, (X,), {"alpha": 0.7}),
        *[(getattr(pointwise, name), (X,), {}) for name in ("erf", "softplus", "sin", "cos")],
        *[(getattr(pointwise, name), (X,), {}) for name in ("floor", "ceil", "round_", "sign")],
        (pointwise.minimum, (X, Y), {}),
        (pointwise.minimum, (Y, X), {}),
    ],
)
def test_gradients(op: Op, operands: tuple[Array, ...], params: dict[str, Any]) -> None:
    tensors = (Tensor(each.copy(), requires_grad=True) for each in operands)
    check_gradients(lambda *given: apply(op, *given, **params), *tensors)


def test_what_has_no_gradient_says_so() -> None:
    answer = apply(pointwise.greater, Tensor(X, requires_grad=True), Tensor(Y))
    with pytest.raises(TypeError, match="gradient"):
        answer.backward(np.ones(answer.shape))


def test_whole_numbers_divide_towards_zero() -> None:
    a, b = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    np.testing.assert_array_equal(apply(pointwise.whole_quotient, a, b).data, [3, -3, -3, 3])


def test_each_element_is_counted() -> None:
    with recording() as done:
        apply(pointwise.erf, X)
        apply(pointwise.clip, X, low=0.0, high=1.0)
        apply(pointwise.less, X, Y)
    assert [event.elementwise for event in done.profile.events] == [12, 24, 12]
