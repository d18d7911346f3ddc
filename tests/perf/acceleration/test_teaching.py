"""Ops in loops of Python are the ops: against NumPy's implementations in float64, and in a whole GPT."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration.teaching import TEACHING


def _normal(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


def test_linear_is_a_product_and_a_bias() -> None:
    x, weight, bias = _normal(2, 3, 5), _normal(5, 4), _normal(4)
    found, saved = TEACHING[ops.linear].forward(False, x, weight, bias)
    np.testing.assert_allclose(found, x.astype(np.float64) @ weight + bias, rtol=0, atol=1e-5)
    assert saved == ()
    assert TEACHING[ops.linear].forward(False, x, weight)[0].shape == (2, 3, 4)


def test_gelu_is_its_formula() -> None:
    x = _normal(3, 7)
    wide = x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(TEACHING[ops.gelu].forward(False, x)[0], exact, rtol=1e-6, atol=1e-7)


def test_layer_norm_has_mean_and_variance() -> None:
    x, weight, bias = _normal(2, 3, 8), _normal(8), _normal(8)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    found, _ = TEACHING[ops.layer_norm].forward(False, x, weight, bias, epsilon=1e-5)
    np.testing.assert_allclose(found, normal * weight + bias, rtol=0, atol=2e-6)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_softmax_of_scores_times_values(causal: bool) -> None:
    heads, depth, length = 2, 3, 5
    packed = _normal(2, length, 3 * heads * depth)
    q, k, v = packed.astype(np.float64).reshape(2, length, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(2, 3) / math.sqrt(depth)
    if causal:
        scores[..., np.triu_indices(length, 1)[0], np.triu_indices(length, 1)[1]] = -np.inf
    weights = np.exp(scores)
    exact = (weights / weights.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(2, length, -1)
    found, _ = TEACHING[ops.self_attention].forward(False, packed, heads=heads, causal=causal)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)


def test_a_whole_gpt_runs_on_loops() -> None:
    model, tokens = GPT(7, 8, 1, 2, 5, seed=0).eval(), np.array([[1, 2, 3, 4]])
    with no_grad():
        expected = model(tokens).data
        with dispatch.implementations(TEACHING):
            found = model(tokens).data
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_loops_say_that_they_have_no_backward() -> None:
    model = GPT(7, 8, 1, 2, 5, seed=0)
    with dispatch.implementations(TEACHING), pytest.raises(ValueError, match="no backward"):
        model(np.array([[1, 2]]))
