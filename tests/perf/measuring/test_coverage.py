"""How often intervals hold the truth that made series are drawn around: what 95 % means, for whatever is computed."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from tinytorch.perf.distributed.collectives.link_fit import fit
from tinytorch.perf.measuring import Measurement, quotient, ratio
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.statistics import CONFIDENCE, Interval, PairedShares, Share, interval_of_law
from tinytorch.perf.profiling.breakdown import predicted_speedup

TRIALS = 400
#: Of so many trials the share that holds errs by 1.1 points; coverage is asked to lie between 93 and 97 %.
ERROR = 2 * math.sqrt(0.95 * 0.05 / TRIALS)
Draw = np.random.Generator


def series(
    draw: Draw, level: float, noise: float, n: int, name: str = "call", drift: float | np.ndarray = 0.0
) -> Measurement:
    samples = level * np.exp(drift + noise * draw.standard_normal(n))
    return Measurement(name, tuple(samples.tolist()), "s", Conditions(sample=Sample.TRIALS, turns="these"))


def of_median(n: int) -> Callable[[Draw], Interval]:
    return lambda draw: series(draw, 2.0, 0.05, n).interval


def in_turns(draw: Draw) -> Interval:
    drift = np.cumsum(0.02 * draw.standard_normal(20))
    return ratio(series(draw, 2.0, 0.03, 20, "a", drift), series(draw, 1.0, 0.03, 20, "b", drift)).interval


def apart(draw: Draw) -> Interval:
    return quotient(series(draw, 2.0, 0.05, 20, "a"), series(draw, 1.0, 0.05, 20, "b"), "a / b").interval


def of_amdahl(draw: Draw) -> Interval:
    return predicted_speedup(series(draw, 0.3, 0.05, 20, "share"), series(draw, 4.0, 0.1, 20, "gain"), "law").interval


def of_share(draw: Draw) -> Interval:
    return interval_of_law(Share(int(draw.binomial(360, 0.98)), 360), CONFIDENCE)


def of_change(draw: Draw) -> Interval:
    gained, lost, _ = draw.multinomial(360, [0.02, 0.035, 0.945])
    return interval_of_law(PairedShares(int(gained), int(lost), 360), CONFIDENCE)


def of_link(draw: Draw) -> Interval:
    sizes = [2**power for power in range(3, 21, 2)]
    return fit({size: series(draw, 1e-6 + 1e-9 * size, 0.1, 20, f"{size} B") for size in sizes}).beta.interval


@pytest.mark.parametrize(
    ("made", "truth"),
    [
        *((of_median(n), 2.0) for n in (6, 10, 20, 100)),
        (in_turns, 2.0),
        (apart, 2.0),
        (of_amdahl, 1 / (0.7 + 0.3 / 4)),
        (of_share, 0.98),
        (of_change, 0.02 - 0.035),
        (of_link, 1e-9),
    ],
)
def test_an_interval_holds_the_truth_as_often_as_it_says(made: Callable[[Draw], Interval], truth: float) -> None:
    draw = np.random.default_rng(1)
    held = sum(truth in made(draw) for _ in range(TRIALS)) / TRIALS
    assert 0.93 - ERROR < held < 0.97 + ERROR
