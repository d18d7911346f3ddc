"""Ops of other frameworks' models: values against the standard library and NumPy's own indexing, and gradients."""

import math
from typing import Any

import numpy as np
import pytest

from tests.core.cases import check_gradients
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.ops import gather_pad, pointwise
from tinytorch.perf.ops.images import conv2d_transposed

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
        (gather_pad.gather, (X, np.array([[0, 3], [3, -1]])), {"axis": 1}),
        (gather_pad.gather, (X, np.array([2, 2, 0])), {"axis": 0}),
        (gather_pad.gather, (X, np.array(1)), {"axis": -1}),
        (gather_pad.gather_along, (X, np.array([[0, 3], [1, 1]])), {"axis": 1}),
        (gather_pad.gather_along, (X, np.array([[2, 0, 0, -1]])), {"axis": 0}),
        (gather_pad.broadcast, (X,), {"shape": (2, 3, 4)}),
        (gather_pad.tile, (X,), {"repeats": (2, 3)}),
        (gather_pad.pad, (X,), {"widths": ((1, 0), (2, 3)), "mode": "constant", "value": 0.5}),
        (gather_pad.pad, (X,), {"widths": ((1, 0), (2, 3)), "mode": "reflect", "value": 0.0}),
        (gather_pad.pad, (X,), {"widths": ((1, 2), (0, 1)), "mode": "edge", "value": 0.0}),
        (gather_pad.blend, (X, np.array([[1, 0.5], [0, 0.5], [0, 0]])), {"axis": 0}),
    ],
)
def test_gradients(op: Op, operands: tuple[Array, ...], params: dict[str, Any]) -> None:
    # Indices, and weights of an interpolation, are constant.
    is_constant = op in (gather_pad.gather, gather_pad.gather_along, gather_pad.blend)
    constant = operands[1:] if is_constant else ()
    tensors = (Tensor(each.copy(), requires_grad=True) for each in operands[: len(operands) - len(constant)])
    check_gradients(lambda *inputs: apply(op, *inputs, *constant, **params), *tensors)


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


def test_places_along_an_axis_are_as_many_as_are_asked_for() -> None:
    """Along other axes, too, fewer than there are: NumPy itself would refuse or repeat."""
    made = apply(gather_pad.gather_along, X, np.array([[3], [0]]), axis=1).data
    np.testing.assert_array_equal(made, [[X[0, 3]], [X[1, 0]]])


def test_the_first_of_equals_is_first() -> None:
    x = np.array([2.0, 5.0, 5.0, 1.0])
    np.testing.assert_array_equal(apply(gather_pad.argsort, x, axis=0, largest=True).data, [1, 2, 0, 3])
    np.testing.assert_array_equal(apply(gather_pad.argsort, x, axis=0, largest=False).data, [3, 0, 1, 2])
    assert apply(gather_pad.argmax, x, axis=0).data == 1


def test_indices_have_no_gradient() -> None:
    with pytest.raises(TypeError, match="gradient"):
        apply(gather_pad.argmax, Tensor(X, requires_grad=True), axis=1).backward(np.ones(3))


def test_a_repeated_view_copies_nothing() -> None:
    with recording() as done:
        made = apply(gather_pad.broadcast, X, shape=(1000, 3, 4))
        apply(gather_pad.pad, X, widths=((1, 1), (0, 0)), mode="constant", value=0.0)
    assert np.shares_memory(made.data, X)
    assert [(event.traffic, event.elementwise) for event in done.profile.events] == [(0, 0), (8 * (12 + 20), 0)]


HOW: list[dict[str, Any]] = [
    {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1},
    {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2},
]


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([*shape]).normal(size=shape)


@pytest.mark.parametrize("how", HOW)
def test_it_is_the_adjoint_and_has_its_gradients(how: dict[str, Any]) -> None:
    """<conv(y), x> = <y, transposed(x)> for all y and x."""
    y, weight, bias = numbers(2, 4, 6, 7), numbers(6, 4 // how["groups"], 3, 2), numbers(4)
    made = apply(ops.conv2d, y, weight, **how).data
    x = numbers(*made.shape)
    back = apply(conv2d_transposed, x, weight, lengths=(6, 7), **how).data
    np.testing.assert_allclose((made * x).sum(), (y * back).sum())
    check_gradients(
        lambda *operands: apply(conv2d_transposed, *operands, lengths=(6, 7), **how),
        *(Tensor(each, requires_grad=True) for each in (x, weight, bias)),
    )


def test_products_are_counted_at_the_input() -> None:
    """Each of its elements meets the whole window: zeros between them are multiplied by nobody."""
    how = {**HOW[0], "stride": (2, 2), "lengths": (6, 4)}
    with recording() as done:
        apply(conv2d_transposed, numbers(2, 4, 3, 2), numbers(4, 3, 2, 2), **how)
    (event,) = done.profile.events
    assert event.macs == 2 * 4 * 3 * 2 * 3 * 2 * 2


def test_another_number_of_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="input"):
        apply(conv2d_transposed, numbers(2, 3, 3, 2), numbers(4, 3, 2, 2), lengths=(6, 4), **HOW[0])
