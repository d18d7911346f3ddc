"""Every technique runs the same workload, and the fastest are those than which nothing is proven faster."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.small_models import rows, two_layers
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration import techniques
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, KERNELS, Tried, try_techniques
from tinytorch.perf.measuring import Measurement, current_blas_threads
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.conditions import Conditions


class _Turns:
    """Stands in for `timing.interleave`: runs each once, keeps what came out, and gives times that were set."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self.seconds, self.outputs = seconds, dict[str, Any]()

    def __call__(self, functions: Mapping[str, Callable[[], Any]], **_plan: Any) -> dict[str, Measurement]:
        self.outputs = {name: function().data for name, function in functions.items()}
        noise = {name: 1e-6 * len(name) for name in functions}
        return in_turns({name: self.seconds[name] for name in functions}, noise=noise)


_SECONDS = {BASELINE: 6.0, KERNELS: 3.0, FUSED: 2.0, CODES: 12.0}


def test_all_ways_give_the_result_and_leave_threads_and_ops_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, model, x = _Turns(_SECONDS), two_layers(), rows(7)
    monkeypatch.setattr(techniques, "interleave", turns)
    threads = current_blas_threads()
    tried = try_techniques("two layers", model, x)
    with no_grad():
        expected = model(x).data
    assert set(tried.times) == {BASELINE, KERNELS, FUSED, CODES}
    for name, output in turns.outputs.items():
        allowed = 0.05 if name == CODES else 1e-6
        np.testing.assert_allclose(output, expected, rtol=0, atol=allowed * np.abs(expected).max())
    assert current_blas_threads() == threads
    assert set(tried.built) == {FUSED, CODES}
    assert (tried.errors[BASELINE].value, tried.errors[KERNELS].value < 1e-5) == (0, True)
    assert 1e-4 < tried.errors[CODES].value < 0.05
    rows_of = {row.name: row for row in tried.techniques}
    assert (rows_of[BASELINE].gained, rows_of[BASELINE].error, rows_of[BASELINE].built) == (None, None, None)
    assert rows_of[FUSED].gained == tried.gained[FUSED].estimate
    assert tried.fastest == (FUSED,)
    assert tried.gained[FUSED].estimate.median == pytest.approx(3)
    assert tried.gained[CODES].estimate.median == pytest.approx(0.5)


def test_a_plan_keeps_the_weights_twice_and_codes_are_smaller() -> None:
    model = Sequential(Linear(256, 512, seed=0), Linear(512, 256, seed=1))
    x = Tensor(np.random.default_rng(0).standard_normal((4, 256), dtype=np.float32))
    tried = try_techniques("wide", model, x, at_most_seconds=0.05)
    held = {name: kept.value for name, kept in tried.held.items()}
    weights = 4 * (2 * 256 * 512 + 512 + 256)
    assert held[BASELINE] == held[KERNELS] == weights
    assert 1.9 * weights < held[FUSED] < 2.3 * weights
    assert held[CODES] < 0.5 * weights


def test_numpy_is_the_fastest_where_nothing_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(techniques, "interleave", _Turns({**dict.fromkeys(_SECONDS, 8.0), BASELINE: 6.0}))
    assert try_techniques("two layers", two_layers(), rows()).fastest == (BASELINE,)


def test_what_cannot_be_told_from_the_fastest_is_named_beside_it() -> None:
    """Two medians are a hair apart and change places from sample to sample; the third is surely slower."""
    samples = {
        name: [seconds * (1 + 0.05 * ((7 * at + 3 * index) % 5 - 2)) for at in range(30)]
        for index, (name, seconds) in enumerate(((BASELINE, 6.0), (KERNELS, 2.0), (FUSED, 2.001), (CODES, 4.0)))
    }

    def found(samples: Mapping[str, list[float]]) -> Tried:
        beside = {name: Conditions(interleaved_with=tuple({*samples} - {name})) for name in samples}
        times = {name: Measurement(name, tuple(each), "s", beside[name]) for name, each in samples.items()}
        first, *others = times.values()
        return Tried("two layers", times, compare_all(first, *others, matters=0.05), {}, {}, {})

    tried = found(samples)
    assert (tried.fastest, tried.fastest_named) == ((KERNELS, FUSED), f"{KERNELS} or {FUSED}")
    drifting = {**samples, KERNELS: [1.0 + 0.1 * at for at in range(30)]}
    assert found(drifting).fastest == (FUSED,), "a gain that drifts is none, however large"
