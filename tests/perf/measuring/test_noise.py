"""The noise floor: what it is made of, and what it hides."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.measuring import Measurement, noise
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.noise import NoiseFloor, noise_floor, small_noise_floor


def floor_of(ratio: float) -> NoiseFloor:
    return NoiseFloor("made", (), Measurement("made", (ratio,), ""))


@given(st.floats(1.001, 2), st.floats(0.3, 3))
def test_a_ratio_and_its_inverse_are_hidden_alike(floor: float, ratio: float) -> None:
    made = floor_of(floor)
    assert made.hides(ratio) == (1 / floor < ratio < floor) or ratio == pytest.approx(1 / floor)
    assert made.hides(1.0)
    assert not made.hides(floor)


@pytest.mark.parametrize(
    ("ratio", "floor", "words"),
    [
        (1.03, 1.02, "faster"),
        (1.03, 1.04, "between 4 % slower and 4 % faster"),
        (0.97, 1.02, "slower"),
        (0.97, 1.04, "between 4 % slower and 4 % faster"),
        (1.0, 1.005, "no difference beyond 0.5 %"),
        (1.0, 1.02, "between 2 % slower and 2 % faster"),
    ],
)
def test_the_floor_takes_verdicts_away_and_bounds_what_is_left(ratio: float, floor: float, words: str) -> None:
    comparison = compare_paired(ratio * np.random.default_rng(0).normal(1, 1e-4, 30), np.ones(30), 0.01)
    found = floor_of(floor).judged(comparison)
    assert str(found) == words
    assert (found.verdict is Verdict.OPEN) is words.startswith("between")
    assert (found == comparison) is (words in ("faster", "slower")), "and else the floor is the reason"
    assert found.estimate == comparison.estimate
    assert floor_of(1.0001).judged(comparison).verdict == comparison.verdict


def test_each_comparison_gives_its_ratio_or_the_inverse() -> None:
    found = noise_floor(lambda: sum(range(3_000)), "a sum", pairs=8, comparisons=5)
    assert len(found.comparisons) == found.shown.n == 5
    for comparison, end in zip(found.comparisons, found.shown.samples, strict=True):
        assert comparison.n == 8
        assert end == max(float(comparison), 1 / float(comparison)) >= 1
    assert found.ratio == max(found.shown.samples) == found.shown.interval.high
    assert found.shown.interval.low == min(found.shown.samples)
    assert found.shown.interval.confidence == pytest.approx(4 / 6)


def with_noise(monkeypatch: pytest.MonkeyPatch, size: float, seed: int, comparisons: int = 39) -> NoiseFloor:
    draw = np.random.default_rng(seed)

    def taken(functions: dict[str, Callable[[], None]], *, repeats: int, **_: object) -> dict[str, Measurement]:
        names = list(functions)
        times = np.exp(draw.normal(0, size, (2, repeats)))
        return {
            name: Measurement(name, tuple(row), "s", Conditions(interleaved_with=tuple(names)))
            for name, row in zip(names, times, strict=True)
        }

    monkeypatch.setattr(noise, "interleave", taken)
    return noise_floor(lambda: None, "nothing", comparisons=comparisons)


def test_one_of_twenty_more_comparisons_of_the_same_code_lies_beyond_the_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beyond = []
    for seed in range(60):
        floor = with_noise(monkeypatch, 0.01, seed)
        more = with_noise(monkeypatch, 0.01, 1000 + seed, comparisons=10).shown.samples
        beyond += [one > floor.ratio for one in more]
    assert np.mean(beyond) == pytest.approx(0.05, abs=0.03)


def test_one_disturbed_comparison_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = with_noise(monkeypatch, 0.01, 0)
    ends = sorted(quiet.shown.samples)
    assert quiet.ratio == ends[-2] < quiet.shown.interval.high == ends[-1]
    assert quiet.shown.conditions.statistic == "second largest"
    assert with_noise(monkeypatch, 0.01, 0, comparisons=19).shown.conditions.statistic == "largest"


def test_the_small_floor_is_measured_once_an_hour_and_again_if_it_was_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []

    def interleaved(functions: Any, *, repeats: int, **_: Any) -> dict[str, Measurement]:
        calls.append(share)
        draw, conditions = np.random.default_rng(len(calls)), Conditions(blas_threads=1, cpu_per_wall=share)
        return {
            name: Measurement(name, tuple(draw.normal(1, 0.01, repeats).tolist()), "s", conditions)
            for name in functions
        }

    monkeypatch.setattr(noise, "interleave", interleaved)
    monkeypatch.setattr(noise, "kept_path", lambda: tmp_path / "kept.json")
    share = 0.5  # others had the other half of the core
    first, second = small_noise_floor().ratio, small_noise_floor().ratio
    assert (len(calls), first == second) == (2, False)
    share = 1.0
    third = small_noise_floor().ratio
    assert small_noise_floor().ratio == third > 1
    assert len(calls) == 3
    (file,) = tmp_path.iterdir()
    os.utime(file, (1e9, 1e9))
    assert small_noise_floor().ratio != third
    file.write_text("{")
    small_noise_floor()
    assert len(calls) == 5


def test_bad_plans_of_a_noise_floor_raise() -> None:
    with pytest.raises(ValueError, match="pairs"):
        noise_floor(lambda: None, "nothing", pairs=5)
    with pytest.raises(ValueError, match="ratio"):
        floor_of(1.1).hides(0.0)
