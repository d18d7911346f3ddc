"""Reshaping, transposing, indexing and joining against NumPy, by hypothesis where there is an invariant."""

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices, integer_array_indices

from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor

some = settings(max_examples=80, deadline=None, derandomize=True)


def counted(shape: tuple[int, ...]) -> Tensor:
    """Return 0, 1, 2, ... in ``shape``, so that each element has a name."""
    return Tensor(np.arange(math.prod(shape), dtype=np.float64).reshape(shape), requires_grad=True)


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=4, max_side=4))
def test_transpose_and_its_gradient_are_inverse(data: Any, shape: tuple[int, ...]) -> None:
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    x = counted(shape)
    made = apply(ops.transpose, x, axes=axes)
    np.testing.assert_array_equal(made.data, np.transpose(x.data, axes))
    made.backward(made.data.copy())
    np.testing.assert_array_equal(x.grad, x.data)


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=4, max_side=4))
def test_reshape_and_its_gradient_are_inverse(data: Any, shape: tuple[int, ...]) -> None:
    lengths = list(data.draw(st.permutations(shape)))
    if data.draw(st.booleans()):
        lengths[data.draw(st.integers(0, len(lengths) - 1))] = -1
    x = counted(shape)
    made = x.reshape(*lengths)
    np.testing.assert_array_equal(made.data.reshape(-1), np.arange(x.size))
    made.backward(made.data.copy())
    np.testing.assert_array_equal(x.grad, x.data)


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=3, max_side=4))
def test_gradient_of_an_index_counts_how_often_each_element_was_picked(data: Any, shape: tuple[int, ...]) -> None:
    index = data.draw(basic_indices(shape, allow_newaxis=True) | integer_array_indices(shape))
    x = counted(shape)
    made = x[index]
    np.testing.assert_array_equal(made.data, x.data[index])
    made.backward(np.ones(made.shape))
    names, counts = np.unique(made.data, return_counts=True)
    expected = np.zeros(x.size)
    expected[names.astype(int)] = counts
    np.testing.assert_array_equal(x.grad, expected.reshape(shape))


def test_repeats_count_also_in_tuples_and_tensors() -> None:
    twice: Any
    for twice in ((np.array([0, 0]), Tensor(np.array([1, 1]))), ((0, 0), (1, 1)), ([0, 0], np.array([1, 1]))):
        x = counted((2, 2))
        x[twice].backward([1.0, 1.0])
        np.testing.assert_array_equal(x.grad, [[0, 2], [0, 0]])


@some
@given(data=st.data(), shape=array_shapes(min_dims=1, max_dims=3, max_side=3))
def test_concatenate_takes_apart_what_it_joined(data: Any, shape: tuple[int, ...]) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))
    parts = [counted((*shape[: axis % len(shape)], n, *shape[axis % len(shape) + 1 :])) for n in lengths]
    joined = apply(ops.concatenate, *parts, axis=axis)
    np.testing.assert_array_equal(joined.data, np.concatenate([part.data for part in parts], axis))
    joined.backward(joined.data.copy())
    for part in parts:
        np.testing.assert_array_equal(part.grad, part.data)


@some
@given(rows=st.lists(st.integers(0, 4), max_size=12))
def test_embedding_is_a_product_with_one_hot_rows(rows: list[int]) -> None:
    indices = np.array(rows, np.int64)
    one_hot = np.eye(5)[indices]
    table = counted((5, 3))
    made = apply(ops.embedding, indices, table)
    np.testing.assert_array_equal(made.data, one_hot @ table.data)
    made.backward(made.data.copy())
    np.testing.assert_array_equal(table.grad, one_hot.T @ made.data)
