"""Embedding: picked rows, and gradients that add up where a row is picked twice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.cases import normal
from tests.core.gradients import gradient_of
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor


@settings(max_examples=60, deadline=None, derandomize=True)
@given(rows=st.lists(st.integers(0, 4), max_size=12))
def test_embedding_is_a_product_with_one_hot_rows(rows: list[int]) -> None:
    indices = np.array(rows, np.int64)
    one_hot = np.eye(5)[indices]
    table = Tensor(normal(5, 3), requires_grad=True)
    made = apply(ops.embedding, indices, table)
    np.testing.assert_array_equal(made.data, one_hot @ table.data)
    down = normal(*made.shape)
    made.backward(down)
    np.testing.assert_allclose(gradient_of(table), one_hot.T @ down, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("indices", "error", "message"),
    [
        ([0, 4], IndexError, r"must lie in 0\.\.3, but run from 0 to 4"),
        ([-1, 2], IndexError, r"must lie in 0\.\.3, but run from -1 to 2"),
        ([0.0, 1.0], TypeError, "integer indices, not float64"),
    ],
)
def test_embedding_refuses_what_is_no_row(indices: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        apply(ops.embedding, np.array(indices), Tensor(normal(4, 2)))
