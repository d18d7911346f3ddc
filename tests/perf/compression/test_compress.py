"""Whole compressions, and low rank: the config is checked first, rows are those of what came out, ranks break even."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import train_step
from tinytorch.perf.compression import (
    LowRankLinear,
    break_even_rank,
    compress_model,
    low_rank_approximate,
    low_rank_model,
    measure_sparsity,
)
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.quantization import Plan, QuantizedLinear, stored_bytes


def right(model: Module) -> Any:
    return models.correct(model, "mlp")


def tune(model: Module) -> None:
    targets = models.entry("mlp").example_target(5)
    train_step(model, batch("mlp"), targets, models.loss_function(), AdamW(model.parameters()))


def test_each_row_is_measured_on_what_came_out() -> None:
    model = make("mlp")
    kept = model.state_dict()
    config = {"structured_prune": 0.5, "magnitude_prune": 0.8, "fine_tune": tune, "csr": True}
    found = compress_model(model, config, batch("mlp"), right, repeats=6)
    assert [row.step for row in found.steps] == ["original", *config]
    first, structured, magnitude, tuned, sparse = found.steps
    assert first.stored == stored_bytes(model) > structured.stored
    assert structured.stored == magnitude.stored == tuned.stored, "zeros save nothing"
    assert sparse.stored == stored_bytes(found.model) < 0.5 * tuned.stored
    assert (structured.sparsity, tuned.sparsity, sparse.sparsity) == (0, magnitude.sparsity, magnitude.sparsity)
    assert magnitude.sparsity == pytest.approx(80, abs=0.1)
    assert sparse.parameters == sum(each.size for each in found.model.parameters()) < 0.3 * structured.parameters
    assert all(row.seconds and row.speedup and row.seconds.n == 6 for row in found.steps)
    assert sparse.accuracy is not None
    assert (sparse.accuracy.baseline, sparse.accuracy.candidate) == (right(model).mean(), right(found.model).mean())
    assert found.compression_ratio == first.stored / sparse.stored
    for name, values in model.state_dict().items():
        np.testing.assert_array_equal(values, kept[name])


def test_without_inputs_and_score_nothing_is_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    found = compress_model(make("mlp"), {"magnitude_prune": 0.5})
    assert all((row.seconds, row.speedup, row.accuracy) == (None, None, None) for row in found.steps)
    found.print_report()
    printed = capsys.readouterr().out
    for part in ("time not measured: pass inputs", "accuracy not measured: pass score", "magnitude_prune 0.5"):
        assert part in printed


def test_settings_with_arguments_and_steps_that_come_twice() -> None:
    steps: list[tuple[str, Any]] = [
        ("magnitude_prune", {"sparsity": 0.5, "scope": "layer", "keep": ["5"]}),
        ("n_m", (1, 4)),
        ("magnitude_prune", 0.9),
        ("quantize", Plan("weight-only")),
    ]
    found = compress_model(make("mlp"), steps)
    assert measure_sparsity(found.model) > 89
    assert any(isinstance(layer, QuantizedLinear) for _, layer in found.model.named_modules())
    low = compress_model(make("mlp"), {"low_rank": {"ranks": 0.25, "keep": ["5"]}, "quantize": 4})
    assert low.compression_ratio > 2
    assert compress_model(make("mlp"), {"low_rank": {"3": 8}, "csr": 0}).steps[1].setting == "{'3': 8}"


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "at least one step"),
        ([("csr",)], "at least one step"),
        ({"prune": 0.5}, "must name steps among"),
        ({"magnitude_prune": 2}, "sparsity must be"),
        ({"magnitude_prune": {"share": 0.5}}, "no setting share"),
        ({"structured_prune": 1}, "prune_ratio must be"),
        ({"low_rank": 0.9}, "ranks of 1 to 51 save"),
        ({"n_m": (5, 4)}, "n and m must be"),
        ({"csr": True}, "sparse enough"),
        ({"quantize": "int8"}, "number of bits or a Plan"),
        ({"quantize": 3}, "bits"),
        ({"quantize": Plan("static")}, "calibration"),
        ({"fine_tune": 3}, "function that trains"),
        ({"quantize": 8, "magnitude_prune": 0.5}, "'magnitude_prune' before 'quantize'"),
        ({"low_rank": 0.25, "structured_prune": 0.5}, "'structured_prune' before 'low_rank'"),
        ({"quantize": 8, "fine_tune": tune}, "'fine_tune' before 'quantize'"),
    ],
)
def test_errors_come_before_the_first_training(config: Any, says: str) -> None:
    trained: list[Module] = []
    steps = list(config.items()) if isinstance(config, dict) else config
    with pytest.raises(ValueError, match=says):
        compress_model(make("mlp"), [("fine_tune", trained.append), *steps] if steps else config)
    assert not trained


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
