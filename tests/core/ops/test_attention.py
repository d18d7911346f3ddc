"""Attention against softmax(q k^T / sqrt(d)) v written with SciPy's softmax."""

import numpy as np
import pytest
import scipy.special

from tests.core.cases import normal
from tests.core.gradients import gradient_of
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor


def attended(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """The formula of arXiv:1706.03762, one query at a time."""
    output = np.zeros(q.shape)
    for image, head, query in np.ndindex(q.shape[:3]):
        last = k.shape[2] - q.shape[2] + query + 1 if causal else k.shape[2]
        scores = [q[image, head, query] @ k[image, head, key] / np.sqrt(q.shape[3]) for key in range(last)]
        output[image, head, query] = scipy.special.softmax(scores) @ v[image, head, :last]
    return output


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (1, 6), (3, 5)])
def test_attention(queries: int, keys: int, causal: bool) -> None:
    q, k, v = 2 * normal(2, 3, queries, 4), normal(2, 3, keys, 4, seed=1), normal(2, 3, keys, 4, seed=2)
    made = apply(ops.attention, Tensor(q), Tensor(k), Tensor(v), causal=causal)
    np.testing.assert_allclose(made.data, attended(q, k, v, causal), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [1, 2, 3])
def test_self_attention_takes_queries_keys_and_values_side_by_side(heads: int, causal: bool) -> None:
    packed = normal(2, 5, 18)
    q, k, v = (
        packed[:, :, 6 * part : 6 * (part + 1)].reshape(2, 5, heads, 6 // heads).transpose(0, 2, 1, 3)
        for part in range(3)
    )
    expected = attended(q, k, v, causal).transpose(0, 2, 1, 3).reshape(2, 5, 6)
    made = apply(ops.self_attention, Tensor(packed), heads=heads, causal=causal)
    np.testing.assert_allclose(made.data, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(3, 3, 128, 2), (2, 3, 256, 2), (1, 2, 600, 2)])
def test_attention_in_parts_is_attention(shape: tuple[int, ...], causal: bool) -> None:
    """Scores larger than what is held at a time: several images, some of the heads, one head; with their gradients."""
    q, k, v, down = (normal(*shape, seed=seed) for seed in range(4))
    scores = np.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(shape[3])
    if causal:
        scores = np.where(np.tri(shape[2], dtype=bool), scores, -np.inf)
    weights = scipy.special.softmax(scores, axis=-1)
    slope = np.einsum("bhtd,bhsd->bhts", down, v)
    slope = weights * (slope - (weights * slope).sum(axis=-1, keepdims=True)) / np.sqrt(shape[3])
    tensors = [Tensor(array, requires_grad=True) for array in (q, k, v)]
    made = apply(ops.attention, *tensors, causal=causal)
    made.backward(down)
    np.testing.assert_allclose(made.data, weights @ v, rtol=1e-10, atol=1e-12)
    expected = slope @ k, slope.swapaxes(2, 3) @ q, weights.swapaxes(2, 3) @ down
    for tensor, gradient in zip(tensors, expected, strict=True):
        np.testing.assert_allclose(gradient_of(tensor), gradient, rtol=1e-9, atol=1e-11)


def test_large_scores_do_not_overflow() -> None:
    q = Tensor(np.full((1, 1, 2, 4), 1e3, np.float32))
    made = apply(ops.attention, q, q, Tensor(normal(1, 1, 2, 4).astype(np.float32)), causal=False)
    assert np.isfinite(made.data).all()
