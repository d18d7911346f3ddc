"""Each fused kernel against float64, on any layout, with NaN and infinity, on one thread and two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core import ops
from tinytorch.core.op import Array, Op
from tinytorch.perf.kernels import normalization, optimizers, pointwise, softmax
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.kernels.runtime.evidence import evidence
from tinytorch.perf.kernels.runtime.vectors import compiled
from tinytorch.perf.ops import fused

#: Float32 rounds to half of this; the bounds below are multiples of it.
EPSILON = float(np.finfo(np.float32).eps)
ACTIVATIONS = (ops.gelu, ops.silu, ops.sigmoid, ops.tanh, ops.relu)
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "contiguous": lambda x: x,
    "reversed axes": lambda x: np.asfortranarray(x),
    "channels last": lambda x: (
        np.ascontiguousarray(np.moveaxis(x, 1, -1)).swapaxes(1, -1).swapaxes(1, 2) if x.ndim > 2 else x
    ),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}


def wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype == np.float32 else value


def draw(*shape: int, seed: int = 0) -> Array:
    return np.asarray(np.random.default_rng(seed).normal(0, 2, shape), np.float32)


def error(op: Op, *inputs: Array, **params: Any) -> list[float]:
    """Return the largest error of the output and of each gradient, beside the largest number of each."""
    kernel, needs = kernel_implementations()[op], tuple(value.dtype.kind == "f" for value in inputs)
    before = [value.copy() for value in inputs]
    with np.errstate(all="ignore"):
        output, saved = kernel.forward(True, *inputs, **params)
        exact, exact_saved = op.reference.forward(True, *map(wide, inputs), **params)
        gradient = np.asarray(draw(*np.shape(output), seed=1))
        kept = gradient.copy()
        downs = kernel.backward(gradient, saved, needs, False)
        exact_downs = op.reference.backward(wide(gradient), exact_saved, needs, False)
    assert np.asarray(output).dtype == np.float32
    assert np.array_equal(gradient, kept)
    assert all(np.array_equal(value, old) for value, old in zip(inputs, before, strict=True))
    pairs = [(output, exact), *zip(downs, exact_downs, strict=True)]
    found = []
    for mine, right in pairs:
        if right is None:
            continue
        assert mine is not None
        assert np.shape(mine) == np.shape(right)
        size = np.max(np.abs(right), initial=0.0)
        found.append(float(np.max(np.abs(mine - right), initial=0.0) / size) if size else 0.0)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.name)
def test_activations_match_float64_in_any_layout(op: Op, layout: str) -> None:
    for shape in ((33, 50), (2, 3, 5, 7), (1,), (0, 4)):
        assert max(error(op, LAYOUTS[layout](draw(*shape)))) < 4 * EPSILON


def test_gelu_keeps_its_relative_error_in_the_negative_tail() -> None:
    x = np.linspace(-8, 8, 4001).astype(np.float32)
    wanted = wide(x)
    u = np.sqrt(2 / np.pi) * (wanted + 0.044715 * wanted**3)
    exact = wanted / (1 + np.exp(-2 * u))
    found = kernel_implementations()[ops.gelu].forward(False, x)[0]
    bound = (2 + np.abs(2 * u)) * EPSILON * np.abs(exact)
    assert np.all(np.abs(found - exact) <= bound)


@pytest.mark.parametrize("op", ACTIVATIONS, ids=lambda op: op.name)
def test_activations_pass_on_nan_and_infinity_as_numpy_does(op: Op) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 100, -100, 1e-40], np.float32)
    with np.errstate(all="ignore"):
        found = kernel_implementations()[op].forward(False, x)[0]
        exact = op.reference.forward(False, x)[0]
    np.testing.assert_allclose(found, exact, rtol=4 * EPSILON, atol=1e-37)


@pytest.mark.parametrize("shape", [(30, 50), (2, 3, 768), (5, 1), (0, 7), (70, 17), (3, 5000)])
def test_rows_match_float64(shape: tuple[int, ...]) -> None:
    width = shape[-1]
    assert max(error(ops.softmax, draw(*shape))) < 8 * EPSILON
    weight, bias = draw(width, seed=2), draw(width, seed=3)
    assert max(error(ops.layer_norm, draw(*shape), weight, bias, epsilon=1e-5)) < 8 * EPSILON
    assert max(error(fused.bias_gelu, draw(*shape), bias)) < 8 * EPSILON
    if shape[0]:
        labels = np.random.default_rng(4).integers(0, width, shape[:-1])
        assert max(error(ops.cross_entropy, draw(*shape), labels)) < 8 * EPSILON


def test_rows_of_other_layouts_and_axes() -> None:
    strided = draw(20, 60)[::2, ::3]
    assert max(error(ops.softmax, strided)) < 8 * EPSILON
    assert max(error(ops.softmax, draw(4, 5, 6), axis=1)) < 8 * EPSILON
    assert max(error(ops.layer_norm, strided, draw(20), draw(20), epsilon=1e-5)) < 8 * EPSILON
    labels = np.array([0, 5, 3, 3, 19, 3, 1, 2, 3, 4])
    assert max(error(ops.cross_entropy, strided, labels, ignore_index=3)) < 8 * EPSILON


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (7, 7), (3, 20), (1, 9)])
def test_causal_softmax_sees_only_what_came_before(queries: int, keys: int) -> None:
    assert max(error(fused.causal_softmax, draw(2, 3, queries, keys))) < 8 * EPSILON
    weights = kernel_implementations()[fused.causal_softmax].forward(False, draw(queries, keys))[0]
    assert not np.triu(weights, keys - queries + 1).any()


@given(st.integers(0, 19), st.sampled_from([np.nan, -np.nan, np.inf, -np.inf]))
@settings(deadline=None, max_examples=30)
def test_one_bad_number_spoils_its_row_alone(place: int, value: float) -> None:
    x = draw(3, 20)
    x[1, place] = value
    ones = np.ones(20, np.float32)
    for op, inputs, params in ((ops.softmax, (), {}), (ops.layer_norm, (ones, ones), {"epsilon": 1e-5})):
        with np.errstate(all="ignore"):
            found = kernel_implementations()[op].forward(False, x, *inputs, **params)[0]
            exact = op.reference.forward(False, x, *inputs, **params)[0]
        np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


def test_other_dtypes_run_in_numpy_and_bad_input_is_refused() -> None:
    x = wide(draw(4, 6))
    for op in (ops.gelu, ops.softmax):
        kernel = kernel_implementations()[op]
        output, saved = kernel.forward(True, x)
        assert np.array_equal(output, op.reference.forward(False, x)[0])
        (down,) = kernel.backward(np.ones_like(x), saved, (True,), False)
        assert down is not None
        assert down.dtype == np.float64
    with pytest.raises(ValueError, match="last axis of 5"):
        kernel_implementations()[ops.layer_norm].forward(False, draw(4, 6), draw(5), draw(5), epsilon=1e-5)
    with pytest.raises(ValueError, match=r"classes in 0\.\.5"):
        kernel_implementations()[ops.cross_entropy].forward(False, draw(4, 6), np.array([0, 1, 2, 6]))
    with pytest.raises(ValueError, match="target must be integers"):
        kernel_implementations()[ops.cross_entropy].forward(False, draw(4, 6), draw(4))


def splitmix64(seed: int, index: int) -> int:
    """Return a number of the sequence as its authors' paper gives it, in whole numbers of any size."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


@given(seed=st.integers(0, 2**64 - 1), index=st.integers(0, 2**40))
@settings(deadline=None)
def test_dropout_s_numbers_are_splitmix64_s_with_products_of_64_bits_and_of_32(seed: int, index: int) -> None:
    expected = splitmix64(seed, index)
    assert pointwise.random_bits(np.uint64(seed), np.uint64(index)) == expected
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    assert pointwise.upper_bits(np.uint64(z)) == expected >> 32


@pytest.mark.parametrize("by_halves", [True, False])
def test_dropout_drops_the_same_with_either_product(by_halves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "BY_HALVES", by_halves)
    share = compiled(pointwise.dropout_share.py_func, f"void({SHARES['dropout'][1]})")
    x, output = np.ones(1000, np.float32), np.full(1000, np.nan, np.float32)
    share(3, 990, x, output, np.uint64(2**63 + 5), np.uint64(2**30), np.float32(1.5))
    kept = [splitmix64(2**63 + 5, index) >= 2**62 for index in range(3, 990)]
    assert np.array_equal(output[3:990], np.where(kept, 1.5, 0))
    assert np.isnan(output[:3]).all()
    assert np.isnan(output[990:]).all()


def test_dropout_drops_its_share_scales_the_rest_and_remembers_for_backward() -> None:
    kernel = kernel_implementations()[ops.dropout]
    x = np.ones((400, 500), np.float32)
    output, saved = kernel.forward(True, x, probability=0.25, generator=np.random.default_rng(0))
    dropped = float(np.mean(output == 0))
    assert abs(dropped - 0.25) < 5 * np.sqrt(0.25 * 0.75 / x.size)
    assert set(np.unique(output)) == {0.0, np.float32(1 / 0.75)}
    (down,) = kernel.backward(x, saved, (True,), False)
    assert down is not None
    assert np.array_equal(down, output)
    again = kernel.forward(False, x, probability=0.25, generator=np.random.default_rng(0))[0]
    other = kernel.forward(False, x, probability=0.25, generator=np.random.default_rng(1))[0]
    assert np.array_equal(again, output)
    assert not np.array_equal(other, output)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = draw(300, 70), draw(70, seed=2)
    calls: list[tuple[Op, tuple[Array, ...], dict[str, Any]]] = [
        (ops.gelu, (x,), {}),
        (ops.softmax, (x,), {}),
        (ops.layer_norm, (x, weight, weight), {"epsilon": 1e-5}),
        (ops.cross_entropy, (x, np.arange(300) % 70), {}),
        (fused.bias_gelu, (x, weight), {}),
    ]
    monkeypatch.setattr(threads, "WORTH_A_THREAD_NS", 1)
    for op, inputs, params in calls:
        results = []
        for count in (1, 2, 3):
            monkeypatch.setattr(threads, "limit", lambda count=count: count)
            output, saved = kernel_implementations()[op].forward(True, *inputs, **params)
            gradient = np.asarray(draw(*np.shape(output), seed=1))
            needs = tuple(value.dtype.kind == "f" for value in inputs)
            downs = kernel_implementations()[op].backward(gradient, saved, needs, False)
            results.append([output, *(down for down in downs if down is not None)])
        for other in results[1:]:
            assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_an_error_on_a_thread_arrives() -> None:
    def fail(start: int, stop: int) -> None:
        if start:
            raise ValueError("this share fails")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "limit", lambda: 2)
        with pytest.raises(ValueError, match="this share fails"):
            threads.split(fail, 10, 1e9)


SPAN, FLAT, ROWS = "int64, int64", "float32[::1]", "float32[:,::1]"
SHARES: dict[str, tuple[Any, str]] = {
    "gelu": (pointwise.gelu_share, f"{SPAN}, {FLAT}, {FLAT}"),
    "gelu backward": (pointwise.gelu_backward_share, f"{SPAN}, {FLAT}, {FLAT}, {FLAT}"),
    "softmax": (softmax.softmax_row, f"{FLAT}, {FLAT}"),
    "layer norm": (normalization.layer_norm_share, f"{SPAN}, {ROWS}, {FLAT}, {FLAT}, float32, {ROWS}, {ROWS}"),
    "cross-entropy": (softmax.cross_entropy_share, f"{SPAN}, {ROWS}, int64[::1], float64[::1], {ROWS}"),
    "bias gelu": (pointwise.bias_gelu_share, f"{SPAN}, {ROWS}, {FLAT}, {ROWS}"),
    "dropout": (pointwise.dropout_share, f"{SPAN}, {FLAT}, {FLAT}, uint64, uint64, float32"),
    "adam": (
        optimizers.adam_line,
        f"{FLAT}, {FLAT}, {FLAT}, {FLAT}, {FLAT}",
    ),
}


@pytest.mark.parametrize("name", SHARES)
def test_kernels_are_made_of_packed_instructions(name: str) -> None:
    share, types = SHARES[name]
    found = evidence(compiled(share.py_func, f"void({types})"))
    # A loop of SVE's takes one vector at a time, of whatever length; others take several.
    least = 4 if any(kind.endswith(" z") for kind in found) else 8
    assert sum(count for kind, count in found.items() if not kind.startswith(("vmov", "mov"))) >= least, found
