"""What is compared before and after a fix gives the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch import models
from tinytorch.chapters.benchmarking import bottlenecks, regression
from tinytorch.core.module import Module
from tinytorch.core.op import Spec
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Event, Profile
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.processes import Fresh


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", lambda name, seed=0: models.entry(name).make(seed).eval())
    monkeypatch.setattr(bottlenecks, "_WARMUP_SECONDS", 0.0)
    monkeypatch.setattr(bottlenecks, "_PAIRS", 3)
    monkeypatch.setattr(bottlenecks, "_RECORDINGS", 1)


@pytest.mark.usefixtures("untrained")
def test_a_batch_gives_what_a_loop_gives() -> None:
    found = bottlenecks.one_by_one()
    assert found.error < 1e-5
    assert found.predicted > 1
    assert found.comparison.n == 3


@pytest.mark.usefixtures("untrained")
def test_the_cache_writes_the_same_tokens_with_less_arithmetic() -> None:
    found = bottlenecks.read_again()
    assert found.error == 0
    assert found.predicted > 1


def recorded(op_ns: int, wall_ns: int, calls: int) -> Profile:
    each, nothing = op_ns // calls, Spec((1,), np.dtype(np.float32))
    event = Event("add", "numpy", "forward", "", (nothing,), nothing, None, 8, 0, each, each)
    return Profile((event,) * calls, (), 0, wall_ns, 1, 1, 1)


def test_a_forecast_is_amdahls_law_of_two_parts() -> None:
    # 60 of 100 ns between 10 ops; afterwards 5 ops that take 10 ns: 100 / (30 + 10).
    assert bottlenecks.forecast([recorded(40, 100, 10)], [recorded(10, 12, 5)]) == pytest.approx(2.5)


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
    assert {name: one.verdict for name, one in judged.items()} == {"again": "equivalent", "changed": "slower"}
    assert {(one.n, one.compared) for one in judged.values()} == {(8, 2)}
