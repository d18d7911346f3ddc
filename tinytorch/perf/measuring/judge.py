"""The judge: the verdicts, and what turns measurements and the ends of a claim into one of them.

A verdict rests on the interval that a reader sees, `Measurement.interval`, which knows how many samples there are, how
they depend on one another and what repeats differ by; comparisons (`tinytorch.perf.measuring.comparison`) rest on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Measurement, difference
from tinytorch.perf.measuring.statistics import Interval

#: Ends of a measurement for which a word stands; None leaves a side open.
Ends = tuple[float | None, float | None]


class Verdict(StrEnum):
    """Every verdict of the book: on a claim, on a comparison of times, bytes or right answers, or none at all."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    FASTER = "faster"
    SLOWER = "slower"
    SMALLER = "smaller"
    LARGER = "larger"
    BETTER = "better"
    WORSE = "worse"
    #: The interval holds no difference, and stays within the difference that matters.
    NO_DIFFERENCE = "no difference"
    #: What was measured decides nothing: the words beside it say what is known.
    OPEN = "open"
    #: Other programs took the machine's time meanwhile, so that nothing is said.
    WITHHELD = "withheld"

    @property
    def is_decided(self) -> bool:
        """Whether it says something of the subject: no difference does."""
        return self not in (Verdict.OPEN, Verdict.WITHHELD)


#: The verdicts that a claim can have, in the order in which a ledger counts them.
OF_CLAIMS = (Verdict.SUPPORTED, Verdict.REFUTED, Verdict.OPEN, Verdict.WITHHELD)


@dataclass(frozen=True, slots=True)
class Test:
    """One measurement held against the ends between which its median is to lie.

    Attributes:
        measurement: what was measured.
        low, high: the ends; None where a side is open.
        verdict: supported, refuted, or open.
    """

    measurement: Measurement
    low: float | None
    high: float | None
    verdict: Verdict

    @property
    def interval(self) -> Interval | None:
        """The interval that the verdict rests on; None of a single sample."""
        one = self.measurement
        return one.interval if one.has_interval or one.is_counted else None

    @property
    def end_inside(self) -> float | None:
        """The end that lies in the interval of an open test, the nearest to the median; None if none does."""
        ends = [end for end in (self.low, self.high) if end is not None and self.interval and end in self.interval]
        return min(ends, key=lambda end: abs(end - self.measurement.median), default=None)

    @property
    def samples_needed(self) -> int | None:
        """About how many samples in all would decide an open test, if the median stays; None if no number would.

        What samples of one run err by shrinks with the root of their number, what runs differ by does not.
        """
        one, end = self.measurement, self.end_inside
        if self.interval is None or end is None:
            return None
        apart, reached = abs(end - one.median), max(one.median - self.interval.low, self.interval.high - one.median)
        fixed = abs(one.median) * one.spread_between_runs * 1.96
        if apart <= fixed or not math.isfinite(reached):
            return None
        return math.ceil(one.n * max(1.0, (reached**2 - fixed**2) / (apart**2 - fixed**2)))


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with the tests that it rests on.

    Attributes:
        verdict: what was found.
        tests: each measurement with its ends; none where code chose by counting alone.
        word: what a page says in the place of the verdict, such as "linear"; empty for the verdict itself.
        counted: whether it was decided by counting, without a test.
        choices: words between which it is open, if not all are left.
    """

    verdict: Verdict
    tests: tuple[Test, ...] = ()
    word: str = ""
    counted: bool = False
    choices: tuple[str, ...] = ()

    @property
    def open_test(self) -> Test | None:
        """The first test that leaves it open; None if none does."""
        return next((test for test in self.tests if test.verdict is Verdict.OPEN), None)

    @property
    def is_fixed(self) -> bool:
        """Whether no measurement could turn it: all that was tested was counted."""
        return all(test.measurement.is_counted for test in self.tests) if self.tests else self.counted

    def called(self, *, supported: str, refuted: str) -> Judgement:
        """Return the same, which a page calls by these words."""
        words = {Verdict.SUPPORTED: supported, Verdict.REFUTED: refuted}
        return replace(self, word=words.get(self.verdict, ""))

    def __str__(self) -> str:
        return self.word or " or ".join(self.choices) or self.verdict.value


def decided(holds: bool) -> Judgement:
    """Return the verdict on a claim that counting or algebra decides: supported if it ``holds``, else refuted."""
    return Judgement(Verdict.SUPPORTED if holds else Verdict.REFUTED, counted=True)


def verdict_between(
    measurement: Measurement, low: float | None = None, high: float | None = None, *, strict: bool = False
) -> Judgement:
    """Return whether the measurement's median lies from ``low`` to ``high``, as far as its interval can tell.

    Supported if the whole interval lies between them, refuted if none of it does, and open if an end falls inside of
    it. Of a single sample that was not counted it is open. What is read together with others has the level of its
    interval corrected before: see `Measurement.together`.

    Args:
        measurement: what was measured.
        low, high: the ends of the claim; None leaves that side open.
        strict: whether the ends themselves lie outside: to beat is more than to equal.

    Raises:
        ValueError: if both ends are None, or ``low`` is above ``high``.

    Examples:
        >>> from tinytorch.perf.measuring import Counted
        >>> from tinytorch.report import verdict_between
        >>> str(verdict_between(Counted(3, "bytes", "a size"), low=2, high=4).verdict)
        'supported'
    """
    if low is None and high is None:
        raise ValueError("low or high must be given: without them every number would support the claim")
    if low is not None and high is not None and low > high:
        raise ValueError(f"low must not be above high, but {low} > {high}")
    test = Test(measurement, low, high, Verdict.OPEN)
    if test.interval is not None:
        test = replace(test, verdict=_between(test.interval, low, high, strict))
    return Judgement(test.verdict, (test,))


def _between(reach: Interval, low: float | None, high: float | None, strict: bool) -> Verdict:
    # By how much an end lies inside of the claim; where bounds are strict, an end on one lies outside.
    above = [(reach.low - low, reach.high - low)] if low is not None else []
    below = [(high - reach.high, high - reach.low)] if high is not None else []
    if any(most < 0 or (strict and most == 0) for _, most in above + below):
        return Verdict.REFUTED
    if all(least > 0 or (not strict and least == 0) for least, _ in above + below):
        return Verdict.SUPPORTED
    return Verdict.OPEN


def why_undecided(test: Test, shown: Callable[[float], str] = "{:g}".format) -> str:
    """Return in words why an open test decides nothing.

    Args:
        test: an open one.
        shown: returns one of the test's ends as it is shown.

    Raises:
        ValueError: if it is not open.
    """
    if test.verdict is not Verdict.OPEN:
        raise ValueError(f"test must be open to be undecided, but it is {test.verdict}")
    if test.end_inside is None:
        return "one sample does not show how much samples vary"
    return f"its interval contains {shown(test.end_inside)}"


def verdict_between_all(
    measurements: Iterable[Measurement], low: float | None = None, high: float | None = None, *, strict: bool = False
) -> Judgement:
    """Return the verdict on a claim that the medians of all measurements lie from ``low`` to ``high``.

    Refuted if one of them does not, supported if each does, as far as the interval of each can tell. Arguments are
    those of `verdict_between`.

    Raises:
        ValueError: as `verdict_between`.
    """
    return verdict_of_all(verdict_between(one, low, high, strict=strict) for one in measurements)


def verdict_of_all(parts: Iterable[Judgement]) -> Judgement:
    """Return the verdict on a claim of several parts: refuted if one is, supported if all are, else open."""
    return _combined(parts, Verdict.REFUTED, Verdict.SUPPORTED)


def verdict_of_any(parts: Iterable[Judgement]) -> Judgement:
    """Return the verdict on a claim that one of several holds: supported if one is, refuted if all are, else open."""
    return _combined(parts, Verdict.SUPPORTED, Verdict.REFUTED)


def _combined(parts: Iterable[Judgement], one_is_enough: Verdict, takes_all: Verdict) -> Judgement:
    """Return the verdict on all parts; the tests of those that decide it come first."""
    each = list(parts)
    found = [part.verdict for part in each]
    if one_is_enough in found:
        verdict = one_is_enough
    else:
        verdict = takes_all if found and set(found) == {takes_all} else Verdict.OPEN
    deciding_first = sorted(each, key=lambda part: part.verdict is not verdict)
    tests = tuple(test for part in deciding_first for test in part.tests)
    return Judgement(verdict, tests, counted=bool(each) and all(part.counted for part in each))


#: A function on one thread that has less of a core than this waited for it, or for something else.
WHOLE_CORE = 0.9
#: Cores that other processes keep busy in the mean, from which on they are what it waited for.
BUSY_CORES = 0.2


def word_between(measurement: Measurement, words: Mapping[str, Ends]) -> Judgement:
    """Return the word between whose ends ``measurement`` is proven to lie, ends excluded.

    Where it is open it names the words that are left, if that leaves out any.

    Args:
        measurement: what was measured.
        words: each with its ends, which do not overlap.
    """
    found = {word: verdict_between(measurement, low, high, strict=True) for word, (low, high) in words.items()}
    for word, one in found.items():
        if one.verdict is Verdict.SUPPORTED:
            return Judgement(Verdict.SUPPORTED, one.tests, word)
    left = [word for word, one in found.items() if one.verdict is Verdict.OPEN]
    tests: tuple[Test, ...] = found[left[0]].tests if left else next(iter(found.values())).tests
    return Judgement(Verdict.OPEN, tests, choices=tuple(left) if 1 < len(left) < len(words) else ())


def largest(found: Mapping[str, Measurement]) -> Judgement:
    """Return the name of the measurement that is proven larger than each other; open if none is.

    Args:
        found: by name, all taken in turns.

    Raises:
        ValueError: if there are fewer than two, or two of them were not taken in turns.
    """
    if len(found) < 2:
        raise ValueError(f"found must hold at least two measurements to compare, not {len(found)}")
    name = max(found, key=lambda name: found[name].median)
    leads = {key: difference(found[name], other, f"lead of {name}") for key, other in found.items() if key != name}
    tested = {key: verdict_between(lead.together(len(leads)), low=0.0, strict=True) for key, lead in leads.items()}
    proven = verdict_of_all(tested.values())
    left = [key for key, one in tested.items() if one.verdict is not Verdict.SUPPORTED]
    verdict = Verdict.SUPPORTED if not left else Verdict.OPEN
    if verdict is Verdict.SUPPORTED:
        return Judgement(verdict, proven.tests, name)
    return Judgement(verdict, proven.tests, choices=(name, *left) if len(left) < len(leads) else ())


def had_less_than_a_core(conditions: Conditions) -> bool | None:
    """Return whether what was timed on one thread had less than a core; None if its conditions do not say.

    Of what has several sides it is the one that had least, and one side on one thread is enough.
    """
    if conditions.cpu_per_wall is None or all(one.blas_threads != 1 for one in conditions.leaves()):
        return None
    return conditions.cpu_per_wall < WHOLE_CORE


def is_disturbed(measured: Iterable[Conditions], others: float) -> bool:
    """Return whether one of ``measured`` lacked its core because others were at work.

    It may have waited for a process of its own or for a disk, so it takes both to say so.

    Args:
        measured: conditions of measurements.
        others: cores that other processes kept busy meanwhile, in the mean: see `BackgroundLoad`.
    """
    return others >= BUSY_CORES and any(had_less_than_a_core(one) for one in measured)


#: Cores that other programs kept busy more of during one of two measurements, from which on these were taken under
#: different loads, unless their own times say that each had its core.
_OTHER_LOAD = 0.5


def why_incomparable(
    before: Iterable[Conditions], after: Iterable[Conditions], others: tuple[float, float]
) -> str | None:
    """Return why times of two separate runs give no verdict, as others disturbed one of them; None if they may.

    Args:
        before, after: conditions of the measurements of the one run and of the other.
        others: cores that other processes kept busy during each, in the mean.
    """
    sides = [list(before), list(after)]
    load = f"other programs kept {others[0]:.1f} and {others[1]:.1f} cores busy"
    if any(is_disturbed(measured, busy) for measured, busy in zip(sides, others, strict=True)):
        return f"one of the two had less than a whole core while {load}"
    if None in map(had_less_than_a_core, sides[0] + sides[1]) and abs(others[0] - others[1]) > _OTHER_LOAD:
        return f"they were measured under different loads: {load}"
    return None
