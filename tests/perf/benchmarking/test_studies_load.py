"""Latency over load, for a model whose work is known."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch import models
from tinytorch.perf.benchmarking import scoring
from tinytorch.perf.benchmarking.studies_load import capacity, under_load


def test_each_load_is_offered_and_all_its_queries_are_answered() -> None:
    model = models.mlp().eval()
    task = scoring(np.zeros((5, 1, 8, 8), np.float32), np.zeros(5, np.int64))
    per_second = capacity(model, task, seconds=0.02)
    assert per_second > 0
    low, high = under_load(model, task, per_second, (0.1, 0.5), bound=1e-9, seconds=0.02)
    assert low.rate == pytest.approx(0.1 * per_second)
    assert high.rate == pytest.approx(0.5 * per_second)
    assert min(low.latencies.minimum, high.latencies.minimum) > 0
    # No call of a model takes a nanosecond.
    assert not low.valid
    assert low.missing is None
    with pytest.raises(ValueError, match="loads must be above 0"):
        under_load(model, task, per_second, (0.5, 0.0), bound=1.0)
