"""Additions of growing length, for a draft of a chapter: what a call costs beside its numbers."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from tinytorch.chapters.checking import exercise_check
from tinytorch.perf.measuring import Measurement, interleave


def additions(lengths: Sequence[int]) -> dict[int, Measurement]:
    """Return the time of an addition of two float32 vectors of each length, in seconds, sampled in turns."""

    def addition(length: int) -> Callable[[], object]:
        a, b, out = (np.ones(length, np.float32) for _ in range(3))
        return lambda: np.add(a, b, out=out)

    seconds = interleave({str(length): addition(length) for length in lengths}, repeats=30)
    return {length: seconds[str(length)] for length in lengths}


@exercise_check
def check_cost_of_a_call(function: Callable[[tuple[int, float], tuple[int, float]], float]) -> str:
    """Return "... passed" if ``function(short, long)`` gives the fixed cost of two calls of one line.

    Raises:
        AssertionError: with the calls, what is right, and the answer.
    """
    for cost, each in ((1e-6, 1e-9), (5e-7, 2e-10)):
        short, long = ((n, cost + n * each) for n in (100, 10_000))
        answer = function(short, long)
        assert math.isclose(answer, cost, rel_tol=1e-6), f"{short} and {long} cost {cost} a call, not {answer}"
    return "cost_of_a_call: passed"
