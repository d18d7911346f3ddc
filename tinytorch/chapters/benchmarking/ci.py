"""Regressions over many builds: change points, and simulated series of builds with a step of a known size."""

from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.measuring import Modelled

#: Builds before the step, simulated series, and shuffled copies of a series.
BEFORE = 60
_SERIES, _SHUFFLES = 200, 200
#: Standard deviations of the noise from which on a single build raises an alert.
THRESHOLD = 3.0


def change_point(builds: Array) -> tuple[Array, Array]:
    """Return after which build the mean changes most, and how large that step is in standard errors."""
    n = builds.shape[-1]
    k = np.arange(1, n)
    sums = builds.cumsum(axis=-1)
    before, after = sums[..., :-1] / k, (sums[..., -1:] - sums[..., :-1]) / (n - k)
    step = np.abs(after - before) * np.sqrt(k * (n - k) / n) / builds.std(axis=-1, keepdims=True)
    return k[step.argmax(axis=-1)], step.max(axis=-1)


def is_significant(builds: Array, shuffles: int = _SHUFFLES) -> bool:
    """Return whether at most 5 % of shuffled copies of a series of builds have a step as large as its largest one."""
    shuffled = np.random.default_rng(0).permuted(np.tile(builds, (shuffles, 1)), axis=1)
    return bool(np.mean(change_point(shuffled)[1] >= change_point(builds)[1]) <= 0.05)


def simulated_builds(step: float, after: int, seed: int = 0) -> Array:
    """Return times of simulated builds with normal noise of 1 %, relative to the old code.

    From build number `BEFORE` on, ``after`` builds are slower by so many times the noise.
    """
    slower = np.arange(BEFORE + after) >= BEFORE
    return np.asarray(1 + 0.01 * (np.random.default_rng(seed).standard_normal(slower.size) + step * slower))


def series_with_means(builds: Array) -> list[dict[str, Any]]:
    """Return how much slower than the old code each build is, and the mean of that on its side of the change point."""
    at = int(change_point(builds)[0])
    means = np.repeat((builds[:at].mean(), builds[at:].mean()), (at, builds.size - at))
    return [
        {
            "build": number,
            "slower": Modelled(float(time) - 1, "%", "slowdown of a simulated build", "normal noise"),
            "mean": Modelled(float(mean) - 1, "%", "mean on one side of the change point", "normal noise"),
        }
        for number, (time, mean) in enumerate(zip(builds, means, strict=True), start=1)
    ]


def alerts(step: float, after: int) -> dict[str, Any]:
    """Return how often a threshold and a change point raise an alert ``after`` so many builds with the ``step``."""
    series = [simulated_builds(step, after, seed) for seed in range(_SERIES)]
    above = [bool((one[BEFORE if step else 0 :] > 1 + 0.01 * THRESHOLD).any()) for one in series]
    changed = [is_significant(one) for one in series]

    def share(what: str, found: list[bool]) -> Modelled:
        return Modelled.by("simulated builds with normal noise", share_right(what, np.array(found)))

    return {
        "step": step,
        "after": after,
        "threshold": share("series in which a single build exceeds the threshold", above),
        "change_point": share("series with a significant change point", changed),
    }
