"""`fused_attention` and `im2col_conv2d` against the ops in float64, on arrays and on Tensors."""

from typing import Any

import numpy as np
import pytest
import scipy.signal
import scipy.special

from tests.perf.drawn import drawn
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import fused_attention, im2col_conv2d


@pytest.mark.parametrize("kind", [np.asarray, Tensor])
def test_attention_is_its_formula(kind: Any) -> None:
    q, k, v = (drawn(1, 2, 6, 8, seed=seed) for seed in range(3))
    made = fused_attention(kind(q), kind(k), kind(v), causal=True)
    scores = np.where(np.tri(6, dtype=bool), q.astype(float) @ k.swapaxes(2, 3) / np.sqrt(8), -np.inf)
    assert isinstance(made, type(kind(q)))
    np.testing.assert_allclose(
        np.asarray(getattr(made, "data", made)), scipy.special.softmax(scores, -1) @ v, atol=2e-6
    )


@pytest.mark.parametrize("kind", [np.asarray, Tensor])
def test_convolution_is_scipys_correlation(kind: Any) -> None:
    x, weight, bias = drawn(1, 1, 7, 9), drawn(1, 1, 3, 2, seed=1), drawn(1, seed=2)
    made = im2col_conv2d(kind(x), kind(weight), kind(bias), stride=(2, 1), padding=1)
    exact = scipy.signal.correlate(np.pad(x[0, 0].astype(float), 1), weight[0, 0], mode="valid")[::2] + bias[0]
    assert isinstance(made, type(kind(x)))
    np.testing.assert_allclose(np.asarray(getattr(made, "data", made))[0, 0], exact, atol=2e-6)


def test_what_does_not_fit_is_named() -> None:
    q = drawn(1, 1, 3, 4)
    with pytest.raises(ValueError, match="queries"):
        fused_attention(q, q[:, :, :2], q[:, :, :2], causal=True)
    with pytest.raises(TypeError, match="k must be a float32 or float64 array or Tensor"):
        fused_attention(q, q.astype(np.int64), q)
    with pytest.raises(ValueError, match="stride"):
        im2col_conv2d(drawn(1, 1, 4, 4), drawn(1, 1, 2, 2), stride=0)
    with pytest.raises(ValueError, match="groups"):
        im2col_conv2d(drawn(1, 1, 4, 4), drawn(1, 1, 2, 2), groups=0)
