"""Two of a kind: by how much one is faster, smaller or better than the other, and the verdict that this supports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Verdict, bonferroni
from tinytorch.perf.measuring.measurement import CONFIDENCE, TIMES, Measurement, Statistic, quotient, ratio
from tinytorch.perf.measuring.statistics import (
    FEWEST_FOR_INTERVAL,
    Dependence,
    Interval,
    Samples,
    checked,
    independent,
    median,
)
from tinytorch.perf.measuring.values import Derived


class Quantity(Enum):
    """What is compared: the verdict on more of it for the candidate, that on less, and whether it is a difference."""

    TIME = (Verdict.FASTER, Verdict.SLOWER, False)
    BYTES = (Verdict.SMALLER, Verdict.LARGER, False)
    ACCURACY = (Verdict.BETTER, Verdict.WORSE, True)

    @property
    def more(self) -> Verdict:
        """Verdict on a ratio above 1, or on a difference above 0."""
        return self.value[0]

    @property
    def less(self) -> Verdict:
        """Verdict on a ratio below 1, or on a difference below 0."""
        return self.value[1]

    @property
    def is_difference(self) -> bool:
        """Whether it is compared by a difference of shares, and not by a ratio."""
        return self.value[2]

    def amount(self, end: float, *, up: bool = True) -> str:
        """Return how far ``end`` is from no difference, in words: "16 %", "2.4 times", "1.2 points"; rounded outwards.

        Args:
            end: a ratio, or a difference of shares.
            up: whether it is rounded up, as the bound of a difference is.
        """
        if self.is_difference:
            return f"{_rounded(100 * abs(end), up)} points"
        factor = max(end, 1 / end)
        return f"{_rounded(100 * (factor - 1), up)} %" if factor < 2 else f"{_rounded(factor, up)} times"


def _rounded(value: float, up: bool) -> str:
    """Return a number above 0 with two digits, rounded up or to the nearest."""
    if not value:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    steps = math.ceil(value / step - 1e-9) if up else round(value / step)
    return f"{float(f'{steps * step:.12g}'):g}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of a candidate with a baseline: an estimate with its reach, and the word where that decides it.

    Attributes:
        baseline, candidate: names of what ran.
        estimate: of times and bytes baseline / candidate, above 1 is faster or smaller; of right answers the share of
            the candidate less that of the baseline. Of paired times its samples are the ratios in the order in which
            they were taken, its median that of the log-ratios, its interval that of `ratio`, with the confidence
            corrected for ``compared``, its conditions those of both sides.
        reach: the interval that the verdict rests on, `Measurement.verdict_interval`; None with too few samples.
        verdict: faster or slower if no difference lies outside of the reach; no difference if the reach holds it and
            stays within ``matters``; else open.
        matters: the difference that would make a reader act otherwise: relative of a ratio, else of the shares. 0 if
            every difference matters, so that no difference can never be found.
        because: why the verdict is what it is, in words.
        quantity: what is compared.
        wins: pairs in which the candidate was the better one.
        dependence: how independent the pairs are of one another.
        compared: how many comparisons the confidence of the interval was corrected for.
        pairs_are: what each sample comes from: "pairs" of neighbouring times, or "processes".
    """

    baseline: str
    candidate: str
    estimate: Statistic
    reach: Interval | None
    verdict: Verdict
    matters: float
    because: str
    quantity: Quantity
    wins: int
    dependence: Dependence
    compared: int = 1
    pairs_are: str = "pairs"

    @property
    def n(self) -> int:
        """Number of pairs."""
        return self.estimate.n

    @property
    def interval(self) -> Interval:
        """Interval of the estimate."""
        return self.estimate.interval

    @property
    def is_fixed(self) -> bool:
        """Whether no measurement could turn it: both sides were counted."""
        return self.interval.confidence == 1 and self.interval.low == self.interval.high

    def __float__(self) -> float:
        """Return the estimate."""
        return self.estimate.median

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __str__(self) -> str:
        """Return what is known, as a page says it in the place of a verdict: "faster", "no difference beyond 3 %"."""
        if self.verdict is Verdict.NO_DIFFERENCE and self.reach is not None:
            return f"no difference beyond {self._farthest(self.reach)}"
        if self.verdict is Verdict.OPEN:
            return self._known()
        return self.verdict.value

    def __repr__(self) -> str:
        """Return the estimate, and of which of the two the verdict is: it holds whichever was divided by the other."""
        low, high = self.interval.low, self.interval.high
        decided = self.verdict in (self.quantity.more, self.quantity.less)
        said = f"{self.candidate} is {self.verdict}" if decided else str(self)
        if self.quantity.is_difference:
            by = f"{100 * float(self):+.2f} points ({100 * low:+.2f} to {100 * high:+.2f})"
            return f"{self.candidate} less {self.baseline}: {by}: {said}"
        times = "times as long as" if self.quantity is Quantity.TIME else "times the bytes of"
        return f"{self.baseline} takes {float(self):.3g} {times} {self.candidate} ({low:.3g} to {high:.3g}): {said}"

    @property
    def by_little(self) -> str:
        """Of a decided difference that may be less than what matters, that it may be; else empty."""
        if self.reach is None or self.verdict not in (self.quantity.more, self.quantity.less):
            return ""
        below, above = self._margins
        near, far = (self.reach.low, self.reach.high)[:: 1 if self.verdict is self.quantity.more else -1]
        if not below < near < above:
            return ""
        surely = "" if below < far < above else "perhaps "
        return f"{surely}by less than the {self.quantity.amount(above)} that matters here"

    def sentence(self) -> str:
        """Return the verdict with its numbers in one sentence."""
        low, high = self.interval.low, self.interval.high
        if self.verdict in (self.quantity.more, self.quantity.less):
            little = f", {self.by_little}" if self.by_little else ""
            said = f"{self.candidate} is {self.verdict} than {self.baseline}{little}"
        elif self.verdict is Verdict.NO_DIFFERENCE:
            said = f"{self.candidate} and {self.baseline} show {self}"
        else:
            said = f"{self.candidate} beside {self.baseline} is {self}"
        corrected = f", corrected for {self.compared} comparisons" if self.compared > 1 else ""
        what = "difference" if self.quantity.is_difference else "ratio"
        return (
            f"{said}: the {what} is {float(self):.4g}, from {low:.4g} to {high:.4g} "
            f"({self.interval.confidence:.0%} interval, {self.n} {self.pairs_are}{corrected}), and {self.because}."
        )

    @property
    def is_gain(self) -> bool:
        """Whether the candidate is surely better by more than the difference that matters."""
        return self.reach is not None and self.verdict.is_decided and self.reach.low > self._margins[1]

    @property
    def is_loss(self) -> bool:
        """Whether the candidate is surely worse by more than the difference that matters."""
        return self.reach is not None and self.verdict.is_decided and self.reach.high < self._margins[0]

    @property
    def is_no_gain(self) -> bool:
        """Whether the candidate is surely not better by more than the difference that matters."""
        return self.reach is not None and self.verdict is not Verdict.WITHHELD and self.reach.high <= self._margins[1]

    @property
    def is_no_loss(self) -> bool:
        """Whether the candidate is surely not worse by more than the difference that matters."""
        return self.reach is not None and self.verdict is not Verdict.WITHHELD and self.reach.low >= self._margins[0]

    @property
    def _margins(self) -> tuple[float, float]:
        return _margins(self.quantity, self.matters)

    def hidden_by(self, floor: float) -> Comparison:
        """Return the same where ``floor``, a ratio above 1, is the least that can be told from 1 here.

        A ratio nearer to 1 is no proof of a difference, and what bounds a difference is not below the floor.
        """
        if self.reach is None or self.verdict is Verdict.WITHHELD or self.quantity is not Quantity.TIME:
            return self
        value = float(self)
        if self.verdict in (Verdict.FASTER, Verdict.SLOWER) and max(value, 1 / value) >= floor:
            return self
        reach = replace(self.reach, low=min(self.reach.low, 1 / floor), high=max(self.reach.high, floor))
        if reach == self.reach:
            return self
        verdict, _ = judged_interval(reach, self.matters, self.quantity)
        because = f"the same code against itself shows ratios up to {floor:.4g} here"
        return replace(self, reach=reach, verdict=verdict, because=because)

    def withheld(self, because: str) -> Comparison:
        """Return the same without a verdict, for the reason that is given."""
        return replace(self, verdict=Verdict.WITHHELD, because=because)

    def _farthest(self, reach: Interval) -> str:
        amount, none = self.quantity.amount, 0.0 if self.quantity.is_difference else 1.0
        if self.quantity.is_difference:
            return amount(max(reach.high - none, none - reach.low))
        return amount(max(reach.high, 1 / reach.low))

    def _known(self) -> str:
        if self.reach is None:
            return f"open, as {self.n} {self.pairs_are} are too few"
        low, high, amount = self.reach.low, self.reach.high, self.quantity.amount
        below, above = _margins(self.quantity, min(self.matters, _NOTHING))
        none = 0.0 if self.quantity.is_difference else 1.0
        more = f"{amount(high)} {self.quantity.more}" if high > none else ""
        less = f"{amount(low)} {self.quantity.less}" if low < none else ""
        if more and low >= below:
            return f"up to {more}, perhaps nothing"
        if less and high <= above:
            return f"up to {less}, perhaps nothing"
        return f"between {less} and {more}"


#: A difference up to which words say "perhaps nothing", even where only a larger one matters.
_NOTHING = 0.05


def _margins(quantity: Quantity, matters: float) -> tuple[float, float]:
    """Return the ends between which a difference does not matter."""
    return (-matters, matters) if quantity.is_difference else (1 / (1 + matters), 1 + matters)


def judged_interval(reach: Interval, matters: float, quantity: Quantity = Quantity.TIME) -> tuple[Verdict, str]:
    """Return the verdict that an interval supports, of ratios baseline / candidate or of differences, and why."""
    none = 0.0 if quantity.is_difference else 1.0
    below, above = _margins(quantity, matters)
    if reach.low > none:
        return quantity.more, f"all of the interval lies above {none:g}"
    if reach.high < none:
        return quantity.less, f"all of the interval lies below {none:g}"
    if matters and below <= reach.low and reach.high <= above:
        return (
            Verdict.NO_DIFFERENCE,
            f"the interval holds {none:g} and stays within the {quantity.amount(above)} that matter",
        )
    if not matters:
        return Verdict.OPEN, f"the interval holds {none:g}"
    return Verdict.OPEN, f"the interval holds {none:g} and reaches beyond the {quantity.amount(above)} that matter"


def compare_paired(
    baseline: Measurement | Samples,
    candidate: Measurement | Samples,
    matters: float,
    *,
    confidence: float = CONFIDENCE,
    compared: int = 1,
) -> Comparison:
    """Return the ratio baseline / candidate of paired times with the verdict that its interval supports.

    The i-th times of both must be neighbours, as `tinytorch.perf.measuring.interleave` takes them. The interval is that
    of their `ratio`. No verdict is given on fewer than six pairs, and where noise that wanders cannot be ruled out,
    none on a difference that such noise could make: see `Measurement.verdict_interval`.

    Args:
        baseline: times of the old version: a `Measurement`, or numbers above 0.
        candidate: times of the new version, as many.
        matters: relative difference that would make a reader act otherwise: 0.05 is five per cent; 0 if each does.
        confidence: coverage of the interval, between 0 and 1, already corrected for ``compared`` comparisons.
        compared: how many comparisons the confidence is shared by.

    Raises:
        ValueError: if the times are not pairs, not above 0 or rates, or an argument is out of its range.
    """
    _check(matters, confidence)
    if isinstance(baseline, Measurement) and isinstance(candidate, Measurement):
        if baseline.unit not in TIMES:
            raise ValueError(f"baseline must be times, in one of {', '.join(TIMES)}, not in {baseline.unit!r}")
    elif isinstance(baseline, Measurement) or isinstance(candidate, Measurement):
        raise ValueError("baseline and candidate must both be Measurements or both be sequences of times")
    else:
        baseline, candidate = _interleaved(baseline, candidate)
    for side, times in (("baseline", baseline), ("candidate", candidate)):
        _times(times.samples, side)
    names = (baseline.name, candidate.name)
    return judged(ratio(baseline, candidate), names, matters, confidence, compared=compared)


def compare_all(baseline: Measurement, *candidates: Measurement, matters: float) -> dict[str, Comparison]:
    """Return each candidate's `Comparison` with one baseline, by name, corrected for their number.

    All must come from one call of `interleave`. With m candidates each interval has the confidence
    1 - (1 - confidence) / m (Bonferroni), so that all of them hold together with ``confidence``.

    Raises:
        ValueError: as `compare_paired` does; also if there is no candidate or two have one name.
    """
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"candidates must be at least one, each with a name of its own, not {names}")
    _check(matters, CONFIDENCE)
    each = bonferroni(CONFIDENCE, len(names))
    return {
        candidate.name: compare_paired(baseline, candidate, matters, confidence=each, compared=len(names))
        for candidate in candidates
    }


def compare_apart(
    baseline: Measurement,
    candidate: Measurement,
    matters: float,
    *,
    names: tuple[str, str],
    confidence: float = CONFIDENCE,
    compared: int = 1,
) -> Comparison:
    """Return the ratio baseline / candidate of times of two separate runs, each with what repeats differ by.

    Few runs in a row never rule out noise that wanders from one to the next: then a difference is told only if each
    time of one side also lies beyond all times of the other.

    Args:
        baseline, candidate: seconds.
        matters, confidence, compared: those of `compare_paired`.
        names: what the two are called.
    """
    _check(matters, confidence)
    speedup = quotient(baseline, candidate, f"speedup of {names[1]}")
    reach: Interval | None = speedup.interval_at(confidence)
    if min(baseline.n, candidate.n) < FEWEST_FOR_INTERVAL:
        reach = None
    elif baseline.minimum <= candidate.maximum and candidate.minimum <= baseline.maximum:
        reach = speedup.verdict_interval(confidence)
    made = compared_by(speedup, names, matters, Quantity.TIME, reach)
    return replace(made, compared=compared, pairs_are="runs")


def judged(
    ratios: Measurement,
    names: tuple[str, str],
    matters: float,
    confidence: float,
    *,
    compared: int = 1,
    pairs_are: str = "pairs",
) -> Comparison:
    """Return the `Comparison` that ratios of times, baseline / candidate, support.

    Args:
        ratios: of each pair of times; or of each process, with what that is in its conditions.
        names: of baseline and candidate.
        matters, confidence, compared: those of `compare_paired`.
        pairs_are: what each of the ratios comes from, in words.

    Raises:
        ValueError: if a ratio is not above 0, or ``matters`` or ``confidence`` is out of its range.
    """
    _check(matters, confidence)
    logs = np.log(_times(ratios.samples, "ratios"))
    reach = ratios.verdict_interval(confidence)
    verdict, because = _verdict(ratios, reach, matters, confidence, pairs_are)
    estimate = Statistic(
        f"{names[0]} / {names[1]}",
        ratios.samples,
        "",
        ratios.conditions.told_as("median of the log-ratios"),
        value=float(np.exp(median(logs))),
        bounds=ratios.interval_at(confidence),
    )
    wins = int((logs > 0).sum())
    found = ratios.dependence
    return Comparison(
        *names, estimate, reach, verdict, matters, because, Quantity.TIME, wins, found, compared, pairs_are
    )


def compared_by(
    estimate: Statistic, names: tuple[str, str], matters: float, quantity: Quantity, reach: Interval | None
) -> Comparison:
    """Return the `Comparison` of bytes or right answers that an estimate with the interval ``reach`` supports."""
    verdict, because = Verdict.OPEN, f"{estimate.n} samples are too few"
    if reach is not None:
        verdict, because = judged_interval(reach, matters, quantity)
    found = independent(estimate.n)
    return Comparison(*names, estimate, reach, verdict, matters, because, quantity, 0, found)


def _verdict(
    ratios: Measurement, reach: Interval | None, matters: float, confidence: float, pairs_are: str
) -> tuple[Verdict, str]:
    """Return the verdict and why, also where the interval would give one and what noise can reach does not."""
    if reach is None:
        return Verdict.OPEN, f"it takes {FEWEST_FOR_INTERVAL} to have an interval, but there are {ratios.n}"
    verdict, because = judged_interval(reach, matters)
    found = ratios.dependence
    if verdict is Verdict.OPEN and found.effective < FEWEST_FOR_INTERVAL:
        because = f"neighbours are alike, so that {found.n} {pairs_are} are worth {found.effective:.2g}"
    elif verdict is Verdict.OPEN and judged_interval(ratios.interval_at(confidence), matters)[0].is_decided:
        because = f"{found.n} {pairs_are} are too few for a confidence of {confidence:.2%}"
        if ratios.objection is not None:
            because = f"{found.n} {pairs_are} like these do not rule out noise that wanders as far"
    return verdict, because


def _interleaved(baseline: Samples, candidate: Samples) -> tuple[Measurement, Measurement]:
    """Return two sequences of times as measurements that were taken in turns."""
    before, after = checked(baseline, "baseline"), checked(candidate, "candidate")
    if before.size != after.size:
        raise ValueError(f"candidate must have as many times as baseline, {before.size}, not {after.size}")
    return (
        Measurement("baseline", tuple(before.tolist()), "s", Conditions(interleaved_with=("candidate",))),
        Measurement("candidate", tuple(after.tolist()), "s", Conditions(interleaved_with=("baseline",))),
    )


def _check(matters: float, confidence: float) -> None:
    if not 0 <= matters < math.inf:
        raise ValueError(f"matters must be at least 0, such as 0.05 for five per cent, not {matters}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")


def _times(samples: Sequence[float], name: str) -> Sequence[float]:
    if not min(samples) > 0:
        raise ValueError(f"{name} must be times above 0, but {min(samples)} is among them")
    return samples


def proven_from(
    pairs: Mapping[int, tuple[Measurement, Measurement]], matters: float, what: str, unit: str
) -> Derived | None:
    """Return the smallest number from which on the second of a pair is proven to be faster than the first, if any is.

    Args:
        pairs: times in turns by the numbers that were tried, such as widths.
        matters: the relative difference of times that matters, such as 0.05.
        what, unit: what that number is.

    Examples:
        >>> from tinytorch.perf.measuring import from_turns
        >>> from tinytorch.perf.measuring.conditions import Conditions
        >>> from tinytorch.perf.measuring.comparison import proven_from
        >>> taken = {"slow": [2.0 + 0.01 * i for i in range(9)], "fast": [1.0 + 0.01 * i for i in range(9)]}
        >>> made = from_turns(taken, sample="rounds", conditions=Conditions())
        >>> pair, turned = (made["slow"], made["fast"]), (made["fast"], made["slow"])
        >>> proven_from({8: pair, 16: turned, 32: pair}, 0.05, "width", "numbers").value
        32
    """
    smallest = None
    for number in sorted(pairs, reverse=True):
        if compare_paired(*pairs[number], matters=matters).verdict is not Verdict.FASTER:
            break
        smallest = number
    every = tuple(one for pair in pairs.values() for one in pair)
    return None if smallest is None else Derived(smallest, unit, what, every, "it is one of the numbers tried")
