"""How a probe becomes a measurement: rounds calibrated, samples of all probes taken in turns, all threads together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from tinytorch.perf.team import Team
from tinytorch.perf.timing import Measurement, collector_off

#: One sample lasts about this long, in seconds. With several threads longer: they do not start at one instant.
SAMPLE_SECONDS = 1e-3
SAMPLE_SECONDS_OF_A_TEAM = 3e-3
#: A run this long in seconds is enough to see how fast a probe is.
_LOOK_SECONDS = 2e-4
Key = TypeVar("Key")
#: Given the number of rounds, run a probe on all threads and return the seconds.
Probe = Callable[[int], float]


def sample_seconds(team: Team) -> float:
    """Return how long one sample of ``team`` should last, in seconds."""
    return SAMPLE_SECONDS if team.threads == 1 else SAMPLE_SECONDS_OF_A_TEAM


def calibrated_rounds(probe: Probe, seconds: float) -> int:
    """Return the rounds that make one run of ``probe`` last about ``seconds``, at least 1."""
    probe(1)  # what comes first is slower, and would make the runs too short
    rounds = 1
    while (taken := min(probe(rounds) for _ in range(3))) < min(_LOOK_SECONDS, seconds / 2):
        rounds *= 4
    return max(1, math.ceil(rounds * seconds / taken))


def in_turns(
    probes: Mapping[Key, Probe], seconds: float, repeats: int, on_progress: Callable[[float], None], *, warmed: bool
) -> dict[Key, tuple[int, tuple[float, ...]]]:
    """Return for each probe its rounds and the seconds of one round, ``repeats`` samples.

    The samples are taken in turns, in an order drawn anew each time, so that a slow moment hits all alike.
    ``warmed`` runs two rounds before each sample, unmeasured, that bring the probe's memory back into the caches.
    """
    order = np.random.default_rng(0)
    keys = list(probes)
    with collector_off():
        rounds = {key: calibrated_rounds(probe, seconds) for key, probe in probes.items()}
        samples: dict[Key, list[float]] = {key: [] for key in keys}
        for repeat in range(repeats):
            for index in order.permutation(len(keys)):
                key = keys[index]
                if warmed:
                    probes[key](2)
                samples[key].append(probes[key](rounds[key]) / rounds[key])
            on_progress((repeat + 1) / repeats)
    return {key: (rounds[key], tuple(samples[key])) for key in keys}


def conditions(team: Team, rounds: int, **more: Any) -> dict[str, Any]:
    """Return the ``how`` of a measurement that ``team`` took."""
    return {
        "threads": team.threads,
        "cores": list(team.cores) if team.pinned else None,
        "inner_loops": rounds,
        "garbage_collector": "off",
        **more,
    }


def rate(amount: float, seconds: tuple[float, ...], unit: str, name: str, how: Mapping[str, Any]) -> Measurement:
    """Return ``amount`` for each of ``seconds``: a rate in ``unit``."""
    return Measurement(name, seconds, "s", how).per(amount, unit)
