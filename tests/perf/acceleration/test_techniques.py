"""Every technique runs the same workload, and the fastest are those than which nothing is proven faster."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tests.perf.small_models import rows, two_layers
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, KERNELS, Tried, try_techniques
from tinytorch.perf.measuring import Measurement, current_blas_threads
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.conditions import Conditions


def test_all_ways_give_the_result_and_leave_threads_as_they_were() -> None:
    threads = current_blas_threads()
    tried = try_techniques("two layers", two_layers(), rows(7), at_most_seconds=0.05)
    assert current_blas_threads() == threads
    assert set(tried.times) == {BASELINE, KERNELS, FUSED, CODES}
    assert tried.errors[BASELINE].value == 0
    assert max(tried.errors[KERNELS].value, tried.errors[FUSED].value) < 1e-5
    assert 1e-4 < tried.errors[CODES].value < 0.05


def test_a_plan_keeps_the_weights_twice_and_codes_are_smaller() -> None:
    model = Sequential(Linear(256, 512, seed=0), Linear(512, 256, seed=1))
    x = Tensor(np.random.default_rng(0).standard_normal((4, 256), dtype=np.float32))
    tried = try_techniques("wide", model, x, at_most_seconds=0.05)
    held = {name: kept.value for name, kept in tried.held.items()}
    weights = 4 * (2 * 256 * 512 + 512 + 256)
    assert held[BASELINE] == held[KERNELS] == weights
    assert 1.9 * weights < held[FUSED] < 2.3 * weights
    assert held[CODES] < 0.5 * weights


def noisy(seconds: float, number: int) -> list[float]:
    return [seconds * (1 + 0.05 * ((7 * at + 3 * number) % 5 - 2)) for at in range(30)]


def fastest(samples: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    beside = {name: Conditions(interleaved_with=tuple({*samples} - {name})) for name in samples}
    times = {name: Measurement(name, tuple(each), "s", beside[name]) for name, each in samples.items()}
    first, *others = times.values()
    return Tried("two layers", times, compare_all(first, *others, matters=0.05), {}, {}).fastest


@pytest.mark.parametrize(
    ("seconds", "named"),
    [
        ((6.0, 2.0, 2.001, 4.0), (KERNELS, FUSED)),  # of which two are a hair apart and change places
        ((6.0, 8.0, 8.0, 8.0), (BASELINE,)),
        ((6.0, 3.0, 2.0, 12.0), (FUSED,)),
    ],
)
def test_what_cannot_be_told_from_the_fastest_is_named_beside_it(
    seconds: tuple[float, ...], named: tuple[str, ...]
) -> None:
    ways = zip((BASELINE, KERNELS, FUSED, CODES), seconds, strict=True)
    assert fastest({name: noisy(each, number) for number, (name, each) in enumerate(ways)}) == named
