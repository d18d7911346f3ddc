"""Logits of a quantized tied embedding: against float64, and against a model that dequantizes the whole table."""

from typing import Any

import numpy as np
import pytest

from tests.core.gradients import check_gradients
from tests.perf.drawn import drawn
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import Embedding
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.events.stream import recording
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, QuantizedEmbedding, Scheme, quantize_model

SCHEMES = [
    Scheme(8, True, "channel"),
    Scheme(8, False, "channel"),
    Scheme(8, True, "tensor"),
    Scheme(4, True, "group", group=32),
    Scheme(4, False, "group", group=32),
    Scheme(2, False, "channel"),
]


def table(rows: int, features: int, scheme: Scheme) -> QuantizedEmbedding:
    return QuantizedEmbedding(Embedding(rows, features, seed=0), Plan(weights=scheme))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
@pytest.mark.parametrize("shape", [(50, 128), (11, 96), (7, 192), (1, 64), (5, 30)], ids=str)
def test_a_projection_is_the_product_with_the_dequantized_table(scheme: Scheme, shape: tuple[int, int]) -> None:
    layer = table(*shape, scheme)
    exact = layer.dequantized().data.astype(float).T
    for count in (1, 3, 12):
        x = drawn(2, count, shape[1])[:, ::-1]
        got = layer.project(Tensor(x)).data
        assert got.shape == (2, count, shape[0])
        assert (np.abs(got - x.astype(float) @ exact) <= 1e-6 * (np.abs(x) @ np.abs(exact)) + 1e-30).all()


def test_nan_stays_in_its_row_and_nothing_and_other_widths() -> None:
    layer, x = table(300, 128, SCHEMES[4]), drawn(2, 128)
    x[1, 3] = np.nan
    got = layer.project(Tensor(x)).data
    assert np.isfinite(got[0]).all()
    assert np.isnan(got[1]).all()
    assert layer.project(Tensor(np.empty((0, 128), np.float32))).shape == (0, 300)
    with pytest.raises(ValueError, match="features"):
        layer.project(Tensor(drawn(2, 127)))


def test_the_gradient_of_the_input_is_that_of_the_product() -> None:
    layer, down = table(20, 64, SCHEMES[3]), drawn(3, 20, seed=1)
    x = Tensor(drawn(3, 64), requires_grad=True)
    layer.project(x).backward(down)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, down @ layer.dequantized().data, rtol=1e-4, atol=1e-5)


def test_a_tied_gpt_multiplies_codes_and_never_makes_the_table() -> None:
    model = GPT(4000, 64, 1, 2, 8, seed=0).eval()
    made: Any = quantize_model(model, plan=Plan("weight-only"))
    tokens = np.arange(6).reshape(1, 6)
    with no_grad():
        with recording() as recorded:
            logits = made(tokens).data
        assert [event.op for event in recorded.profile.events].count("weight_only_projection") == 1
        assert not any(event.op == "dequantize" for event in recorded.profile.events)
        with Profiler(memory=True) as profiler:
            made(tokens)
        assert profiler.memory.peak < 4000 * 64 * 4
        hidden = made.norm(tied_input(made, tokens))
        expected = hidden.data.astype(float) @ made.token_embedding.weight.data.T
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def tied_input(model: Any, tokens: Array) -> Tensor:
    """What arrives at the last normalization."""
    x = model.token_embedding(tokens) + model.position_embedding(np.arange(tokens.shape[1]))
    for block in model.blocks:
        x = block(x)
    return Tensor(x.data)


def test_a_float_embedding_projects_by_its_table() -> None:
    layer, x = Embedding(9, 5, seed=0), drawn(2, 3, 5)
    np.testing.assert_array_equal(layer.project(Tensor(x)).data, apply(ops.linear, Tensor(x), layer.weight.T).data)
    layer.weight.data = layer.weight.data.astype(np.float64)
    check_gradients(layer.project, Tensor(drawn(2, 5).astype(np.float64), requires_grad=True))
