"""Amdahl's law, and that what is compared before and after a fix gives the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking import studies_bottlenecks, studies_regression


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", lambda name, seed=0: models.entry(name).make(seed).eval())
    monkeypatch.setattr(studies_bottlenecks, "_WARMUP_SECONDS", 0.0)
    monkeypatch.setattr(studies_bottlenecks, "_PAIRS", 3)


def test_amdahls_law() -> None:
    assert studies_bottlenecks.amdahl_speedup(0.5, 2) == pytest.approx(4 / 3)
    assert studies_bottlenecks.amdahl_speedup(0.75, np.inf) == pytest.approx(4)
    assert studies_bottlenecks.amdahl_speedup(0, 10) == 1
    for share, part in ((1.1, 2.0), (-0.1, 2.0), (0.5, 0.0)):
        with pytest.raises(ValueError, match="share must lie between 0 and 1"):
            studies_bottlenecks.amdahl_speedup(share, part)


@pytest.mark.usefixtures("untrained")
def test_a_batch_gives_what_a_loop_gives() -> None:
    found = studies_bottlenecks.one_by_one()
    assert found.error < 1e-5
    assert 0 < found.share.median < 1
    assert found.predicted > 1
    assert (found.before.n, found.after.n) == (3, 3)


@pytest.mark.usefixtures("untrained")
def test_the_cache_writes_the_same_tokens_with_less_arithmetic() -> None:
    found = studies_bottlenecks.read_again()
    assert found.error == 0
    assert 0.5 < found.share.median < 1


def test_the_regression_computes_the_same_and_does_check() -> None:
    base, changed = studies_regression.base().eval(), studies_regression.changed().eval()
    x = models.as_input(models.entry("mlp").example_input(3))
    assert np.array_equal(base(x).data, changed(x).data)
    assert [p.shape for p in changed.parameters()] == [p.shape for p in base.parameters()]
    assert isinstance(changed, Module)
    with pytest.raises(ValueError, match="values must be finite"):
        changed(Tensor(np.full((1, 1, 8, 8), np.nan, np.float32)))
