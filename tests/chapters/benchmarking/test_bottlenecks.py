"""What is compared before and after a fix gives the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch import models
from tinytorch.chapters.benchmarking import bottlenecks, regression
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", lambda name, seed=0: models.entry(name).make(seed).eval())
    monkeypatch.setattr(bottlenecks, "_WARMUP_SECONDS", 0.0)
    monkeypatch.setattr(bottlenecks, "_PAIRS", 3)


@pytest.mark.usefixtures("untrained")
def test_a_batch_gives_what_a_loop_gives() -> None:
    found = bottlenecks.one_by_one()
    assert found.error < 1e-5
    assert 0 < found.share.median < 1
    assert found.predicted > 1
    assert (found.before.n, found.after.n) == (3, 3)


@pytest.mark.usefixtures("untrained")
def test_the_cache_writes_the_same_tokens_with_less_arithmetic() -> None:
    found = bottlenecks.read_again()
    assert found.error == 0
    assert 0.5 < found.share.median < 1


def test_the_regression_computes_the_same_and_does_check() -> None:
    base, changed = regression.base().eval(), regression.changed().eval()
    x = models.as_input(models.entry("mlp").example_input(3))
    assert np.array_equal(base(x).data, changed(x).data)
    assert [p.shape for p in changed.parameters()] == [p.shape for p in base.parameters()]
    assert isinstance(changed, Module)
    with pytest.raises(ValueError, match="values must be finite"):
        changed(Tensor(np.full((1, 1, 8, 8), np.nan, np.float32)))
