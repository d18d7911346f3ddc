"""Matrix products against sums that are written out, over shapes that hypothesis draws."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

from tests.core.gradients import check_gradients
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor

#: Two shapes of NumPy's matmul: vectors, matrices and stacks that broadcast.
shapes_of_a_product = mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, max_side=3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(shapes=shapes_of_a_product)
def test_matmul_over_all_shapes(shapes: Any) -> None:
    generator = np.random.default_rng(1)
    a, b = (Tensor(generator.normal(size=shape), requires_grad=True) for shape in shapes.input_shapes)
    made = a @ b
    assert made.shape == shapes.result_shape
    wide_a = a.data if a.ndim > 1 else a.data[None]
    wide_b = b.data if b.ndim > 1 else b.data[:, None]
    expected = (wide_a[..., :, :, None] * wide_b[..., None, :, :]).sum(axis=-2)
    np.testing.assert_allclose(made.data, expected.reshape(made.shape), rtol=1e-12, atol=1e-13)
    check_gradients(lambda *both: apply(ops.matmul, *both), a, b)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(lead=st.lists(st.integers(1, 3), max_size=3), bias=st.booleans())
def test_linear_is_the_affine_map(lead: list[int], bias: bool) -> None:
    generator = np.random.default_rng(1)
    x, weight, shift = (generator.normal(size=shape) for shape in ((*lead, 3), (3, 4), (4,)))
    operands = (x, weight, shift) if bias else (x, weight)
    made = apply(ops.linear, *[Tensor(operand) for operand in operands])
    expected = np.zeros((*lead, 4))
    for row in np.ndindex(*lead):
        for column in range(4):
            expected[row][column] = sum(x[row][k] * weight[k, column] for k in range(3)) + bias * shift[column]
    np.testing.assert_allclose(made.data, expected, rtol=1e-12, atol=1e-13)
