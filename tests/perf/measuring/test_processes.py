"""Fresh processes: each is new, its ratio is one sample, and what cannot be started is said."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.perf import replicated
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring import processes as replicas_module
from tinytorch.perf.measuring.comparison import FASTER, SLOWER
from tinytorch.perf.measuring.processes import Replicas, replicas


@pytest.fixture(scope="module")
def twice() -> Replicas:
    return replicas(replicated.twice_the_work, processes=6, pairs=8, names=("long", "short"))


def test_each_process_gives_one_ratio(twice: Replicas) -> None:
    assert twice.comparison.n == 6
    assert twice.pooled.n == 6 * 8
    for index, (before, after) in enumerate(zip(twice.baseline, twice.candidate, strict=True)):
        logs = np.log(before.samples) - np.log(after.samples)
        assert twice.comparison.ratio.samples[index] == pytest.approx(np.exp(np.median(logs)))


def test_the_sentence_counts_processes(twice: Replicas) -> None:
    assert twice.comparison.ratio.median > 1
    assert "short" in twice.comparison.sentence()
    assert "6 processes" in twice.comparison.sentence()
    assert twice.comparison.ratio.how["processes"] == 6


def test_what_belongs_to_the_process_is_noise_between_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process draws a ratio of its own around 1; only the interval over processes covers 1 as often as it says."""
    draw = np.random.default_rng(0)

    def drawn(reference: str, pairs: int, seed: int) -> tuple[Measurement, Measurement]:
        times = np.exp(draw.normal(0, 0.001, (2, pairs)))
        times[0] *= np.exp(draw.normal(0, 0.03))
        before, after = (Measurement(name, tuple(row), "s") for name, row in zip(("a", "b"), times, strict=True))
        return before, after

    monkeypatch.setattr(replicas_module, "_run", drawn)
    found = [replicas(replicated.twice_the_work, processes=10, pairs=12, seed=seed) for seed in range(150)]
    covered = sum(1.0 in one.comparison.interval for one in found)
    assert covered >= 150 * 0.95 - 3 * math.sqrt(150 * 0.95 * 0.05)
    assert sum(one.comparison.verdict in (FASTER, SLOWER) for one in found) <= 0.02 * 150
    assert all(one.pooled.dependence.effective < 60 for one in found), "120 pairs are worth far fewer"


def test_what_a_new_process_cannot_import_is_refused() -> None:
    def local() -> tuple[replicated.Function, replicated.Function]:
        return replicated.twice_the_work()

    for maker in (local, lambda: replicated.twice_the_work()):
        with pytest.raises(ValueError, match="top level of a module that a new process can import"):
            replicas(maker)
    with pytest.raises(ValueError, match="processes and pairs must be at least 1, not 0 and 20"):
        replicas(replicated.twice_the_work, processes=0)


def test_a_process_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="a fresh process failed: ZeroDivisionError: nothing to compare"):
        replicas(replicated.broken, processes=1)
