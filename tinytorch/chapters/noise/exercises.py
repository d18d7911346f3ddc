"""Checks for the exercises on noise: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable
from math import comb

import numpy as np

from tinytorch.chapters.checking import exercise_check, returned_number
from tinytorch.core.op import Array

#: How much more variance than the best plan's a reader's plan may have: the best one need not be a whole number.
_TOLERANCE = 1.02


@exercise_check
def check_samples_outside(function: Callable[[int, int], int | None]) -> None:
    """Return "... passed" if ``function(samples, comparisons)`` is how many samples an interval leaves out on a side.

    All intervals of so many comparisons are to hold their medians together with a chance of at least 0.95, by
    Bonferroni; None where not even the extremes do.
    """
    for samples in (*range(2, 30), 60, 101):
        for comparisons in (1, 2, 5, 14, 100):
            allowed = [
                outside
                for outside in range(samples // 2)
                if 2 * sum(comb(samples, k) for k in range(outside + 1)) / 2**samples <= 0.05 / comparisons
            ]
            truth = max(allowed, default=None)
            answer = function(samples, comparisons)
            case = f"{samples} samples, {comparisons} comparisons"
            assert answer == truth, f"{case}: an interval leaves out {truth} on each side, not {answer!r}"


@exercise_check
def check_effective_sample_size(function: Callable[[Array, int], float]) -> None:
    """Return "... passed" if ``function(times, block)`` returns the effective sample size of the ``times``.

    That is their number over the variance inflation: the variance of the number of calls above the median in blocks
    of ``block`` calls, over that of as many tosses of a coin.
    """
    draw = np.random.default_rng(0)
    for keeps in (0.0, 0.5, 0.9):
        noise = draw.normal(0, 1, 4000)
        for at in range(1, noise.size):
            noise[at] += keeps * noise[at - 1]
        times = np.exp(0.01 * noise) * 1e-3
        for block in (10, 25):
            heads = (times > np.median(times)).reshape(-1, block).sum(axis=1)
            truth = times.size * block / 4 / float(heads.var(ddof=1))
            case = f"{times.size} calls whose neighbours have a correlation of {keeps:g}, blocks of {block}"
            answer = returned_number(function(times, block), case)
            assert abs(answer / truth - 1) < 0.02, f"{case}: the size is {truth:.1f}, not {answer:.1f}"


@exercise_check
def check_pairs_needed(function: Callable[[float, float], int]) -> None:
    """Return "... passed" if ``function(scatter, difference)`` is the least number of pairs that find a difference.

    Pairs scatter by the standard deviation ``scatter``; the median of n of them by √(π/2n) times that. The difference
    is to be found in nine of ten cases: 1.96 and 1.28 deviations of the median away from none. It is six at least.
    """
    for scatter in (0.003, 0.02, 0.1):
        for difference in (0.002, 0.01, 0.05, 0.5):
            truth = max(6, int(np.ceil(np.pi / 2 * ((1.96 + 1.28) * scatter / difference) ** 2)))
            case = f"a scatter of {scatter:g} and a difference of {difference:g}"
            answer = returned_number(function(scatter, difference), case)
            assert answer == truth, f"{case}: {truth} pairs are needed, not {answer:g}"


@exercise_check
def check_calls_per_process(function: Callable[[float, float, float, float], int]) -> None:
    """Return "... passed" if ``function(start, call, between, within)`` is the best number of calls in each process.

    A process takes ``start`` seconds before its first timed call and ``call`` seconds for each; ``between`` is the
    standard deviation of what processes draw, ``within`` that of calls in one. The mean over N processes of n calls has
    the variance (between² + within² / n) / N, and costs N (start + n call) seconds: for one budget the product of the
    two is to be least.
    """
    draw = np.random.default_rng(0)
    # Of the last one call is best: by the formula less than half of one.
    given = [10 ** draw.uniform((-1, -4, -4, -3), (1, -2, -2, -1)) for _ in range(40)]
    for numbers in (*given, np.array([1e-3, 0.1, 0.1, 0.01])):
        start, call, between, within = (float(number) for number in numbers)
        calls = np.arange(1, 200_001)
        cost = (between**2 + within**2 / calls) * (start + calls * call)
        case = f"start {start:.3g} s, call {call:.3g} s, between {between:.3g}, within {within:.3g}"
        answer = returned_number(function(start, call, between, within), case)
        assert answer == int(answer) >= 1, f"{case}: the answer must be a number of calls, not {answer:g}"
        found = (between**2 + within**2 / answer) * (start + answer * call)
        best = int(calls[cost.argmin()])
        assert found <= _TOLERANCE * cost.min(), (
            f"{case}: {best} calls are best, not {answer:g}, which have {found / cost.min():.3g} times the variance"
        )
