"""The suite of all variants: three numbers of each from one run, who is on a front, and whether gains multiply."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.perf.benchmarking import ParetoFront, Performance
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.measuring import Counted, Derived, Measurement, ratio
from tinytorch.perf.measuring.conditions import of_sides

#: By model of the zoo: what was measured of each variant, by name.
Results = Mapping[str, Mapping[str, Performance]]

BATCH = 64
#: Relative difference of time or bytes for which somebody would take one variant and not the other.
MATTERS = 0.2


def against_baseline(measured: Mapping[str, Performance]) -> list[dict[str, Any]]:
    """Return a row for each variant in batches of 64, with its speedup over the first, which has none."""
    changed = compare_with_first(measured, matters=MATTERS)
    changes = {name: change.speedups[BATCH] for name, change in changed.items()}
    return [
        {
            "name": name,
            "rate": one.throughput[BATCH],
            "speedup": changes.get(name),
            "memory": one.memory,
            "right": one.accuracy,
        }
        for name, one in measured.items()
    ]


def gains(times: Mapping[str, Measurement], baseline: str) -> dict[str, Measurement]:
    """Return the speedup that each change brings, of times that were taken in turns; ``baseline`` is without any."""
    before = times[baseline]
    return {name: ratio(before, each) for name, each in times.items() if name != baseline}


def kept_of_product(gained: Mapping[str, Measurement], parts: Sequence[str], combined: str) -> Measurement:
    """Return the speedup of ``combined`` over the product of its ``parts``' speedups: 1 if their gains multiply.

    Each sample is made of times that are neighbours.
    """
    both, singles = gained[combined], [gained[name] for name in parts]
    samples = both.samples / np.prod([one.samples for one in singles], axis=0)
    conditions = of_sides({one.name: one.conditions for one in (both, *singles)})
    return Measurement(f"speedup of {combined} over the product of its parts'", tuple(samples.tolist()), "", conditions)


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
