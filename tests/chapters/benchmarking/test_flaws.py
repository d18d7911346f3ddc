"""The flawed experiments run, and what they claim to do is what they do."""

import numpy as np
import pytest
from scipy.special import erf

from tinytorch.chapters.benchmarking import flaws as studies
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "_TIMES", 2)
    monkeypatch.setattr(studies, "_RUNS", 1)
    monkeypatch.setattr(studies, "_WARMUP_SECONDS", 0.0)


def test_the_straw_man_is_right_but_wide() -> None:
    x = np.linspace(-4, 4, 1000, dtype=np.float32)
    made = studies.typed_gelu(x)
    assert made.dtype == np.float64
    assert np.abs(made - 0.5 * x * (1 + erf(x / np.sqrt(2)))).max() < 1e-3


@pytest.mark.usefixtures("short")
def test_each_experiment_reports_as_often_as_it_was_done() -> None:
    for flaw in (studies.cold_baseline(), studies.best_of_n(), studies.unequal_threads()):
        assert flaw.reported.n == 2
        assert flaw.reported.minimum > 0
        assert {flaw.fair.baseline, flaw.fair.candidate} == {"baseline", "candidate"}
        assert flaw.fair.n >= 6


def test_only_one_function_whose_interval_leaves_out_1_is_counted() -> None:
    fair = compare_paired([1.0] * 6, [1.0] * 6, matters=0)
    # The last publishes an interval above 1, though one of its repeats lies below 1.
    repeats = (1.032, 1.019, 1.034, 0.999, 1.017, 1.01, 1.023, 1.013, 1.061)
    published = {"straw": (9.0,) * 9, "double": (2.0,) * 9, "even": (1.0,) * 9, "above": repeats}
    done = {
        name: studies.Flaw(name, Measurement(name, each, "", Conditions(sample=Sample.TRIALS)), fair)
        for name, each in published.items()
    }
    assert studies.differences_not_there(done).value == 2
