"""Every way to multiply gives the product, says what it refuses, and is measured against the peak it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import product_studies, products
from tinytorch.perf.acceleration.product_studies import STEPS, Step, matmul_ladder, vectorization_scaling


def drawn(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (10, 6, 21)])
def test_each_step_multiplies(step: Step, shape: tuple[int, int, int]) -> None:
    a, b = drawn(shape[0], shape[1]), drawn(shape[1], shape[2])
    found = step.function(a, b)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=1e-5)


def test_prepacked_tiles_serve_many_calls() -> None:
    b = drawn(9, 5)
    multiply = products.prepacked_tiles(b)
    expected = drawn(3, 9).astype(np.float64) @ b
    b[...] = 0
    for _ in range(2):
        np.testing.assert_allclose(multiply(drawn(3, 9)), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("function", [products.vectorized_matmul, products.tiled_matmul, products.compiled_loops])
@pytest.mark.parametrize(("a", "b", "said"), [((3,), (3, 2), "2D+"), ((2, 3), (4, 5), "shape mismatch")])
def test_errors_name_both_shapes(function: Any, a: tuple[int, ...], b: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("+", r"\+")) as caught:
        function(np.zeros(a, np.float32), np.zeros(b, np.float32))
    assert str(a) in str(caught.value)
    assert str(b) in str(caught.value)


def test_vectorized_matmul_broadcasts_and_keeps_tensors() -> None:
    a, b = drawn(4, 1, 2, 3), drawn(5, 3, 6)
    assert np.array_equal(products.vectorized_matmul(a, b), np.matmul(a, b))
    x = Tensor(drawn(2, 3), requires_grad=True)
    found = products.vectorized_matmul(x, drawn(3, 4))
    assert isinstance(found, Tensor)
    found.sum().backward()
    assert x.grad is not None
    assert np.allclose(x.grad, drawn(3, 4).sum(axis=1))
    assert isinstance(products.vectorized_matmul(drawn(2, 3), Tensor(drawn(3, 4))), Tensor)


@pytest.mark.parametrize("tile", [1, 4, 64])
def test_any_tile_gives_the_product(tile: int) -> None:
    a, b = drawn(10, 9), drawn(9, 11)
    np.testing.assert_allclose(products.tiled_matmul(a, b, tile), a @ b, rtol=0, atol=1e-5)
    np.testing.assert_allclose(products.compiled_tiles(a, b, tile), a @ b, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="tile must be at least 1"):
        products.tiled_matmul(a, b, 0)


def test_the_ladder_holds_rates_against_the_peak_it_is_given() -> None:
    made = made_ceilings()
    steps = (Step("narrow", products.python_loops, "teaching", 8), Step("wide", products.blas, "real", 64))
    narrow, wide = matmul_ladder(16, steps=steps, made=made, repeats=6, at_most_seconds=0.05)
    assert (narrow.width, wide.width) == (8, 16)
    assert wide.flops == 2 * 16**3
    assert wide.rate.samples == pytest.approx([wide.flops / seconds for seconds in wide.seconds.samples])
    assert wide.of_peak.samples == pytest.approx([rate / made.fp32_peak.median for rate in wide.rate.samples])
    assert wide.seconds.unit == "s"
    assert all(step.reason and step.widest >= 64 for step in STEPS)


def test_a_wrong_step_is_not_timed() -> None:
    wrong = Step("wrong", lambda a, b: a + b, "teaching", 64)
    with pytest.raises(ArithmeticError, match="wrong is wrong"):
        matmul_ladder(8, steps=(wrong,), made=made_ceilings())
    with pytest.raises(ValueError, match="width must be at least 1"):
        product_studies.square_matrices(0)


def test_scaling_times_both_ways_at_each_size() -> None:
    found = vectorization_scaling((1, 5), repeats=6)
    assert [*found] == [1, 5]
    assert all({*each} == {"loop", "vectorized"} for each in found.values())
    with pytest.raises(ValueError, match="sizes must be at least 1"):
        vectorization_scaling((0,))
