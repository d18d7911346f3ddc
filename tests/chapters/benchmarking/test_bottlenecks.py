"""What is compared before and after a fix gives the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch import models
from tinytorch.chapters.benchmarking import bottlenecks, regression
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.processes import Fresh


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", lambda name, seed=0: models.entry(name).make(seed).eval())
    monkeypatch.setattr(bottlenecks, "_WARMUP_SECONDS", 0.0)
    monkeypatch.setattr(bottlenecks, "_PAIRS", 3)
    monkeypatch.setattr(bottlenecks, "_RECORDINGS", 1)


@pytest.mark.usefixtures("untrained")
def test_a_batch_gives_what_a_loop_gives() -> None:
    found = bottlenecks.image_by_image()
    assert found.error < 1e-5
    assert found.forecast.fewer == 64, "each image makes as many operations as the batch"
    assert found.comparison.n == 3


@pytest.mark.usefixtures("untrained")
def test_the_cache_writes_the_same_tokens() -> None:
    found = bottlenecks.read_again()
    assert found.error == 0
    assert (found.forecast.inside[0].n, found.comparison.n) == (1, 3)


def seconds(name: str, *samples: float, cpu_per_wall: float | None = None) -> Measurement:
    return Measurement(name, samples, "s", Conditions(cpu_per_wall=cpu_per_wall))


def test_a_forecast_is_amdahls_law_of_two_parts() -> None:
    # 60 of 100 s between 10 ops; afterwards 5 ops that take 10 s: 100 / (30 + 10), or 100 / (60 + 10) if nothing falls.
    inside = (seconds("in", 40.0), seconds("fixed", 10.0))
    found = bottlenecks.Forecast((10, 5), seconds("between", 60.0), inside)
    assert (found.before.median, found.after.median, found.after_if_between_stays.median) == pytest.approx(
        (100, 40, 70)
    )
    assert found.speedup.median == pytest.approx(2.5)
    assert found.speedup_if_between_stays.median == pytest.approx(10 / 7)


def test_a_forecast_is_as_uncertain_as_its_parts_and_as_disturbed() -> None:
    between = seconds("between", 60, 50, 70, 60, 55, 65, cpu_per_wall=0.5)
    inside = (seconds("in", *[40.0] * 6, cpu_per_wall=0.5), seconds("fixed", 10, 8, 12, 10, 9, 11, cpu_per_wall=1.0))
    found = bottlenecks.Forecast((10, 5), between, inside).speedup
    assert found.median == pytest.approx(2.5)
    # Both parts at their ends: 110 / (35 + 12) and 90 / (25 + 8).
    assert (found.interval.low, found.interval.high) == pytest.approx((110 / 47, 90 / 33))
    assert found.n == 6
    assert found.samples[1] == pytest.approx(90 / 33)
    assert found.conditions.cpu_per_wall == 0.5


def test_the_regression_computes_the_same_and_does_check() -> None:
    base, changed = models.mlp().eval(), regression.Checked(models.mlp()).eval()
    x = models.as_input(models.entry("mlp").example_input(3))
    assert np.array_equal(base(x).data, changed(x).data)
    assert [p.shape for p in changed.parameters()] == [p.shape for p in base.parameters()]
    assert isinstance(changed, Module)
    with pytest.raises(ValueError, match="values must be finite"):
        changed(Tensor(np.full((1, 1, 8, 8), np.nan, np.float32)))


def test_a_process_times_the_base_the_same_again_and_the_change() -> None:
    made = regression.base_and_change()
    assert [*made] == ["base", "again", "changed"]
    for function in made.values():
        function()


def test_the_changes_are_judged_together_over_processes() -> None:
    draw, found = np.random.default_rng(0), []
    for _ in range(8):
        times = {
            name: Measurement(name, tuple(length * np.exp(draw.normal(0, 1e-4, 20))), "s")
            for name, length in (("base", 1.0), ("again", 1.0), ("changed", 1.1))
        }
        found.append(Fresh((), times))
    judged = regression.judged_changes(found)
    assert {name: one.verdict for name, one in judged.items()} == {"again": "no difference", "changed": "slower"}
    assert {(one.n, one.compared) for one in judged.values()} == {(8, 2)}
