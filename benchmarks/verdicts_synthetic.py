"""How often the judge is wrong on series whose true ratio is known to be 1 or 1.03, and how often it finds the latter.

Run by `python -m benchmarks.verdicts --synthetic [--trials 2000]`. Each series is one of log-ratios with a standard
deviation of 2 % a pair, which `comparison.judged` turns into a verdict; an open one is never wrong. Wrong are

- where the true ratio is 1: faster and slower;
- where it is 1.03: slower, and "no difference beyond 2 %".

The number of pairs is given, or planned by `planning.planned` from a pilot of its own to resolve 3 %, of `MOST` pairs
at most, as time ends it. What is planned decides at 1, too: "no difference beyond 3 %" counts as found there.

Targets: at most 6 % wrong on each kind of noise, for each number of pairs; at most 6 % of families of 16 candidates in
`compare_all` with a wrong verdict among them, at nine pairs each; at most 6 % wrong on seven processes of two kinds; a
true 3 % found in 90 % of the series whose noise is normal and independent, and as many decided where a plan meets none.

The found 3 % cannot be had with few wrong verdicts at 15 pairs. No rule can tell independent noise around 3 % from
noise with a spectrum of 1/f around 0 better than the ratio of their likelihoods does, if it is told which two they are
(Neyman and Pearson). What that ratio reaches is shown as the bound, and the target is 90 % where the bound allows it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.signal import lfilter

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import compare_all, judged
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.planning import PILOT, planned

Series = npt.NDArray[np.float64]
#: Draws so many series (rows) of so many pairs.
Kind = Callable[[np.random.Generator, int, int], Series]

#: Standard deviation of a log-ratio.
NOISE = 0.02
PAIRS = (15, 30, 100)
WRONG, FOUND = 0.06, 0.90
#: Log of the true ratio that is to be found; what matters to a plan, and what is less than the true difference.
DIFFERENCE = math.log(1.03)
RESOLVE, NARROWER = 0.03, 0.02
#: Pairs that time allows a plan.
MOST = 300
FAMILY, FAMILY_PAIRS, PROCESSES = 16, 9, 7
#: 1/f noise is cut from series so many times as long.
LENGTHS = 16


def normal(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return independent normal noise."""
    return NOISE * draw.standard_normal((rows, pairs))


def students(freedom: int) -> Kind:
    """Return what draws independent noise of Student's distribution, times 2 %: it has no standard deviation.

    Ratios beyond a million are cut off there.
    """
    most = math.log(1e6)
    return lambda draw, rows, pairs: np.clip(NOISE * draw.standard_t(freedom, (rows, pairs)), -most, most)


def two_levels(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return independent noise on two levels, with a tenth of normal noise on each."""
    return _on_levels(draw, draw.choice([-1.0, 1.0], (rows, pairs)))


def sticky(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return noise on two levels that stays on one for 5 to 11 pairs.

    Stays of any length, geometric ones with a mean of eight, would leave one in seven series of 15 pairs on one level
    throughout, which nothing can tell from a true difference.
    """
    levels = np.empty((rows, pairs))
    for row in levels:
        stays = draw.integers(5, 12, pairs)
        stays[0] = draw.integers(1, stays[0] + 1)
        row[:] = draw.choice([-1.0, 1.0]) * np.repeat((-1.0) ** np.arange(pairs), stays)[:pairs]
    return _on_levels(draw, levels)


def _on_levels(draw: np.random.Generator, levels: Series) -> Series:
    return NOISE * (levels + 0.1 * draw.standard_normal(levels.shape)) / math.hypot(1, 0.1)


def ar1(memory: float) -> Kind:
    """Return what draws autoregressive noise: a share ``memory`` of each pair's remains in the next."""

    def made(draw: np.random.Generator, rows: int, pairs: int) -> Series:
        steps = draw.standard_normal((rows, pairs)) * math.sqrt(1 - memory**2)
        steps[:, 0] = draw.standard_normal(rows)
        return NOISE * np.asarray(lfilter([1.0], [1.0, -memory], steps, axis=1))

    return made


def burst(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return normal noise of which a quarter in a row, anywhere, is five deviations higher or lower."""
    length = pairs // 4
    start = draw.integers(0, pairs - length + 1, (rows, 1))
    inside = (np.arange(pairs) >= start) & (np.arange(pairs) < start + length)
    return normal(draw, rows, pairs) + 5 * NOISE * draw.choice([-1, 1], (rows, 1)) * inside


def flicker(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return noise with a spectrum of 1/f, cut at random from series 16 times as long, whose level is 0.

    So what is slower than the cut is there: half of the noise is a shift of the cut as a whole. What varies within the
    cut is scaled to 2 %.
    """
    frequencies = np.fft.rfftfreq(LENGTHS * pairs)
    sizes = np.zeros(frequencies.size)
    sizes[1:] = frequencies[1:] ** -0.5
    waves = sizes * (draw.standard_normal((rows, sizes.size)) + 1j * draw.standard_normal((rows, sizes.size)))
    whole = np.fft.irfft(waves, LENGTHS * pairs, axis=1)
    start = draw.integers(0, whole.shape[1] - pairs + 1, (rows, 1))
    return _scaled(np.take_along_axis(whole, start + np.arange(pairs), axis=1))


def random_walk(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return a random walk that starts at 0; what varies within the series is scaled to 2 %."""
    return _scaled(np.cumsum(draw.standard_normal((rows, pairs)), axis=1))


def _scaled(series: Series) -> Series:
    return NOISE * series / series.std(axis=1, ddof=1, keepdims=True)


def half_flicker(draw: np.random.Generator, rows: int, pairs: int) -> Series:
    """Return noise that is half independent and half 1/f, by variance."""
    return (normal(draw, rows, pairs) + flicker(draw, rows, pairs)) / math.sqrt(2)


NORMAL = "independent, normal"
#: The kinds of noise that have a target, by name.
KINDS: dict[str, Kind] = {
    NORMAL: normal,
    "independent, Student's t with 2": students(2),
    "independent, Cauchy": students(1),
    "independent, two levels": two_levels,
    "two levels, each for 8 pairs": sticky,
    "AR(1), 0.3": ar1(0.3),
    "AR(1), 0.5": ar1(0.5),
    "AR(1), 0.7": ar1(0.7),
    "AR(1), 0.9": ar1(0.9),
    "a burst of a quarter": burst,
    "1/f": flicker,
    "random walk": random_walk,
}
#: ... and those that are shown beside them: slow noise under as much independent noise, which short series hide.
WITHOUT_TARGET: dict[str, Kind] = {"half independent, half 1/f": half_flicker}


@dataclass
class Shares:
    """Shares of series whose verdict was wrong, at a true ratio of 1 and of 1.03, or right, and mean numbers of pairs.

    At 1 "no difference beyond 3 %" is right.
    """

    wrong: tuple[float, float]
    right: tuple[float, float]
    pairs: tuple[float, float]


@dataclass
class Outcome:
    """What was counted: by noise and pairs, None for a plan's, and of families and processes what was wrong."""

    shares: dict[tuple[str, int | None], Shares] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=dict)
    families: float = 0.0
    processes: float = 0.0


def _ratios(logs: Series) -> Measurement:
    return Measurement("ratios", tuple(np.exp(logs).tolist()), "")


def _judged(logs: Series, truth: float) -> tuple[bool, bool]:
    """Return whether the verdict on log-ratios around ``truth`` is wrong, and whether it is right."""
    matters = NARROWER if truth else RESOLVE
    found = judged(_ratios(logs + truth), ("baseline", "candidate"), matters).verdict
    right = Verdict.FASTER if truth else Verdict.NO_DIFFERENCE
    return found not in (right, Verdict.OPEN), found is right


def judged_shares(kind: Kind, draw: np.random.Generator, trials: int, pairs: int | None) -> Shares:
    """Return the shares of ``trials`` series with so many pairs; None for as many as a plan takes."""
    judged, taken = np.zeros((2, 2)), np.zeros(2)
    for at, truth in enumerate((0.0, DIFFERENCE)):
        for _ in range(trials):
            number = pairs
            if number is None:
                number = min(MOST, planned([_ratios(kind(draw, 1, PILOT)[0] + truth)], RESOLVE).number)
            judged[at] += _judged(kind(draw, 1, number)[0], truth)
            taken[at] += number
    wrong, right = (judged / trials).T.tolist()
    return Shares(tuple(wrong), tuple(right), tuple((taken / trials).tolist()))


def wrong_families(draw: np.random.Generator, trials: int) -> float:
    """Return the share of families of candidates that are as fast as their baseline with a verdict among them."""
    names = ["baseline", *(f"candidate {at}" for at in range(FAMILY))]
    wrong = 0
    for _ in range(trials):
        rows = np.exp(NOISE / math.sqrt(2) * draw.standard_normal((len(names), FAMILY_PAIRS))).tolist()
        baseline, *candidates = (
            Measurement(
                name, tuple(row), "s", Conditions(interleaved_with=tuple(other for other in names if other != name))
            )
            for name, row in zip(names, rows, strict=True)
        )
        found = compare_all(baseline, *candidates, matters=0).values()
        wrong += any(one.verdict in (Verdict.FASTER, Verdict.SLOWER) for one in found)
    return wrong / trials


def wrong_processes(draw: np.random.Generator, trials: int) -> float:
    """Return the share of verdicts on processes of two kinds, each as often, whose medians lie on either side of 1."""
    wrong = 0
    for row in np.exp(two_levels(draw, trials, PROCESSES)).tolist():
        ratios = Measurement("ratios", tuple(row), "", Conditions(sample=Sample.PROCESSES))
        made = judged(ratios, ("baseline", "candidate"), 0)
        wrong += made.verdict in (Verdict.FASTER, Verdict.SLOWER)
    return wrong / trials


def bound(draw: np.random.Generator, pairs: int, shift: float, trials: int = 4000) -> float:
    """Return how often the ratio of likelihoods finds ``shift``, in deviations, with `WRONG` false alarms on 1/f noise.

    It is that of independent normal noise around plus or minus ``shift`` over that of 1/f noise around 0, whatever the
    scale: both densities are those of the direction of the series, with all scales alike before.

    Source: J. Neyman and E. S. Pearson, On the problem of the most efficient tests of statistical hypotheses,
    Philosophical Transactions of the Royal Society A 231 (1933) 289-337.
    """
    spectrum = np.fft.rfftfreq(LENGTHS * pairs)
    spectrum[1:] = 1 / spectrum[1:]
    covariances = np.fft.irfft(spectrum, LENGTHS * pairs)[:pairs]
    covariance = covariances[np.abs(np.subtract.outer(np.arange(pairs), np.arange(pairs)))]
    inverse, logdet = np.linalg.inv(covariance), np.linalg.slogdet(covariance)[1]

    def ratio_of(rows: Series) -> Series:
        rows = rows / np.sqrt(np.square(rows).mean(axis=1, keepdims=True))
        wanders = -(logdet + pairs * np.log(np.einsum("ij,jk,ik->i", rows, inverse, rows))) / 2
        scales = np.exp(np.linspace(-3, 3, 121))
        total, squares = rows.sum(axis=1)[:, None] / scales, np.square(rows).sum(axis=1)[:, None] / scales**2
        each = [
            -(squares - 2 * sign * shift * total + pairs * shift**2) / 2 - pairs * np.log(scales) for sign in (1, -1)
        ]
        return np.asarray(np.logaddexp.reduce(np.concatenate(each, axis=1), axis=1) - wanders)

    alarm = np.quantile(ratio_of(flicker(draw, trials, pairs)), 1 - WRONG)
    return float((ratio_of(shift + draw.standard_normal((trials, pairs))) > alarm).mean())


def count(trials: int, console: Console) -> Outcome:
    """Return the shares of all kinds of noise, families and processes."""
    outcome = Outcome()
    cells = [(name, kind, pairs) for pairs in (*PAIRS, None) for name, kind in (KINDS | WITHOUT_TARGET).items()]
    for at, (name, kind, pairs) in enumerate(track(cells, "noise", console=console, disable=not console.is_terminal)):
        outcome.shares[name, pairs] = judged_shares(kind, np.random.default_rng([at, pairs or 0]), trials, pairs)
    outcome.bounds = {pairs: bound(np.random.default_rng([1, pairs]), pairs, DIFFERENCE / NOISE) for pairs in PAIRS}
    outcome.families = wrong_families(np.random.default_rng(2), trials)
    outcome.processes = wrong_processes(np.random.default_rng(3), trials)
    return outcome


def show(outcome: Outcome, trials: int, console: Console) -> None:
    """Print the tables."""
    table = Table(title=f"of {trials} series: wrong at a true ratio of 1, wrong at 1.03, and 3 % found")
    table.add_column("noise")
    counts = (f"{pairs} pairs" for pairs in PAIRS)
    for heading in (*counts, "planned for 3 %", "pairs at 1, 1.03", "none beyond 3 % found at 1"):
        table.add_column(heading, justify="right")
    for name in (*KINDS, *WITHOUT_TARGET):
        made = [outcome.shares[name, pairs] for pairs in (*PAIRS, None)]
        cells = [f"{one.wrong[0]:.1%}  {one.wrong[1]:.1%}  {one.right[1]:.1%}" for one in made]
        cells += ["  ".join(f"{pairs:.0f}" for pairs in made[-1].pairs), f"{made[-1].right[0]:.1%}"]
        table.add_row(name if name in KINDS else f"{name} (no target)", *cells)
    console.print(table)
    most = ", ".join(f"{share:.0%} of {pairs} pairs" for pairs, share in outcome.bounds.items())
    console.print(f"the most that any rule could find of 3 %: {most}")
    console.print(
        f"families of {FAMILY} candidates, {FAMILY_PAIRS} pairs, with a wrong verdict: {outcome.families:.1%}"
    )
    console.print(f"{PROCESSES} processes of two kinds, wrong verdicts: {outcome.processes:.1%}")


def misses(outcome: Outcome) -> list[str]:
    """Return what is not as it should be, a sentence each."""
    found = []
    for (name, pairs), one in outcome.shares.items():
        what = f"{name}, {f'{pairs} pairs' if pairs else 'planned'}"
        for ratio, share in zip(("1", "1.03"), one.wrong, strict=True):
            if name in KINDS and share > WRONG:
                found.append(f"{share:.1%} wrong on {what}, at a ratio of {ratio}: above {WRONG:.0%}")
    for number, most in outcome.bounds.items():
        share = outcome.shares[NORMAL, number].right[1]
        if share < FOUND <= most:
            found.append(f"3 % found in {share:.1%} of the series of {number} pairs: below {FOUND:.0%}")
    for ratio, share in zip(("1", "1.03"), outcome.shares[NORMAL, None].right, strict=True):
        if share < FOUND:
            found.append(f"{share:.1%} decided by plan at a ratio of {ratio}: below {FOUND:.0%}")
    for what, share in (("families", outcome.families), ("few processes", outcome.processes)):
        if share > WRONG:
            found.append(f"{share:.1%} wrong on {what}: above {WRONG:.0%}")
    return found
