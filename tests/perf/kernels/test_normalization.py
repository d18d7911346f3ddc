"""Batch normalization's kernel against the op's reference in float64, which is held against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch.core import ops
from tinytorch.core.op import Array
from tinytorch.perf.kernels import normalization
from tinytorch.perf.kernels.normalization import _BATCH_NORM as IMPLEMENTATIONS
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.kernels.runtime.vectors import compiled

KERNEL, REFERENCE = IMPLEMENTATIONS[ops.batch_norm], ops.batch_norm.reference


def draw(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(1, 2, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (2, 5, 3, 4), (64, 33, 5, 4), (3, 1, 7, 7)])
@pytest.mark.parametrize("layout", ["rows", "images", "strided"])
@pytest.mark.parametrize("owned", [False, True])
def test_results_gradients_and_statistics_are_those_of_float64(
    shape: tuple[int, ...], layout: str, owned: bool
) -> None:
    x, gradient = draw(*shape), draw(*shape, seed=1)
    if layout == "images":
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
        gradient = np.ascontiguousarray(gradient.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    elif layout == "strided":
        x = np.repeat(x, 2, axis=3)[..., ::2]
    weight, bias = draw(shape[1], seed=2), draw(shape[1], seed=3)
    kept = x.copy(), gradient.copy()
    mine: list[Array] = []
    exact: list[Array] = []
    wide = [array.astype(np.float64) for array in (x, weight, bias, gradient)]
    output, saved = KERNEL.forward(True, x, weight, bias, epsilon=1e-5, statistics=mine)
    wanted, exact_saved = REFERENCE.forward(True, *wide[:3], epsilon=1e-5, statistics=exact)
    downs = KERNEL.backward(gradient.copy(order="K") if owned else gradient, saved, (True, True, True), owned)
    exact_downs = REFERENCE.backward(wide[3], exact_saved, (True, True, True), False)
    assert np.array_equal(x, kept[0])
    assert np.array_equal(gradient, kept[1])
    for found, right in zip([output, *mine, *downs], [wanted, *exact, *exact_downs], strict=True):
        assert found is not None
        assert right is not None
        assert found.dtype == np.float32
        assert found.shape == right.shape
        np.testing.assert_allclose(found, right, rtol=0, atol=3e-6 * max(1, float(np.abs(right).max())))


def test_many_rows_far_from_zero_keep_their_variance() -> None:
    x = (draw(100, 2, 20, 20) + 300).astype(np.float32)
    statistics: list[Array] = []
    KERNEL.forward(False, x, np.ones(2, np.float32), np.zeros(2, np.float32), epsilon=0.0, statistics=statistics)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(statistics[0], wide.mean(axis=(0, 2, 3)), rtol=1e-6)
    np.testing.assert_allclose(statistics[1], wide.var(axis=(0, 2, 3), ddof=1), rtol=1e-4)


@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_what_is_not_finite_spoils_its_channel_alone(odd: float) -> None:
    x, one = draw(4, 3, 2, 2), np.ones(3, np.float32)
    x[1, 1, 0, 1] = odd
    with np.errstate(all="ignore"):
        found, _ = KERNEL.forward(False, x, one, one, epsilon=1e-5)
        wanted, _ = REFERENCE.forward(False, x, one, one, epsilon=1e-5)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_given_statistics_other_dtypes_and_bad_input_are_the_references() -> None:
    x, one = draw(4, 3, 2, 2), np.ones(3, np.float32)
    given = (one, one, one, one)
    output, saved = KERNEL.forward(True, x, *given, epsilon=1e-5)
    assert np.array_equal(output, REFERENCE.forward(False, x, *given, epsilon=1e-5)[0])
    assert KERNEL.backward(x, saved, (True, True, True, False, False), False)[0] is not None
    wide = x.astype(np.float64)
    found, saved = KERNEL.forward(True, wide, one.astype(np.float64), one.astype(np.float64), epsilon=1e-5)
    assert found.dtype == np.float64
    assert KERNEL.backward(wide, saved, (True, False, False), False)[1] is None
    with pytest.raises(ValueError, match="batch_norm needs an input of shape"):
        KERNEL.forward(False, x, one[:2], one[:2], epsilon=1e-5)
    with pytest.raises(ValueError, match="at least one element"):
        KERNEL.forward(False, x[:0], one, one, epsilon=1e-5)


def test_kernels_are_made_of_packed_instructions() -> None:
    rows, flat, wide = "float32[:,::1]", "float32[::1]", "float64[:,::1]"
    forward = compiled(
        normalization.normalize.py_func, f"void({rows}, {flat}, {flat}, float64, {rows}, {rows}, {wide})"
    )
    backward = compiled(
        normalization.normalize_backward.py_func, f"void({rows}, {rows}, {flat}, {rows}, {rows}, {wide})"
    )
    for found in (evidence(forward), evidence(backward)):
        assert sum(count for kind, count in found.items() if not kind.startswith(("vmov", "mov"))) >= 8, found
