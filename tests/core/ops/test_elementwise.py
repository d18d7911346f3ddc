"""Elementwise ops against NumPy and SciPy in float64, and broadcasting by its invariants."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from tests.core.gradients import check_gradients, gradient_of
from tinytorch.core import activations, ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.ops.elementwise import BLOCK
from tinytorch.core.tensor import Tensor

X = np.concatenate([np.linspace(-40, 40, 161), [0.0, 1e-8, -1e-8, 300.0, -300.0]])


def gelu(x: Array) -> Array:
    """tanh form of arXiv:1606.08415, as written there."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


CLOSED_FORMS: list[tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = [
    (lambda x: -x, lambda x: 0 - x),
    (lambda x: apply(ops.absolute, x), lambda x: np.sqrt(x * x)),
    (activations.Tanh(), lambda x: 2 * scipy.special.expit(2 * x) - 1),
    (activations.Sigmoid(), scipy.special.expit),
    (activations.ReLU(), lambda x: (x + np.abs(x)) / 2),
    (activations.LeakyReLU(), lambda x: np.where(x > 0, x, 0.01 * x)),
    (activations.LeakyReLU(0.3), lambda x: np.where(x > 0, x, 0.3 * x)),
    (activations.SiLU(), lambda x: x * scipy.special.expit(x)),
    (activations.GELU(), gelu),
    (activations.Softmax(), scipy.special.softmax),
    (lambda x: x**2, lambda x: x * x),
    (lambda x: x**0, np.ones_like),
    (lambda x: x.astype(np.float64), np.copy),
]


@pytest.mark.parametrize(("function", "expected"), CLOSED_FORMS, ids=lambda value: repr(value)[:20])
def test_values_are_those_of_the_closed_form(function: Any, expected: Callable[[Array], Array]) -> None:
    # The sigmoid is exact to rounding of 1, not of itself: (1 + tanh) / 2 cancels far below 0.
    rounding = 1e-15 * (np.abs(X) if isinstance(function, activations.SiLU) else 1)
    error = np.abs(function(Tensor(X)).data - expected(X))
    assert (error <= 1e-13 * np.abs(expected(X)) + rounding).all()


def test_exp_log_sqrt_and_fractional_powers() -> None:
    x = np.linspace(0.01, 30, 50)
    made = [Tensor(x).exp(), Tensor(x).log(), Tensor(x).sqrt(), Tensor(x) ** 1.5]
    expected = [[math.exp(value), math.log(value), math.sqrt(value), math.pow(value, 1.5)] for value in x]
    np.testing.assert_allclose([each.data for each in made], np.transpose(expected), rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("op", [ops.sigmoid, ops.tanh, ops.silu, ops.gelu, ops.relu])
def test_large_float32_inputs_neither_warn_nor_break(op: Any) -> None:
    x = Tensor(np.array([-1e4, -100, 0, 100, 1e4], np.float32), requires_grad=True)
    output = apply(op, x)
    output.backward(np.ones(5))
    assert np.isfinite([output.data, gradient_of(x)]).all()


@pytest.mark.parametrize("size", [BLOCK, 2 * BLOCK + 5])
def test_gelu_in_blocks_covers_every_element(size: int) -> None:
    values = np.random.default_rng(0).normal(size=size)
    x = Tensor(values, requires_grad=True)
    output = apply(ops.gelu, x)
    output.backward(np.ones(size))
    np.testing.assert_allclose(output.data, gelu(values), rtol=1e-12, atol=1e-15)
    step = 1e-5
    slope = (gelu(values + step) - gelu(values - step)) / (2 * step)
    np.testing.assert_allclose(gradient_of(x), slope, atol=1e-8)


def test_slopes_at_the_kinks() -> None:
    """0 at 0 for ReLU and |x|, the lower slope for the leaky one, and halves where a maximum is a tie."""
    for op, params, expected in (
        (ops.relu, {}, 0),
        (ops.absolute, {}, 0),
        (ops.leaky_relu, {"slope": 0.25}, 0.25),
        (ops.power, {"exponent": 0}, 0),
        (ops.power, {"exponent": 1}, 1),
        (ops.power, {"exponent": 2}, 0),
    ):
        x = Tensor(np.zeros(2), requires_grad=True)
        apply(op, x, **params).backward(np.ones(2))
        np.testing.assert_array_equal(x.grad, [expected, expected])
    a, b = (Tensor(np.ones(2), requires_grad=True) for _ in range(2))
    apply(ops.maximum, a, b).backward(np.ones(2))
    np.testing.assert_array_equal([a.grad, b.grad], np.full((2, 2), 0.5))


@pytest.mark.parametrize("integer", [np.int8, np.int32, np.int64])
def test_integers_keep_their_type_where_the_result_is_whole(integer: Any) -> None:
    x = Tensor(np.array([-3, 0, 5], integer))
    for made in (x + x, x - 1, x * 2, -x, apply(ops.relu, x), x**2, apply(ops.maximum, x, 1), apply(ops.absolute, x)):
        assert made.dtype == integer
    np.testing.assert_array_equal(apply(ops.relu, x).data, [0, 0, 5])
    np.testing.assert_array_equal((x * 2).data, [-6, 0, 10])
    np.testing.assert_allclose((x / 2).data, [-1.5, 0, 2.5])
    np.testing.assert_allclose(apply(ops.leaky_relu, x, slope=0.1).data, [-0.3, 0, 5])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("number", [2.0, np.float64(2), np.int64(2)])
def test_numbers_of_python_and_numpy_leave_the_dtype(number: Any, dtype: Any) -> None:
    x = Tensor(np.array([1.0, 2.0], dtype))
    operators = [x + number, number - x, x * number, number / x, x**number, x / np.sqrt(64)]
    applied = [
        apply(ops.maximum, x, number),
        apply(ops.where, x > 1, x, number),
        activations.LeakyReLU(np.float64(0.1))(x),
    ]
    assert {made.dtype for made in operators + applied} == {np.dtype(dtype)}
    np.testing.assert_array_equal([made.data for made in operators[1:4]], [[1, 0], [2, 4], [2, 1]])


def test_where_takes_any_condition_that_is_true_or_false() -> None:
    a, b = (Tensor(np.array([1.0, 2.0]), requires_grad=True) for _ in range(2))
    output = apply(ops.where, np.array([0, 7]), a, b * 10)
    np.testing.assert_array_equal(output.data, [10, 2])
    output.backward(np.ones(2))
    np.testing.assert_array_equal(a.grad, [0, 1])
    np.testing.assert_array_equal(b.grad, [10, 0])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3),
    op=st.sampled_from([ops.add, ops.subtract, ops.multiply, ops.divide]),
)
def test_broadcast_gradients(shapes: Any, op: Any) -> None:
    generator = np.random.default_rng(2)
    first, second = shapes.input_shapes
    a = Tensor(generator.normal(size=first), requires_grad=True)
    b = Tensor(generator.uniform(0.5, 2, second), requires_grad=True)
    reference = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}[op.name]
    np.testing.assert_array_equal(apply(op, a, b).data, reference(a.data, b.data))
    check_gradients(lambda *both: apply(op, *both), a, b)
