"""Several times of one round: a fix that is forecast from recordings, gains that are combined, and variants."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking import ParetoFront, Performance
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Counted, Derived, Measurement, from_turns, own_loop
from tinytorch.perf.measuring.planning import rounds_within

#: Rounds, and the runs before them.
_ROUNDS, _WARM = 120, 3
#: Examples in a call; and the relative difference of time for which somebody would take one variant and not another.
BATCH, MATTERS = 64, 0.2


def plain_and_recorded(
    before: Callable[[], Any], after: Callable[[], Any]
) -> tuple[dict[str, Measurement], tuple[Counted, Counted]]:
    """Return times of a program before and after a fix, plain and recorded, and how many operations each makes.

    All four runs are taken in each round, in a drawn order.

    Returns:
        the seconds of a plain run ``before`` and ``after``; of a recorded one before the fix ``between`` operations and
        ``inside`` of them; and inside of the operations of one after it, ``inside_after``. Then the two numbers.
    """
    draw, (old, new) = np.random.default_rng(0), (before, after)
    taken: dict[str, list[float]] = {name: [] for name in ("before", "after", "between", "inside", "inside_after")}
    for _ in range(_WARM):
        first, second = _recorded(old), _recorded(new)

    def recorded_before() -> None:
        profile = _recorded(old)
        taken["between"].append(profile.wall_seconds - profile.op_seconds)
        taken["inside"].append(profile.op_seconds)

    runs: tuple[Callable[[], None], ...] = (
        lambda: taken["before"].append(_seconds(old)),
        lambda: taken["after"].append(_seconds(new)),
        recorded_before,
        lambda: taken["inside_after"].append(_recorded(new).op_seconds),
    )
    with own_loop(_WARM) as loop:
        for _ in rounds_within(4.0, _ROUNDS, fewest=6):
            for run in draw.permutation(len(runs)):
                runs[run]()
    numbers = [Counted.of(one.events, "1", "operations of a run") for one in (first, second)]
    return from_turns(taken, sample="rounds", conditions=loop.conditions), (numbers[0], numbers[1])


def largest_change(before: Sequence[Tensor], after: Tensor) -> Counted:
    """Return the largest change of a result by a fix, over the largest result."""
    right = np.concatenate([one.data for one in before]).astype(np.float64)
    return Counted(np.abs(after.data - right).max() / np.abs(right).max(), "%", "largest change of a result by a batch")


def _recorded(function: Callable[[], Any]) -> Any:
    with recording() as recorded:
        function()
    return recorded.profile


def _seconds(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def variants(results: Mapping[str, Performance], front: ParetoFront) -> list[dict[str, Any]]:
    """Return what was measured of each variant, its speedup over the first, and whether it is on the front."""
    changes = compare_with_first(results, matters=MATTERS)
    return [
        {
            "name": name,
            "speedup": changes[name].speedups[BATCH] if name in changes else None,
            "seconds": one.seconds(BATCH),
            "memory": one.memory,
            "right": one.accuracy,
            "on_front": name in front.front,
        }
        for name, one in results.items()
    ]


def on_front(results: Mapping[str, Performance], front: ParetoFront) -> Derived:
    """Return how many variants are on the front."""
    timed = tuple(one.seconds(BATCH) for one in results.values())
    return Derived(len(front.front), "1", "variants on the front", timed, "it counts verdicts")
