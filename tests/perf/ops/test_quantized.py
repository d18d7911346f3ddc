"""The integer product: exact at every depth, also where float32 sums err, and at the extremes of int8."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinytorch.core.op import Array
from tinytorch.perf.ops.quantized import EXACT_DEPTH, GREATEST_DEPTH
from tinytorch.perf.quantization import integer_product


def exact(a: Array, b: Array) -> Array:
    """float64 holds every sum of up to 2^39 products."""
    return a.astype(np.float64) @ b.astype(np.float64)


def drawn(rows: int, depth: int, columns: int, seed: int = 0) -> tuple[Array, Array]:
    generator = np.random.default_rng(seed)
    return (
        generator.integers(-128, 128, (rows, depth)).astype(np.int8),
        generator.integers(-128, 128, (depth, columns)).astype(np.int8),
    )


@given(
    rows=st.integers(0, 5), depth=st.integers(0, 2100), columns=st.sampled_from([0, 1, 3, 513]), seed=st.integers(0, 9)
)
@settings(max_examples=40, deadline=None)
def test_equal_to_float64(rows: int, depth: int, columns: int, seed: int) -> None:
    a, b = drawn(rows, depth, columns, seed)
    made = integer_product(a, b)
    assert made.dtype == np.int32
    np.testing.assert_array_equal(made, exact(a, b))


@pytest.mark.parametrize("depth", [1, EXACT_DEPTH, EXACT_DEPTH + 1, 1041, 4099, 20_001])
@pytest.mark.parametrize(("left", "right"), [(-128, -128), (127, 127), (-128, 127)])
def test_extremes_at_depths_where_float32_errs(depth: int, left: int, right: int) -> None:
    a = np.full((2, depth), left, np.int8)
    b = np.full((depth, 3), right, np.int8)
    a[0, 0] = b[0, 0] = 1
    np.testing.assert_array_equal(integer_product(a, b), exact(a, b))


def test_views_and_more_rows_than_a_block() -> None:
    for a, b in (drawn(1030, 1030, 5), (drawn(6, 40, 8)[0][::2, 5:], drawn(6, 40, 8)[1][5:, ::-1])):
        np.testing.assert_array_equal(integer_product(a, b), exact(a, b))


def test_bad_operands_are_named() -> None:
    a, b = drawn(2, 3, 4)
    with pytest.raises(ValueError, match=r"^a must be an int8"):
        integer_product(a.astype(np.int16), b)
    with pytest.raises(ValueError, match=r"^b must be an int8"):
        integer_product(a, b[0])
    with pytest.raises(ValueError, match=r"^b must have 3 rows"):
        integer_product(a, b[:2])
    deep = GREATEST_DEPTH + 1
    with pytest.raises(ValueError, match="131,071"):
        integer_product(np.zeros((1, deep), np.int8), np.zeros((deep, 1), np.int8))
