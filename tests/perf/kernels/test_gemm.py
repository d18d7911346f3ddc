"""Float products against float64: every edge of a tile, every layout, what follows the product, and few rows."""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit, types
from scipy.special import expit

from tests.perf.small_models import drawn
from tinytorch.core.op import Array
from tinytorch.perf.kernels.gemm import packed_matmul
from tinytorch.perf.kernels.gemm.packed_matmul import packed_product, product
from tinytorch.perf.kernels.gemm.packing import aligned_empty, pack, padded
from tinytorch.perf.kernels.gemm.product_tiles import ROWS, VECTORS, WIDTH
from tinytorch.perf.kernels.gemm.row_products import FAR_BYTES, affine, row_product
from tinytorch.perf.kernels.plan_ops import products
from tinytorch.perf.kernels.runtime.evidence import spills

EPSILON = float(np.finfo(np.float32).eps)


def seeded(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def assert_is_product(found: Array, a: Array, b: Array, more: Array | float = 0.0) -> None:
    """A sum of n rounded products errs by at most about n epsilon of the sum of their magnitudes; sqrt(n) is usual."""
    exact = a.astype(np.float64) @ b.astype(np.float64) + more
    magnitudes = np.abs(a).astype(np.float64) @ np.abs(b) + np.abs(more)
    assert found.dtype == np.float32
    assert (np.abs(found - exact) <= (2 + math.sqrt(a.shape[1])) * EPSILON * magnitudes).all()


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(0, 2 * ROWS + 20),
    inner=st.integers(0, 40),
    columns=st.integers(0, 2 * WIDTH + 5),
    layouts=st.tuples(*[st.sampled_from("CFs")] * 2),
)
def test_any_shape_and_layout(rows: int, inner: int, columns: int, layouts: tuple[str, str]) -> None:
    a, b = (
        laid_out(seeded(i, *shape), kind)
        for i, (shape, kind) in enumerate(zip(((rows, inner), (inner, columns)), layouts, strict=True))
    )
    before = a.copy(), b.copy()
    found = product(a, b)
    assert found.shape == (rows, columns)
    assert_is_product(found, a, b)
    assert_is_product(packed_product(a, pack(b), columns), a, b)
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])


def laid_out(array: Array, kind: str) -> Array:
    """C or Fortran order, or every second row and third column of something larger, read-only."""
    if kind != "s":
        return np.array(array, order="C" if kind == "C" else "F")
    wide = np.zeros((2 * array.shape[0], 3 * array.shape[1]), np.float32)
    wide[::2, ::3] = array
    view = wide[::2, ::3]
    view.flags.writeable = False
    return view


@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(300, 1600, 70), (1, 2000, 97), (520, 3, 1), (24, 5, 48), (25, 5, 48)]
)
def test_more_than_one_block_of_rows_and_of_the_inner_axis(rows: int, inner: int, columns: int) -> None:
    a, b = seeded(0, rows, inner), seeded(1, inner, columns)
    assert_is_product(product(a, b), a, b)
    assert_is_product(product(a, np.asfortranarray(b)), a, b)
    assert_is_product(product(np.asfortranarray(a), b), a, b)
    assert np.array_equal(packed_product(a, pack(b), columns), product(a, np.asfortranarray(b)))


def gelu(x: Array) -> Array:
    return x * expit(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rows", [3, 40])
def test_bias_activation_and_residual(packed: bool, rows: int) -> None:
    a, b, bias, residual = seeded(0, rows, 30), seeded(1, 30, 70), seeded(2, 70), seeded(3, rows, 70)

    def run(*epilogue: Any) -> Array:
        return packed_product(a, pack(b), 70, *epilogue) if packed else product(a, b, *epilogue)

    exact = a.astype(np.float64) @ b + bias
    assert_is_product(run(bias, residual), a, b, bias + residual.astype(np.float64))
    assert_is_product(run(None, residual), a, b, residual)
    np.testing.assert_allclose(run(bias, None, "relu"), np.maximum(exact, 0), rtol=0, atol=3e-5)
    np.testing.assert_allclose(run(bias, None, "gelu"), gelu(exact), rtol=0, atol=3e-5)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_slope_is_the_derivative(activation: packed_matmul.Activation) -> None:
    """Against central differences of the definition in float64; 1 - s loses 6e-8, which is multiplied by up to 24."""
    x = np.linspace(-12, 12, 1000, dtype=np.float32)[:, None]
    slope = np.empty((1000, 1), np.float32)
    product(x, np.ones((1, 1), np.float32), None, None, activation, slope)
    function: Any = gelu if activation == "gelu" else lambda at: np.maximum(at, 0)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(slope, (function(wide + 1e-6) - function(wide - 1e-6)) / 2e-6, rtol=0, atol=3e-6)


def test_not_a_number_and_infinity_go_where_numpy_sends_them() -> None:
    a, b = seeded(0, 50, 20), seeded(1, 20, 50)
    a[3, 4], a[9, 1], b[2, 47] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a @ b
    for found in (product(a, b), packed_product(a, pack(b), 50), product(a[:5], b)):
        part = expected[: len(found)]
        assert np.array_equal(np.isnan(found), np.isnan(part))
        assert np.array_equal(np.isinf(found), np.isinf(part))
    assert np.isnan(product(np.full((1, 1), np.nan, np.float32), np.ones((1, 1), np.float32), None, None, "relu"))


A, B = seeded(0, 4, 6), seeded(1, 6, 3)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: product(A, seeded(0, 5, 3)), r"\(4, 6\) and \(5, 3\)"),
        (lambda: product(np.zeros((4, 6)), B), "float32, not float64"),
        (lambda: product(A, B, bias=seeded(0, 4)), r"bias must have shape \(3,\)"),
        (lambda: product(A, B, residual=seeded(0, 3, 4)), r"residual must have shape \(4, 3\)"),
        (lambda: product(A, B, activation="swish"), "one of none, relu, gelu"),  # type: ignore[arg-type]
        (lambda: packed_product(A, pack(seeded(1, 6, 300)), 20), "panels"),
        (lambda: pack(seeded(0, 6)), "two axes"),
    ],
)
def test_what_does_not_fit_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_the_loop_of_a_whole_product_keeps_its_accumulators_in_registers() -> None:
    version = njit(nogil=True, error_model="numpy")(products.many_rows.compiled.py_func)
    version.compile((types.int64,))
    # What it calls is inlined, or beside it in its library.
    (compiled,) = version.overloads.values()
    functions = re.split(r"^(?=_+ZN\S+:)", compiled.library.get_asm_str(), flags=re.MULTILINE)
    # GELU, where it is a function of its own, has loops of as many multiply-adds and no sums to keep in registers.
    products_only = [function for function in functions if "gelu" not in function.partition("\n")[0]]
    assert spills("".join(products_only), ROWS * VECTORS) == 0


def assert_close(found: Array, x: Array, weight: Array, bias: Array) -> None:
    wide = x.astype(np.float64)
    expected = wide @ weight + bias
    # As far as sums of float32 in any order may be off.
    bound = np.abs(wide) @ np.abs(weight) + np.abs(bias)
    assert np.all(np.abs(found - expected) <= 1e-6 * bound + 1e-12)


@given(rows=st.integers(1, 6), inner=st.integers(1, 40), columns=st.integers(1, 150))
@settings(max_examples=60, deadline=None)
def test_rows_times_a_matrix_as_it_lies(rows: int, inner: int, columns: int) -> None:
    x, weight, bias = drawn(rows, inner), drawn(inner, columns), drawn(columns)
    output = np.full((rows, columns), np.nan, np.float32)
    affine(x, weight, bias, output)
    assert_close(output, x, weight, bias)


@given(inner=st.integers(1, 70), columns=st.integers(1, 200))
@settings(max_examples=60, deadline=None)
def test_one_row_times_packed_panels(inner: int, columns: int) -> None:
    check_panels(inner, columns)


@pytest.mark.parametrize("columns", [48 * 3, 48 * 2 + 32, 50])
def test_weights_that_exceed_the_caches(columns: int) -> None:
    check_panels(FAR_BYTES // columns + 1, columns)


def check_panels(inner: int, columns: int) -> None:
    x, weight = drawn(inner), drawn(inner, columns)
    bias, output = aligned_empty(padded(columns)), aligned_empty(padded(columns))
    bias[:], output[:] = 0, np.nan
    bias[:columns] = drawn(columns)
    panels = pack(weight)
    row_product(x, panels, bias, output, columns)
    assert_close(output[:columns], x, weight, bias[:columns])
