"""Products of one row and of a few with a matrix, packed or as it lies, against float64."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.drawn import drawn
from tinytorch.core.op import Array
from tinytorch.perf.kernels.gemm.packing import aligned_empty, pack, padded
from tinytorch.perf.kernels.gemm.row_products import FAR_BYTES, affine, row_product


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
