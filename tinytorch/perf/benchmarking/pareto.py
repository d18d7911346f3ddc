"""The Pareto front: which models no other beats at everything, as far as the intervals can tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tinytorch.perf.benchmarking.comparing import ACCURACY_DELTA, BETTER, DELTA, LARGER, SMALLER, WORSE, Change, compare
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.measuring.comparison import FASTER, SLOWER


@dataclass(frozen=True)
class ParetoFront:
    """Which models are worth choosing from.

    Attributes:
        front: names that no other model dominates, in the order given.
        dominated: every other name, and the names that dominate it.
        undecided: of the front, those that another model would dominate by the numbers alone, and which: the
            intervals cannot tell.
    """

    front: tuple[str, ...]
    dominated: Mapping[str, tuple[str, ...]]
    undecided: Mapping[str, tuple[str, ...]]


def pareto_front(
    performances: Mapping[str, Performance],
    *,
    batch: int | None = None,
    delta: float = DELTA,
    accuracy_delta: float = ACCURACY_DELTA,
) -> ParetoFront:
    """Return the front of time, peak memory and accuracy.

    A model dominates another if it is proven better at one of the three, by more than does not matter, and proven not
    to be worse at the others by more than that. Each pair of models is compared in both directions, corrected for the
    number of pairs, so that all statements hold together with 95 %.

    Args:
        performances: of one `benchmark_suite`, by name.
        batch: batch size at which times are compared; the smallest by default.
        delta: relative difference of time that does not matter.
        accuracy_delta: difference of accuracy that does not matter.

    Raises:
        ValueError: if there are none, or ``batch`` was not measured.
    """
    if not performances:
        raise ValueError("performances must hold at least one model")
    names = [*performances]
    size = min(performances[names[0]].batches) if batch is None else batch
    for one in performances.values():
        one.seconds(size)
    pairs = max(1, len(names) * (len(names) - 1) // 2)
    dominated: dict[str, tuple[str, ...]] = {}
    undecided: dict[str, tuple[str, ...]] = {}
    changes = {
        (a, b): compare(performances[a], performances[b], delta, accuracy_delta=accuracy_delta, compared=pairs)
        for a in names
        for b in names
        if a != b
    }
    for name in names:
        others = [other for other in names if other != name]
        better = tuple(other for other in others if _dominates(changes[name, other], size))
        if better:
            dominated[name] = better
            continue
        seemingly = tuple(other for other in others if _seems_to_dominate(changes[name, other], size))
        if seemingly:
            undecided[name] = seemingly
    return ParetoFront(tuple(name for name in names if name not in dominated), dominated, undecided)


def _dominates(change: Change, batch: int) -> bool:
    """Return whether the candidate is proven better at one thing and proven not worse at the others."""
    speed, memory, accuracy = change.speedups[batch].verdict, change.memory.verdict, change.accuracy_verdict
    fine = speed in (FASTER, "equivalent") and memory in (SMALLER, "as large") and accuracy in (None, BETTER, "as good")
    return fine and (speed == FASTER or memory == SMALLER or accuracy == BETTER)


def _seems_to_dominate(change: Change, batch: int) -> bool:
    """Return whether by the numbers alone the candidate is no worse at anything, and nothing is proven against it."""
    speedup = change.speedups[batch]
    if speedup.verdict == SLOWER or change.memory.verdict == LARGER or change.accuracy_verdict == WORSE:
        return False
    difference = 0.0 if change.accuracy is None else change.accuracy.difference
    numbers = (speedup.ratio.median - 1, change.memory.ratio.median - 1, difference)
    return min(numbers) >= 0 and max(numbers) > 0
