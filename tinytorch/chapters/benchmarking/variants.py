"""The suite of all variants: three numbers of each from one run, who is on a front, and whether gains multiply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tinytorch.perf.benchmarking import ParetoFront, Performance
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.measuring import Counted, Derived, Measurement, ratio
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.conditions import of_sides
from tinytorch.perf.measuring.statistics import CONFIDENCE

#: By model of the zoo: what was measured of each variant, by name.
Results = Mapping[str, Mapping[str, Performance]]

BATCH = 64
#: Relative difference of time or bytes for which somebody would take one variant and not the other.
MATTERS = 0.2


@dataclass(frozen=True)
class Row:
    """A variant in batches of 64; ``speedup`` is its time against that of the baseline, which has none."""

    name: str
    rate: Measurement
    speedup: Comparison | None
    memory: Measurement
    right: Measurement


def against_baseline(measured: Mapping[str, Performance]) -> list[Row]:
    """Return what each variant takes and gives, and what it changed from the first."""
    changed = compare_with_first(measured, matters=MATTERS)
    changes = {name: change.speedups[BATCH] for name, change in changed.items()}
    return [
        Row(name, one.throughput[BATCH], changes.get(name), one.memory, one.accuracy) for name, one in measured.items()
    ]


@dataclass(frozen=True)
class Gain:
    """What a change brings: the time without any over that with it, in turns."""

    name: str
    speedup: Measurement


def gains(times: Mapping[str, Measurement], baseline: str) -> dict[str, Gain]:
    """Return what each change brings, from times that were taken in turns; ``baseline`` is without any."""
    before = times[baseline]
    return {name: Gain(name, ratio(before, each)) for name, each in times.items() if name != baseline}


def kept_of_product(gained: Mapping[str, Gain], parts: Sequence[str], combined: str) -> Measurement:
    """Return the speedup of ``combined`` over the product of its ``parts``' speedups: 1 if their gains multiply.

    Each sample is made of times that are neighbours.
    """
    both, singles = gained[combined].speedup, [gained[name].speedup for name in parts]
    samples = both.samples / np.prod([one.samples for one in singles], axis=0)
    conditions = of_sides({one.name: one.conditions for one in (both, *singles)})
    return Measurement(f"speedup of {combined} over the product of its parts'", tuple(samples.tolist()), "", conditions)


def compared_in(rows: Sequence[Row]) -> Counted:
    """Return by how many comparisons the confidence of their intervals is shared."""
    what = "comparisons of the suite whose intervals hold together"
    missed = min(1 - row.speedup.interval.confidence for row in rows if row.speedup)
    return Counted(round((1 - CONFIDENCE) / missed), "1", what)


def on_fronts(results: Results, fronts: Mapping[str, ParetoFront]) -> tuple[Derived, Counted]:
    """Return how many variants are on the front of their model, and how many there are."""
    timed = tuple(one.seconds(BATCH) for measured in results.values() for one in measured.values())
    size = sum(len(front.front) for front in fronts.values())
    on_one = Derived(size, "1", "variants on the fronts of the two models", timed, "it counts verdicts")
    return on_one, Counted(len(timed), "1", "variants of the two models")


@dataclass(frozen=True)
class Place:
    """Where a variant lies between time and accuracy, and whether it is on the front of its model."""

    model: str
    name: str
    seconds: Measurement
    right: Measurement
    on_front: bool


def places(results: Results, fronts: Mapping[str, ParetoFront]) -> list[Place]:
    """Return each variant's time and share of right answers."""
    return [
        Place(model.upper(), name, one.seconds(BATCH), one.accuracy, name in fronts[model].front)
        for model, measured in results.items()
        for name, one in measured.items()
    ]
