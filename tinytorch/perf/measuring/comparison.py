"""Two of a kind: by how much one is faster, smaller or better than the other, and the verdict that this supports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.measurement import TIMES, Measurement, quotient, ratio
from tinytorch.perf.measuring.statistics import Interval, Samples, checked
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

    def amount(self, end: float) -> str:
        """Return how far a ratio, or a difference of shares, is from none, rounded up: "16 %", "2.4 times"."""
        if self.is_difference:
            return f"{_rounded_up(100 * abs(end))} points"
        factor = max(end, 1 / end)
        return f"{_rounded_up(100 * (factor - 1))} %" if factor < 2 else f"{_rounded_up(factor)} times"


def _rounded_up(value: float) -> str:
    """Return a number above 0 with two digits."""
    if not value:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{float(f'{math.ceil(value / step - 1e-9) * step:.12g}'):g}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Comparison of a candidate with a baseline: an estimate, and the word where its interval decides one.

    Attributes:
        baseline, candidate: names of what ran.
        estimate: of times and bytes baseline / candidate, above 1 is faster or smaller; of right answers the share of
            the candidate less that of the baseline. Its interval is what the verdict rests on, at a level that is
            corrected where several comparisons are read together.
        verdict: faster or slower if no difference lies outside of the interval; no difference if the interval holds it
            and stays within ``matters``; else open.
        matters: the difference that would make a reader act otherwise: relative of a ratio, else of the shares. 0 if
            every difference matters, so that no difference can never be found.
        because: why the verdict is what it is, in words.
        quantity: what is compared.
    """

    baseline: str
    candidate: str
    estimate: Measurement
    verdict: Verdict
    matters: float
    because: str
    quantity: Quantity

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
        return self.estimate.is_counted

    def __float__(self) -> float:
        """Return the estimate."""
        return self.estimate.median

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __str__(self) -> str:
        """Return what is known, as a page says it in the place of a verdict: "faster", "no difference beyond 3 %"."""
        if self.verdict is Verdict.NO_DIFFERENCE:
            return f"no difference beyond {self._farthest()}"
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
        if self.verdict not in (self.quantity.more, self.quantity.less):
            return ""
        below, above = self._margins
        near, far = (self.interval.low, self.interval.high)[:: 1 if self.verdict is self.quantity.more else -1]
        if not below < near < above:
            return ""
        perhaps = "" if below < far < above else "perhaps "
        return f"{perhaps}by less than the {self.quantity.amount(above)} that matters here"

    def sentence(self) -> str:
        """Return the verdict with its numbers in one sentence."""
        low, high = self.interval.low, self.interval.high
        if self.verdict in (self.quantity.more, self.quantity.less):
            little = f", {self.by_little}" if self.by_little else ""
            said = f"{self.candidate} is {self.verdict} than {self.baseline}{little}"
        elif self.verdict is Verdict.NO_DIFFERENCE:
            said = f"{self.candidate} and {self.baseline} show {self}"
        else:
            said = f"{self.candidate} compared with {self.baseline}: {self}"
        what = "difference" if self.quantity.is_difference else "ratio"
        return (
            f"{said}: the {what} is {float(self):.4g}, from {low:.4g} to {high:.4g} "
            f"({100 * self.interval.confidence:.4g} % interval, {self.n} {self._samples_are}), and {self.because}."
        )

    @property
    def is_gain(self) -> bool:
        """Whether the candidate is clearly better by more than the difference that matters."""
        return self.verdict.is_decided and self.interval.low > self._margins[1]

    @property
    def is_loss(self) -> bool:
        """Whether the candidate is clearly worse by more than the difference that matters."""
        return self.verdict.is_decided and self.interval.high < self._margins[0]

    @property
    def is_no_gain(self) -> bool:
        """Whether the candidate is clearly not better by more than the difference that matters."""
        return self._may_be_judged and self.interval.high <= self._margins[1]

    @property
    def is_no_loss(self) -> bool:
        """Whether the candidate is clearly not worse by more than the difference that matters."""
        return self._may_be_judged and self.interval.low >= self._margins[0]

    @property
    def _may_be_judged(self) -> bool:
        return self.verdict is not Verdict.WITHHELD and self.estimate.has_interval

    @property
    def _samples_are(self) -> str:
        return _PAIRS.get(self.estimate.conditions.sample, self.estimate.conditions.sample.value)

    @property
    def _margins(self) -> tuple[float, float]:
        return _margins(self.quantity, self.matters)

    def withheld(self, because: str) -> Comparison:
        """Return the same without a verdict, for the reason that is given."""
        return replace(self, verdict=Verdict.WITHHELD, because=because)

    def _farthest(self) -> str:
        low, high, amount = self.interval.low, self.interval.high, self.quantity.amount
        return amount(max(high, -low)) if self.quantity.is_difference else amount(max(high, 1 / low))

    def _known(self) -> str:
        if not self.estimate.has_interval:
            return "open, because one sample of each does not show how much samples vary"
        low, high, amount = self.interval.low, self.interval.high, self.quantity.amount
        below, above = _margins(self.quantity, min(self.matters, _NOTHING))
        none = 0.0 if self.quantity.is_difference else 1.0
        more = f"{amount(high)} {self.quantity.more}" if high > none else ""
        less = f"{amount(low)} {self.quantity.less}" if low < none else ""
        if more and low >= below:
            return f"up to {more}, perhaps nothing"
        if less and high <= above:
            return f"up to {less}, perhaps nothing"
        return f"between {less} and {more}"


#: What the samples of a comparison in turns are, by what those of its sides are.
_PAIRS = {Sample.CALLS: "pairs", Sample.ROUNDS: "pairs"}
#: A difference up to which words say "perhaps nothing", even where only a larger one matters.
_NOTHING = 0.05


def _margins(quantity: Quantity, matters: float) -> tuple[float, float]:
    """Return the ends between which a difference does not matter."""
    return (-matters, matters) if quantity.is_difference else (1 / (1 + matters), 1 + matters)


def judged(
    estimate: Measurement, names: tuple[str, str], matters: float, quantity: Quantity = Quantity.TIME
) -> Comparison:
    """Return the `Comparison` that an estimate supports: a ratio baseline / candidate, or a difference of shares.

    Args:
        estimate: with the interval that the verdict rests on.
        names: of baseline and candidate.
        matters: the difference that would make a reader act otherwise; 0 if each does.
        quantity: what is compared.

    Raises:
        ValueError: if a ratio of times is not above 0, or ``matters`` is out of its range.
    """
    _check(matters)
    if quantity is Quantity.TIME:
        _times(estimate.samples, "ratios")
    verdict, because = Verdict.OPEN, "one sample of each does not show how much samples vary"
    if estimate.has_interval or estimate.is_counted:
        verdict, because = _verdict(estimate, matters, quantity)
    return Comparison(*names, estimate, verdict, matters, because, quantity)


def _verdict(estimate: Measurement, matters: float, quantity: Quantity) -> tuple[Verdict, str]:
    none, interval = 0.0 if quantity.is_difference else 1.0, estimate.interval
    below, above = _margins(quantity, matters)
    if interval.low > none:
        return quantity.more, f"the whole interval lies above {none:g}"
    if interval.high < none:
        return quantity.less, f"the whole interval lies below {none:g}"
    if matters and below <= interval.low and interval.high <= above:
        return (
            Verdict.NO_DIFFERENCE,
            f"the interval contains {none:g} and stays within the {quantity.amount(above)} that matter",
        )
    beyond = f" and reaches beyond the {quantity.amount(above)} that matter" if matters else ""
    return Verdict.OPEN, f"the interval contains {none:g}{beyond}{_why_wide(estimate)}"


def _why_wide(estimate: Measurement) -> str:
    """Return in words what makes the interval of few or dependent samples wide; empty if neither does."""
    if estimate.law is not None:
        return ""
    found, time = estimate.dependence, estimate.autocorrelation_time
    if time > found.time:
        return f"; {found.n} samples like these do not rule out a slow drift"
    if time > _ALIKE:
        return f"; because successive samples are alike, {found.n} have an effective size of {found.effective:.2g}"
    return ""


#: Autocorrelation time from which on it is told that neighbours are alike.
_ALIKE = 3.0


def compare_paired(
    baseline: Measurement | Samples, candidate: Measurement | Samples, matters: float, *, together: int = 1
) -> Comparison:
    """Return the ratio baseline / candidate of paired times with the verdict that its interval supports.

    The i-th times of both must be neighbours, as `tinytorch.perf.measuring.interleave` takes them. The interval is that
    of their `ratio`. Of plain numbers nothing is known but their order: their interval holds what such samples differ
    by, and how far a series like them may wander; it does not hold what another run would change.

    Args:
        baseline: times of the old version: a `Measurement`, or numbers above 0.
        candidate: times of the new version, as many.
        matters: relative difference that would make a reader act otherwise: 0.05 is five per cent; 0 if each does.
        together: how many comparisons are read together: the interval's level is corrected for them.

    Raises:
        ValueError: if the times are not pairs, not above 0 or rates, or an argument is out of its range.
    """
    _check(matters)
    if isinstance(baseline, Measurement) and isinstance(candidate, Measurement):
        if baseline.unit not in TIMES:
            raise ValueError(f"baseline must be times, in one of {', '.join(TIMES)}, not in {baseline.unit!r}")
    elif isinstance(baseline, Measurement) or isinstance(candidate, Measurement):
        raise ValueError("baseline and candidate must both be Measurements or both be sequences of times")
    else:
        baseline, candidate = _interleaved(baseline, candidate)
    for side, times in (("baseline", baseline), ("candidate", candidate)):
        _times(times.samples, side)
    return judged(ratio(baseline, candidate).together(together), (baseline.name, candidate.name), matters)


def compare_all(baseline: Measurement, *candidates: Measurement, matters: float) -> dict[str, Comparison]:
    """Return each candidate's `Comparison` with one baseline, by name, corrected for their number.

    All must come from one call of `interleave`. With m candidates each interval has the confidence 1 - 0.05 / m
    (Bonferroni), so that all of them hold together with 95 %.

    Raises:
        ValueError: as `compare_paired` does; also if there is no candidate or two have one name.
    """
    names = [candidate.name for candidate in candidates]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"candidates must be at least one, each with a name of its own, not {names}")
    return {one.name: compare_paired(baseline, one, matters, together=len(names)) for one in candidates}


def compare_apart(
    baseline: Measurement, candidate: Measurement, matters: float, *, names: tuple[str, str], together: int = 1
) -> Comparison:
    """Return the ratio baseline / candidate of times of two separate runs, each with what repeats differ by.

    Args:
        baseline, candidate: seconds.
        matters, together: those of `compare_paired`.
        names: what the two are called.
    """
    return judged(quotient(baseline, candidate, f"speedup of {names[1]}").together(together), names, matters)


def _interleaved(baseline: Samples, candidate: Samples) -> tuple[Measurement, Measurement]:
    """Return two sequences of times as measurements that were taken in turns."""
    before, after = checked(baseline, "baseline"), checked(candidate, "candidate")
    if before.size != after.size:
        raise ValueError(f"candidate must have as many times as baseline, {before.size}, not {after.size}")
    return (
        Measurement("baseline", tuple(before.tolist()), "s", Conditions(interleaved_with=("candidate",))),
        Measurement("candidate", tuple(after.tolist()), "s", Conditions(interleaved_with=("baseline",))),
    )


def _check(matters: float) -> None:
    if not 0 <= matters < math.inf:
        raise ValueError(f"matters must be at least 0, such as 0.05 for five per cent, not {matters}")


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
    """
    smallest = None
    for number in sorted(pairs, reverse=True):
        if compare_paired(*pairs[number], matters=matters).verdict is not Verdict.FASTER:
            break
        smallest = number
    every = tuple(one for pair in pairs.values() for one in pair)
    return None if smallest is None else Derived(smallest, unit, what, every, "it is one of the numbers tried")
