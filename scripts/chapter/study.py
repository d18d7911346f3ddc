"""Additions of growing length, for a draft of a chapter: what a call costs beside its numbers."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tinytorch.chapters.checking import exercise_check
from tinytorch.perf.measuring import Measurement, Modelled, interleave, quotient, ratio


@dataclass(frozen=True)
class Call:
    """An addition of so many numbers: its time, the time of each, and what the longest call says of that."""

    numbers: int
    seconds: Measurement
    each: Measurement
    predicted: Modelled


def additions(lengths: Sequence[int], repeats: int = 30) -> list[Call]:
    """Return additions of float32 vectors of rising lengths, timed in turns."""

    def addition(length: int) -> Callable[[], object]:
        a, b, out = (np.ones(length, np.float32) for _ in range(3))
        return lambda: np.add(a, b, out=out)

    seconds = interleave({str(length): addition(length) for length in lengths}, repeats=repeats)
    each = {length: seconds[str(length)].scaled(1 / length, name=f"a number of {length}") for length in lengths}
    longest = Modelled.by("the longest call", each[max(lengths)])
    return [Call(length, seconds[str(length)], each[length], longest) for length in lengths]


def short_over_long(calls: Sequence[Call]) -> Measurement:
    """Return how many times as long a number takes in the first call as in the last."""
    return quotient(calls[0].each, calls[-1].each, "time of a number in the shortest call over the longest")


def ten_times_longer(calls: Sequence[Call]) -> Measurement:
    """Return the time of the second call over that of the first."""
    return ratio(calls[1].seconds, calls[0].seconds, "the second call over the first")


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
