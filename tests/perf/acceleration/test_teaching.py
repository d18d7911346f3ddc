"""Ops in loops of Python are the ops: against NumPy's implementations in float64, and in a whole GPT."""

import math

import numpy as np
import pytest
import scipy.special

from tests.perf.drawn import drawn
from tests.perf.memoization.small_gpt import small_gpt, tokens_of
from tinytorch.core import dispatch, ops
from tinytorch.core.dispatch import no_grad
from tinytorch.perf.acceleration.teaching import TEACHING


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_softmax_of_scores_times_values(causal: bool) -> None:
    heads, depth, length = 2, 3, 5
    packed = drawn(2, length, 3 * heads * depth)
    q, k, v = packed.astype(np.float64).reshape(2, length, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    seen = np.tri(length, dtype=bool) if causal else True
    scores = np.where(seen, q @ k.swapaxes(2, 3) / math.sqrt(depth), -np.inf)
    exact = (scipy.special.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(2, length, -1)
    found, _ = TEACHING[ops.self_attention].forward(False, packed, heads=heads, causal=causal)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-6)


def test_a_whole_gpt_runs_on_loops() -> None:
    model, tokens = small_gpt(), tokens_of(1, 4)
    with no_grad():
        expected = model(tokens).data
        with dispatch.implementations(TEACHING):
            found = model(tokens).data
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_loops_say_that_they_have_no_backward() -> None:
    with dispatch.implementations(TEACHING), pytest.raises(ValueError, match="no backward"):
        small_gpt()(tokens_of(1, 2))
