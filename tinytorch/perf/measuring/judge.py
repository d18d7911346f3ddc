"""The judge: the verdict words, what turns measurements and the ends of a claim into one of them, and what none may.

A verdict rests on `Measurement.verdict_interval`, which knows how many samples there are, how they depend on one
another and what repeats differ by; comparisons (`tinytorch.perf.measuring.comparison`) rest on the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tinytorch.perf.measuring.measurement import CONFIDENCE, Measurement
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

SUPPORTED: Final = "supported"
REFUTED: Final = "refuted"
CANNOT_TELL: Final = "cannot tell here"
#: The verdicts that a claim can have, in the order in which a ledger counts them.
VERDICTS = (SUPPORTED, REFUTED, CANNOT_TELL)


def verdict_between(
    measurement: Measurement,
    low: float | None = None,
    high: float | None = None,
    *,
    strict: bool = False,
    together: int = 1,
) -> str:
    """Return whether the measurement's median lies from ``low`` to ``high``, as far as its interval can tell.

    `SUPPORTED` if the whole interval lies between them, `REFUTED` if none of it does, and `CANNOT_TELL` if an end falls
    inside of it. The interval is `Measurement.verdict_interval`; without one, below six samples that were not counted,
    nothing can be told.

    Args:
        measurement: what was measured.
        low, high: the ends of the claim; None leaves that side open.
        strict: whether the ends themselves lie outside: to beat is more than to equal.
        together: how many comparisons a reader takes together, for which the confidence is corrected (Bonferroni).

    Raises:
        ValueError: if both ends are None, ``low`` is above ``high``, or ``together`` is below 1.
    """
    if low is None and high is None:
        raise ValueError("low or high must be given: without them every number would support the claim")
    if low is not None and high is not None and low > high:
        raise ValueError(f"low must not be above high, but {low} > {high}")
    interval = measurement.verdict_interval(corrected(CONFIDENCE, together))
    if interval is None:
        return CANNOT_TELL
    # By how much an end lies inside of the claim; where bounds are strict, an end on one lies outside.
    above = [(interval.low - low, interval.high - low)] if low is not None else []
    below = [(high - interval.high, high - interval.low)] if high is not None else []
    if any(most < 0 or (strict and most == 0) for _, most in above + below):
        return REFUTED
    if all(least > 0 or (not strict and least == 0) for least, _ in above + below):
        return SUPPORTED
    return CANNOT_TELL


def doubt(measurement: Measurement, end: float) -> str:
    """Return in words why `verdict_between`, without correction, cannot tell which side of ``end`` the median is on.

    Few samples, an interval that holds the end, or noise that may wander farther than the interval that is shown.

    Raises:
        ValueError: if it can tell.
    """
    reach, shown = measurement.verdict_interval(), measurement.interval
    if reach is None:
        return f"it takes {FEWEST_FOR_INTERVAL} samples to judge by, but there are {measurement.n}"
    if not reach.low <= end <= reach.high:
        raise ValueError(f"end must lie from {reach.low:.3g} to {reach.high:.3g} to leave a doubt, not {end}")
    if shown.low <= end <= shown.high:
        return f"its interval holds {end:g}"
    objection = measurement.dependence.objection
    return f"{objection} as far as {end:g}" if objection else f"{measurement.n} samples do not rule out {end:g}"


def corrected(confidence: float, together: int) -> float:
    """Return the confidence of each of ``together`` intervals that all hold with ``confidence`` (Bonferroni).

    Raises:
        ValueError: if ``together`` is below 1.
    """
    if together < 1:
        raise ValueError(f"together must be at least 1, not {together}")
    return 1 - (1 - confidence) / together


def verdict_between_all(
    measurements: Iterable[Measurement], low: float | None = None, high: float | None = None, *, strict: bool = False
) -> str:
    """Return the verdict on a claim that the medians of all measurements lie from ``low`` to ``high``.

    `REFUTED` if one of them is, with the confidence corrected for their number, for any of them might have been.
    `SUPPORTED` if each is, without correction, for it takes all of them. Arguments are those of `verdict_between`.

    Raises:
        ValueError: as `verdict_between`.
    """
    each = list(measurements)
    together = max(1, len(each))
    if REFUTED in [verdict_between(one, low, high, strict=strict, together=together) for one in each]:
        return REFUTED
    found = [verdict_between(one, low, high, strict=strict) for one in each]
    return SUPPORTED if found and set(found) == {SUPPORTED} else CANNOT_TELL


def verdict_of_all(verdicts: Iterable[str]) -> str:
    """Return the verdict on a claim of several parts: `REFUTED` if one is, `SUPPORTED` if all are, else `CANNOT_TELL`.

    Raises:
        ValueError: if one of them is no verdict.
    """
    parts = set(verdicts)
    if not parts <= set(VERDICTS):
        raise ValueError(f"verdicts must be {', '.join(VERDICTS)}, not {', '.join(sorted(parts - set(VERDICTS)))}")
    if REFUTED in parts:
        return REFUTED
    return SUPPORTED if parts == {SUPPORTED} else CANNOT_TELL


#: A function on one thread that has less of a core than this waited for it, or for something else.
WHOLE_CORE = 0.9
#: Cores that other processes keep busy in the mean, from which on they are what it waited for.
BUSY_CORES = 0.2


def had_less_than_a_core(number: Mapping[str, Any]) -> bool | None:
    """Return whether a timed number on one thread had less than a core; None if its conditions do not say.

    Of a ratio it is the side that had less, and one side on one thread is enough.
    """
    how = number.get("how", {})
    threads = how.get("blas_threads")
    if 1 not in (threads.values() if isinstance(threads, Mapping) else [threads]) or "cpu_per_wall" not in how:
        return None
    return bool(how["cpu_per_wall"] < WHOLE_CORE)


def is_disturbed(numbers: Iterable[Mapping[str, Any]], others: float) -> bool:
    """Return whether one of ``numbers`` lacked its core because others were at work.

    A number may have waited for a process of its own or for a disk, so it takes both to say so.

    Args:
        numbers: records of numbers.
        others: cores that other processes kept busy meanwhile, in the mean: see `Neighbours`.
    """
    return others >= BUSY_CORES and any(had_less_than_a_core(number) for number in numbers)


#: Cores that other programs kept busy more of during one of two measurements, from which on these were taken under
#: different loads, unless their own times say that each had its core.
_OTHER_LOAD = 0.5


def objection(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]], others: tuple[float, float]
) -> str | None:
    """Return why times of two separate runs give no verdict, as others disturbed one of them; None if they may.

    Args:
        before, after: records of numbers of the one run and of the other.
        others: cores that other processes kept busy during each, in the mean.
    """
    sides = [list(before), list(after)]
    load = f"other programs kept {others[0]:.1f} and {others[1]:.1f} cores busy"
    if any(is_disturbed(numbers, busy) for numbers, busy in zip(sides, others, strict=True)):
        return f"one of the two had less than a whole core while {load}"
    if None in map(had_less_than_a_core, sides[0] + sides[1]) and abs(others[0] - others[1]) > _OTHER_LOAD:
        return f"they were measured under different loads: {load}"
    return None
