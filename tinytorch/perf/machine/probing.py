"""Probes made into measurements: rounds calibrated, samples of all probes taken in turns, all threads together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.measuring import Measurement, collector_off
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.conditions import Conditions, Instrument

#: One sample lasts about this long, in seconds. With several threads longer: they do not start at one instant.
SAMPLE_SECONDS = 1e-3
SAMPLE_SECONDS_OF_A_TEAM = 3e-3
#: Samples of each probe: as many as it takes to see that they do not wander, which verdicts on roofs rest on.
REPEATS = 31
#: With several threads fewer, as no verdict rests on them, and each takes three times as long.
REPEATS_OF_A_TEAM = 15
#: Of a probe whose sample takes long there are fewer, in about so many seconds in all, but at least so many.
SECONDS_OF_A_PROBE, FEWEST_REPEATS = 0.5, 15
#: A run this long in seconds is enough to see how fast a probe is.
_LOOK_SECONDS = 2e-4
Key = TypeVar("Key")
#: Told how far the work is, from 0 to 1.
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Probe:
    """Something to time on a team.

    Attributes:
        name: what it is, in words.
        run: given a number of rounds, run them on all threads and return the seconds.
        amount: what one round of all threads does, in ``unit`` without its "/s": bytes, FLOPs, operations, cycles.
        unit: of the rate: "B/s", "FLOP/s", "OP/s", "Hz".
        instrument: what the loop is; None where there is nothing to say.
        note: what it assumes, in words.
    """

    name: str
    run: Callable[[int], float]
    amount: float
    unit: str
    instrument: Instrument | None = None
    note: str | None = None


def sample_seconds(team: Team) -> float:
    """Return how long one sample of ``team`` should last, in seconds."""
    return SAMPLE_SECONDS if team.threads == 1 else SAMPLE_SECONDS_OF_A_TEAM


def repeats_of(team: Team) -> int:
    """Return how many samples of each probe ``team`` takes."""
    return REPEATS if team.threads == 1 else REPEATS_OF_A_TEAM


def calibrated_rounds(run: Callable[[int], float], seconds: float) -> int:
    """Return the rounds that make one ``run`` last about ``seconds``, at least 1."""
    run(1)  # what comes first is slower, and would make the runs too short
    if run(1) >= 2 * seconds:
        return 1
    rounds = 1
    while (taken := min(run(rounds) for _ in range(3))) < min(_LOOK_SECONDS, seconds / 2):
        rounds *= 4
    return max(1, math.ceil(rounds * seconds / taken))


def interleaved_rates(
    team: Team, probes: Mapping[Key, Probe], on_progress: Progress, repeats: int = REPEATS
) -> dict[Key, Measurement]:
    """Return the rate of each probe, ``repeats`` samples; of one whose sample takes long fewer, spread over all rounds.

    The samples are taken in turns, in an order drawn anew each time, so that a slow moment hits all alike and takes
    few samples of each. What the probe uses is brought into the caches before each sample, unmeasured, by two rounds,
    or by one where a sample is one.
    """
    order = np.random.default_rng(0)
    keys = list(probes)
    with collector_off():
        rounds = {key: calibrated_rounds(probe.run, sample_seconds(team)) for key, probe in probes.items()}
        before = {key: min(2, count) for key, count in rounds.items()}
        samples: dict[Key, list[float]] = {key: [] for key in keys}
        wanted: dict[Key, int] = {}
        for repeat in range(repeats):
            for index in order.permutation(len(keys)):
                key = keys[index]
                if len(samples[key]) * repeats > repeat * wanted.get(key, repeats):
                    continue  # it has its share of this part of the time
                probes[key].run(before[key])
                seconds = probes[key].run(rounds[key])
                samples[key].append(seconds / rounds[key])
                if key not in wanted:
                    whole = seconds * (1 + before[key] / rounds[key])
                    wanted[key] = min(repeats, max(FEWEST_REPEATS, int(SECONDS_OF_A_PROBE / whole)))
            on_progress((repeat + 1) / repeats)
    return {key: _rate(team, probe, rounds[key], samples[key]) for key, probe in probes.items()}


def _rate(team: Team, probe: Probe, rounds: int, seconds: list[float]) -> Measurement:
    conditions = replace(team_conditions(team, rounds, probe.instrument), note=probe.note)
    times = with_between_run_spread(Measurement(probe.name, tuple(seconds), "s", conditions))
    return times.per(probe.amount, probe.unit)


def team_conditions(team: Team, rounds: int, instrument: Instrument | None) -> Conditions:
    """Return the conditions of a measurement that ``team`` took."""
    return Conditions(
        threads=team.threads,
        cores=tuple(team.cores) if team.pinned else None,
        inner_loops=rounds,
        collector_off=True,
        instrument=instrument,
    )
