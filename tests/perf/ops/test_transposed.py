"""Transposed convolution is the adjoint of the convolution, and its gradients are right."""

from typing import Any

import numpy as np
import pytest

from tests.core.gradients import check_gradients
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.ops.transposed import conv2d_transposed

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
