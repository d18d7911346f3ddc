"""Low-rank layers: the nearest of their rank, smaller or refused, and trained like any other."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.core.layers import Linear
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import LowRankLinear, break_even_rank, low_rank_approximate, low_rank_model
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import stored_bytes


@given(st.integers(1, 60), st.integers(1, 60))
def test_the_break_even_rank_is_the_last_that_saves(rows: int, columns: int) -> None:
    rank = break_even_rank(rows, columns)
    assert rank * (rows + columns) < rows * columns <= (rank + 1) * (rows + columns)


@given(st.integers(4, 20), st.integers(4, 20), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_the_error_is_that_of_the_singular_values_left_out(rows: int, columns: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(rows, columns))
    u, s, v = low_rank_approximate(matrix, 0.5)
    assert len(s) == min(rows, columns) // 2
    values = np.linalg.svd(matrix, compute_uv=False)
    error = np.linalg.norm(matrix - u * s @ v)
    assert error == pytest.approx(np.sqrt((values[len(s) :] ** 2).sum()), rel=1e-4)


def test_a_layer_of_low_rank_is_exact_and_smaller() -> None:
    layer = Linear(40, 30, seed=0)
    draw = np.random.default_rng(0)
    layer.weight.data[...] = draw.normal(size=(40, 3)) @ draw.normal(size=(3, 30))
    twin, x = LowRankLinear(layer, 3), Tensor(draw.normal(size=(2, 5, 40)).astype(np.float32))
    np.testing.assert_allclose(twin(x).data, layer(x).data, rtol=1e-3, atol=1e-4)
    assert stored_bytes(twin) == 4 * (3 * 70 + 30)
    assert Profiler().count_flops(twin, (1, 40)) == 2 * 3 * 70
    assert LowRankLinear(Linear(40, 30, bias=False, seed=0), 2).bias is None


def test_a_cut_layer_is_that_of_the_smaller_rank_and_shares_nothing() -> None:
    wide, small = (LowRankLinear(Linear(40, 30, seed=0), rank) for rank in (12, 5))
    cut = wide.cut(5)
    assert (cut.rank, [*cut.state_dict()]) == (5, [*small.state_dict()])
    for ours, theirs in zip(cut.parameters(), small.parameters(), strict=True):
        np.testing.assert_array_equal(ours.data, theirs.data)
        ours.data += 1
    np.testing.assert_array_equal(wide.cut(5).left.data, small.left.data)
    for rank in (0, 13):
        with pytest.raises(ValueError, match=f"rank must be 1 to 12, this layer's own, not {rank}"):
            wide.cut(rank)


def test_ranks_that_save_nothing_are_refused_with_the_last_that_does() -> None:
    layer = Linear(64, 256, seed=0)
    assert LowRankLinear(layer, 51).rank == 51
    for rank in (52, 64, 0, -1, True, 2.5):
        with pytest.raises(ValueError, match="ranks"):
            LowRankLinear(layer, rank)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="saves"):
        LowRankLinear(Linear(1, 5, seed=0), 1)


def test_a_low_rank_model_leaves_the_original_and_trains() -> None:
    model, tokens = make("gpt"), batch("gpt")
    small = low_rank_model(model, 0.25)
    counts = [sum(isinstance(each, LowRankLinear) for _, each in one.named_modules()) for one in (model, small)]
    assert counts == [0, 8]
    assert stored_bytes(small) < stored_bytes(model)
    optimizer = AdamW(small.parameters(), lr=1e-2)
    losses = [train_step(small, tokens, np.sort(tokens), models.loss_function(), optimizer) for _ in range(5)]
    assert losses[-1] < losses[0]
    one: Any = low_rank_model(make("mlp"), {"3": 4})
    assert [type(layer).__name__ for layer in one][1::2] == ["Linear", "LowRankLinear", "Linear"]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        *((lambda ratio=ratio: low_rank_model(make("mlp"), ratio), "rank_ratio") for ratio in (0, 1.2, True, "half")),
        (lambda: low_rank_model(make("cnn"), keep=["0"]), "linear"),
        (lambda: low_rank_model(make("cnn"), keep=["12"]), "model"),
        (lambda: low_rank_model(make("mlp"), {"5": 10}), "layer"),
        *(
            (lambda weight=weight: low_rank_approximate(weight), "weight")
            for weight in (np.ones(3), np.full((2, 2), np.nan), np.zeros((0, 3)))
        ),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], object], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        call()
