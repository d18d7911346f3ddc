"""The convolution kernels against the op's reference in float64, which is itself held against SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cases import convolution
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, implementations, no_grad
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels.convolution import IMPLEMENTATIONS
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.measuring import blas_threads

#: Of float32 sums over at most some hundreds of products, relative to the largest element.
TOLERANCE = 4e-6


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def run(arrays: list[Array], chosen: Any, **params: Any) -> list[Array]:
    """Return the output and all gradients, for a gradient of the output that is made from a seed."""
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    with implementations(chosen):
        made = apply(ops.conv2d, *tensors, **params)
    made.backward(np.random.default_rng(7).standard_normal(made.shape).astype(made.dtype))
    return [made.data, *[np.asarray(tensor.grad) for tensor in tensors]]


def assert_near(arrays: list[Array], **params: Any) -> None:
    before = [array.copy() for array in arrays]
    found = run(arrays, IMPLEMENTATIONS, **params)
    exact = run_exact([array.astype(np.float64) for array in arrays], **params)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == np.float32
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=TOLERANCE * max(1, float(np.abs(other).max(initial=0))))
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def run_exact(arrays: list[Array], **params: Any) -> list[Array]:
    """Return what `run` returns, in float64, for the same gradient rounded to float32."""
    tensors = [Tensor(array, requires_grad=True) for array in arrays]
    made = apply(ops.conv2d, *tensors, **params)
    made.backward(np.random.default_rng(7).standard_normal(made.shape).astype(np.float32).astype(np.float64))
    return [made.data, *[np.asarray(tensor.grad) for tensor in tensors]]


@settings(max_examples=80, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_geometry_and_its_gradients(data: Any) -> None:
    pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
    kernel, stride, dilation = data.draw(pairs), data.draw(pairs), data.draw(pairs)
    padding = data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    groups, each, share = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5))
    least = [max(1, dilation[i] * (kernel[i] - 1) + 1 - 2 * padding[i]) for i in range(2)]
    size = tuple(length + data.draw(st.integers(0, 5)) for length in least)
    images = data.draw(st.integers(1, 3))
    arrays = [drawn(images, groups * each, *size), drawn(groups * share, each, *kernel, seed=1)]
    if data.draw(st.booleans()):
        arrays.append(drawn(groups * share, seed=2))
    assert_near(arrays, stride=stride, padding=padding, dilation=dilation, groups=groups)


@pytest.mark.parametrize(("stride", "dilation"), [((1, 1), (1, 1)), ((2, 1), (1, 1)), ((1, 2), (2, 1))])
@pytest.mark.parametrize("channels", [1, 3, 16, 45])
def test_depthwise_convolutions(channels: int, stride: tuple[int, int], dilation: tuple[int, int]) -> None:
    """Each channel from itself alone: forward, and both gradients."""
    arrays = [drawn(3, channels, 11, 9), drawn(channels, 1, 5, 3, seed=1), drawn(channels, seed=2)]
    assert_near(arrays, **convolution(padding=(2, 1), stride=stride, dilation=dilation, groups=channels))


@pytest.mark.parametrize(("channels", "out", "groups"), [(20, 50, 1), (64, 32, 2), (1, 33, 1)])
def test_more_channels_than_a_vector_and_more_images_than_a_chunk(channels: int, out: int, groups: int) -> None:
    arrays = [drawn(9, channels, 30, 30), drawn(out, channels // groups, 3, 3, seed=1), drawn(out, seed=2)]
    assert_near(arrays, **convolution(padding=(1, 1), groups=groups))


def test_other_memory_orders_are_read_rightly() -> None:
    last = drawn(2, 6, 7, 5).transpose(0, 3, 1, 2)
    assert_near([last, drawn(3, 3, 5, 4, seed=1).transpose(3, 2, 0, 1)], **convolution())


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    arrays = [drawn(5, 8, 9, 9), drawn(16, 8, 3, 3, seed=1), drawn(16, seed=2)]
    results = []
    for count in (1, 2):
        with blas_threads(count):
            results.append(run(arrays, IMPLEMENTATIONS, **convolution(padding=(1, 1))))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
@pytest.mark.parametrize("operand", [0, 1, 2])
def test_what_is_not_finite_spreads_as_in_numpy(operand: int, odd: float) -> None:
    arrays = [drawn(2, 3, 6, 6), drawn(4, 3, 3, 3, seed=1), drawn(4, seed=2)]
    arrays[operand].reshape(-1)[1] = odd
    params = convolution(padding=(1, 1))
    with np.errstate(invalid="ignore"):
        exact = run_exact([array.astype(np.float64) for array in arrays], **params)
        found = run(arrays, IMPLEMENTATIONS, **params)
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
        np.testing.assert_array_equal(np.isinf(one), np.isinf(other))


def test_float64_and_nothing_are_the_references() -> None:
    wide = [drawn(2, 3, 5, 5).astype(np.float64), drawn(4, 3, 3, 3, seed=1).astype(np.float64)]
    for one, other in zip(run(wide, IMPLEMENTATIONS, **convolution()), run(wide, {}, **convolution()), strict=True):
        np.testing.assert_array_equal(one, other)
    with implementations(IMPLEMENTATIONS), no_grad():
        made = apply(ops.conv2d, Tensor(drawn(0, 3, 5, 5)), Tensor(drawn(4, 3, 3, 3)), **convolution())
    assert made.shape == (0, 4, 3, 3)


@pytest.mark.parametrize(
    ("x", "weight", "message"),
    [
        ((2, 3, 4, 4), (2, 2, 2, 2), r"shape \(N, 2, H, W\), not \(2, 3, 4, 4\)"),
        ((1, 2, 4, 2), (2, 2, 2, 3), r"a window of 3 \(dilation 1\) does not fit in 2 with padding 0"),
    ],
)
def test_shapes_that_do_not_fit_are_named(x: Any, weight: Any, message: str) -> None:
    with implementations(IMPLEMENTATIONS), pytest.raises(ValueError, match=message):
        apply(ops.conv2d, Tensor(drawn(*x)), Tensor(drawn(*weight)), **convolution())


def test_a_bias_of_another_length_is_refused() -> None:
    images, weight = Tensor(drawn(1, 2, 4, 4)), Tensor(drawn(5, 2, 2, 2))
    with implementations(IMPLEMENTATIONS), pytest.raises(ValueError, match="broadcast"):
        apply(ops.conv2d, images, weight, Tensor(drawn(4)), **convolution())
