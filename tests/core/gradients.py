"""The one check of gradients: a backward against central differences, in float64."""

from collections.abc import Callable

import numpy as np

from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor

#: Half the distance of the two points of a difference: its cut-off error is about STEP**2, its rounding 1e-16 / STEP.
STEP = 1e-5
#: Largest error of a gradient's element, relative to the gradient's largest element (or to 1, if that is smaller).
TOLERANCE = 1e-7


def check_gradients(function: Callable[..., Tensor], *tensors: Tensor) -> None:
    """Assert that the backward of ``function`` agrees with central differences for every tensor that requires one.

    The output is weighted by random numbers, so that errors of two of its elements cannot cancel. Tensors are
    of float64. Their data may be strided; it must not be changed by forward or backward.
    """
    before = [tensor.data.copy() for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    output = function(*tensors)
    weights = np.random.default_rng(20).normal(size=output.shape)
    output.backward(weights)
    assert output.dtype == np.float64
    for tensor, kept in zip(tensors, before, strict=True):
        np.testing.assert_array_equal(tensor.data, kept, err_msg="forward or backward changed an input")
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    assert wanted, "no tensor requires a gradient"
    for index, tensor in enumerate(wanted):
        assert tensor.grad is not None
        assert tensor.grad.shape == tensor.shape
        assert tensor.grad.dtype == np.float64
        expected = _differences(function, tensors, tensor, weights)
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(tensor.grad, expected, rtol=0, atol=TOLERANCE * scale, err_msg=f"tensor {index}")


def gradient_of(tensor: Tensor) -> Array:
    """Return the gradient that a backward left in ``tensor``; AssertionError if there is none."""
    assert tensor.grad is not None, "backward left no gradient"
    return tensor.grad


def _differences(function: Callable[..., Tensor], tensors: tuple[Tensor, ...], moved: Tensor, weights: Array) -> Array:
    """Return (f(x + STEP) - f(x - STEP)) / (2 STEP) for each element x of ``moved``."""
    slopes = np.zeros(moved.shape)
    for index in np.ndindex(moved.shape):
        kept = moved.data[index]
        moved.data[index] = kept + STEP
        above = function(*tensors).data.copy()  # it may be a view of the data that moves
        moved.data[index] = kept - STEP
        below = function(*tensors).data.copy()
        moved.data[index] = kept
        slopes[index] = np.sum((above - below) * weights) / (2 * STEP)
    return slopes
