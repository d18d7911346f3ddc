"""Ops that pick, repeat or surround elements: against NumPy's own indexing, their gradients too."""

from typing import Any

import numpy as np
import pytest

from tests.core.gradients import check_gradients
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Op
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.ops import gather_pad

X = np.random.default_rng(0).normal(size=(3, 4))


@pytest.mark.parametrize(
    ("op", "operands", "params"),
    [
        (gather_pad.gather, (np.array([[0, 3], [3, -1]]),), {"axis": 1}),
        (gather_pad.gather, (np.array([2, 2, 0]),), {"axis": 0}),
        (gather_pad.gather, (np.array(1),), {"axis": -1}),
        (gather_pad.gather_along, (np.array([[0, 3], [1, 1]]),), {"axis": 1}),
        (gather_pad.gather_along, (np.array([[2, 0, 0, -1]]),), {"axis": 0}),
        (gather_pad.broadcast, (), {"shape": (2, 3, 4)}),
        (gather_pad.tile, (), {"repeats": (2, 3)}),
        (gather_pad.pad, (), {"widths": ((1, 0), (2, 3)), "mode": "constant", "value": 0.5}),
        (gather_pad.pad, (), {"widths": ((1, 0), (2, 3)), "mode": "reflect", "value": 0.0}),
        (gather_pad.pad, (), {"widths": ((1, 2), (0, 1)), "mode": "edge", "value": 0.0}),
        (gather_pad.blend, (np.array([[1, 0.5], [0, 0.5], [0, 0]]),), {"axis": 0}),
    ],
)
def test_gradients(op: Op, operands: tuple[Any, ...], params: dict[str, Any]) -> None:
    check_gradients(lambda x: apply(op, x, *operands, **params), Tensor(X.copy(), requires_grad=True))


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
