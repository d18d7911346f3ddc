"""A whole compression: the config is checked before anything runs, and the rows are those of what came out."""

from typing import Any

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.training import train_step
from tinytorch.perf.compression import compress_model, measure_sparsity
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
