"""The pooling kernels against the ops' references in float64, which are held against windows cut out one by one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import types

from tinytorch.core import ops
from tinytorch.core.dispatch import apply, implementations
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.kernels import pooling
from tinytorch.perf.kernels.pooling import IMPLEMENTATIONS
from tinytorch.perf.kernels.runtime import threads, vectors
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.measuring import blas_threads

POOLS = [ops.max_pool2d, ops.avg_pool2d]


def run(op: Any, x: Array, chosen: Any, params: Any) -> tuple[Array, Array]:
    """Return output and gradient for whole numbers as the output's gradient, whose sums are exact."""
    tensor = Tensor(x, requires_grad=True)
    with implementations(chosen):
        made = apply(op, tensor, **params)
    made.backward(np.random.default_rng(5).integers(-9, 9, made.shape).astype(x.dtype))
    return made.data, np.asarray(tensor.grad)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), op=st.sampled_from(POOLS))
def test_windows_and_gradients_are_those_of_float64(data: Any, op: Any) -> None:
    kernel = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    stride = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3)))
    padding = tuple(data.draw(st.integers(0, length // 2)) for length in kernel)
    size = tuple(kernel[i] + data.draw(st.integers(0, 4)) for i in range(2))
    # Few different numbers, so that maxima are often equal and the first must be found.
    x = np.random.default_rng(data.draw(st.integers(0, 99))).integers(-3, 3, (2, 5, *size)).astype(np.float32)
    params = {"kernel": kernel, "stride": stride, "padding": padding}
    before = x.copy()
    found, exact = run(op, x, IMPLEMENTATIONS, params), run(op, x.astype(np.float64), {}, params)
    for one, other in zip(found, exact, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_spreads_as_in_numpy(op: Any, odd: float) -> None:
    for place in range(4):
        x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
        x[0, 0, place // 2, place % 2] = odd
        params = {"kernel": (2, 2), "stride": (1, 1), "padding": (0, 0)}
        for one, other in zip(run(op, x, IMPLEMENTATIONS, params), run(op, x, {}, params), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("op", POOLS)
def test_threads_change_nothing(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    x = np.random.default_rng(0).standard_normal((5, 3, 8, 8)).astype(np.float32)
    params = {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    results = []
    for count in (1, 2):
        with blas_threads(count):
            results.append(run(op, x, IMPLEMENTATIONS, params))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("op", POOLS)
@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4)])
def test_nothing_in_nothing_out(op: Any, shape: tuple[int, ...]) -> None:
    params = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}
    output, down = run(op, np.zeros(shape, np.float32), IMPLEMENTATIONS, params)
    assert output.shape == (*shape[:2], 2, 2)
    assert down.shape == shape


@pytest.mark.parametrize("op", POOLS)
def test_other_dtypes_and_larger_windows_are_the_references(op: Any) -> None:
    x = np.random.default_rng(0).standard_normal((1, 2, 20, 20))
    for array, length in ((x, 2), (x.astype(np.float32), 17)):
        params = {"kernel": (length, length), "stride": (1, 1), "padding": (0, 0)}
        for one, other in zip(run(op, array, IMPLEMENTATIONS, params), run(op, array, {}, params), strict=True):
            np.testing.assert_array_equal(one, other)


def test_windows_that_do_not_fit_are_named() -> None:
    x = Tensor(np.zeros((1, 1, 1, 4), np.float32))
    with implementations(IMPLEMENTATIONS), pytest.raises(ValueError, match="does not fit in 1"):
        apply(ops.max_pool2d, x, kernel=(2, 2), stride=(2, 2), padding=(0, 0))


def test_channels_are_taken_in_vectors() -> None:
    maps, size = types.float32[:, :, :, ::1], types.int64
    pair = types.UniTuple(size, 2)
    signature = types.void(size, size, maps, maps, pair, pair, pair)
    found = evidence(vectors.compiled(pooling.mean_images.py_func, signature))
    assert any(re.match("v?addps|fadd", name) for name in found)
