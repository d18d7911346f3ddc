"""Link fitted to measured messages: alpha + beta x bytes with intervals, residuals and the sizes where it holds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri, stdtrit

from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Ranks, of_all
from tinytorch.perf.measuring.statistics import Drawn, Stated, draws

Floats = npt.NDArray[np.float64]
#: Why nothing is said of times, as the end of a sentence.
BECAUSE = "more ranks than cores tell how the system shares its cores, not how ranks scale: each needs one of its own"
#: Relative residual up to which a line is said to hold.
TOLERANCE = 0.25
#: Sizes that a line has to go through: any two would fit.
FEWEST_SIZES = 3
#: Sizes that a piece has to have: one more, as where it is cut is chosen by the times as well.
FEWEST_IN_PIECE = 4
#: Pieces at most.
_MOST_PIECES = 3
#: Normal deviate at which a two-sided 95 % interval ends.
_NORMAL = 1.959964


@dataclass(frozen=True)
class FittedLink:
    """Line through measured times of messages, alpha + beta x bytes; a `collective_costs.Line` with intervals.

    Attributes:
        name: what was measured.
        alpha: seconds of a message without bytes.
        beta: seconds that each byte adds ("s/B"). Their samples are the lines of single rounds; value and interval
            are those of the line through the medians.
        residuals: by size in bytes, (measured - line) / measured.
    """

    name: str
    alpha: Measurement
    beta: Measurement
    residuals: Mapping[int, float]

    @property
    def alpha_s(self) -> float:
        """`alpha` as a number."""
        return self.alpha.median

    @property
    def beta_s_per_byte(self) -> float:
        """`beta` as a number."""
        return self.beta.median

    @property
    def bandwidth(self) -> Measurement | None:
        """Bytes a second of an endless message, 1 / beta; None if in some round bytes cost nothing that can be told."""
        if min(*self.beta.samples, self.beta.interval.low) <= 0:
            return None
        return self.beta.per(1.0, "B/s", f"bandwidth of {self.name}")

    @property
    def sizes(self) -> tuple[int, int]:
        """Smallest and largest size that it was fitted to, in bytes."""
        return min(self.residuals), max(self.residuals)

    @property
    def worst(self) -> float:
        """Largest relative residual by magnitude."""
        return max(map(abs, self.residuals.values()))

    @property
    def holds(self) -> bool:
        """Whether no median lies farther from the line than `TOLERANCE` of itself."""
        return self.worst <= TOLERANCE


def fit(times: Mapping[int, Measurement]) -> FittedLink:
    """Return the line alpha + beta x bytes, neither below 0, through the median times of messages by size in bytes.

    The sum of the squares of relative residuals is smallest, so that small messages weigh as much as large ones.
    What is known of both is what lines through the draws of the medians show. Where medians lie farther from the line
    than their scatter explains, the rest is taken for scatter of the sizes around the line: the error that linear
    regression gives it, of Student's law, is added to the draws. What repeats of the messages differ by is common to
    all sizes, as the place of the ranks is.

    Args:
        times: by size; in seconds, as many samples of each, taken in turns.

    Raises:
        ValueError: if there are fewer than three sizes; if samples differ in number, are not in seconds or not above 0;
            or if more ranks than cores made them: such times tell of the scheduler, not of a link.
    """
    sizes, samples = _checked(times)
    medians = np.median(samples, axis=1)
    own = {size: replace(one, conditions=replace(one.conditions, between_runs=None)) for size, one in times.items()}
    drawn = np.stack([own[size].draws for size in sorted(own)], axis=1)
    line, rounds, lines = (line_through(sizes, rows) for rows in (medians[None], samples.T, drawn))
    residuals = (medians - line[0][0] - line[1][0] * sizes) / medians
    alone = np.stack([own[size].draws_alone for size in sorted(own)], axis=1)
    misfits = _misfits(sizes, medians, residuals, alone)
    first = times[min(times)]
    ranks = first.conditions.instrument
    called = (ranks.series if isinstance(ranks, Ranks) else None) or first.name
    known = [one.conditions for one in times.values()]
    conditions = of_all(known).within_bounds("line through the medians")
    between = math.sqrt(np.mean([one.between_runs.deviation**2 if one.between_runs else 0.0 for one in known]))
    runs = draws(
        Stated(1.0, math.exp(-_NORMAL * between), math.exp(_NORMAL * between)), f"runs of {called}", alone=True
    )

    freedom = len(sizes) - 2

    def fitted(of: str, unit: str, at: int) -> Measurement:
        value, misfit = float(line[at][0]), draws(Misfit(misfits[at], freedom), f"{of} of {called}", alone=True)
        law = Drawn(value, np.maximum(lines[at] + misfit, 0.0) * runs)
        return Measurement(f"{of} of {called}", tuple(rounds[at].tolist()), unit, conditions, law=law)

    residual = {int(size): float(each) for size, each in zip(sizes, residuals, strict=True)}
    return FittedLink(called, fitted("alpha", "s", 0), fitted("beta", "s/B", 1), residual)


@dataclass(frozen=True)
class Misfit:
    """The law of what a line errs by because its points do not lie on it: Student's, around 0."""

    deviation: float
    freedom: int
    value: float = 0.0

    def quantiles(self, chances: Floats) -> Floats:
        """Return the bounds below which it lies with these chances."""
        return np.asarray(self.deviation * stdtrit(self.freedom, chances))


def fit_pieces(times: Mapping[int, Measurement]) -> tuple[FittedLink, ...]:
    """Return the smallest number of lines (at most three) that fit the times, each for a range of sizes.

    MPI libraries change their protocol with the size: a small message is sent at once (eager), a large one when the
    receiver is ready (rendezvous). Of all ways to cut the sizes, each piece at least four, the one with the smallest
    sum of squares is taken.

    Raises:
        ValueError: as `fit`.
    """
    found: tuple[FittedLink, ...] = ()
    for pieces in range(1, max(1, min(_MOST_PIECES, len(times) // FEWEST_IN_PIECE)) + 1):
        found = tuple(fit({size: times[size] for size in piece}) for piece in _best_cut(times, pieces))
        if all(piece.holds for piece in found):
            break
    return found


def line_through(sizes: Floats, times: Floats) -> tuple[Floats, Floats]:
    """Return alpha and beta, each (rows,) and none below 0, of each row of ``times`` (rows, sizes).

    The least squares of (time - alpha - beta size) / time. Where one of the two would be below 0 it is 0 and the other
    the best then; of the two ways to do so the one with the smaller squares.
    """
    ones, slopes = 1 / times, sizes / times
    a, b, c = (ones**2).sum(axis=1), (ones * slopes).sum(axis=1), (slopes**2).sum(axis=1)
    u, v = ones.sum(axis=1), slopes.sum(axis=1)
    determinant = a * c - b * b
    alpha, beta = (c * u - b * v) / determinant, (a * v - b * u) / determinant
    flat, steep = u / a, v / c
    level = u * flat > v * steep  # what each takes from the sum of squares
    outside = (alpha < 0) | (beta < 0)
    alpha = np.where(outside, np.where(level, flat, 0.0), alpha)
    beta = np.where(outside, np.where(level, 0.0, steep), beta)
    return alpha, beta


def _checked(times: Mapping[int, Measurement]) -> tuple[Floats, Floats]:
    """Return sizes (n,) in rising order and samples (n, rounds)."""
    if len(times) < FEWEST_SIZES:
        raise ValueError(f"times must hold at least {FEWEST_SIZES} sizes to fit a line, not {len(times)}")
    ordered = [times[size] for size in sorted(times)]
    instruments = [one.conditions.instrument for one in ordered]
    if any(isinstance(each, Ranks) and each.oversubscribed for each in instruments):
        raise ValueError(
            "times must come from no more ranks than cores: with more, they measure the scheduler and not the link"
        )
    units = sorted({repr(one.unit) for one in ordered})
    if units != ["'s'"]:
        raise ValueError(f"times must be in 's', not in {', '.join(units)}")
    if len({one.n for one in ordered}) > 1:
        raise ValueError(f"times must have as many samples each, not {', '.join(str(one.n) for one in ordered)}")
    samples = np.array([one.samples for one in ordered], np.float64)
    if not (samples > 0).all():
        raise ValueError(f"times must be above 0, but {samples.min()} is among them")
    return np.array(sorted(times), np.float64), samples


def _best_cut(times: Mapping[int, Measurement], pieces: int) -> list[list[int]]:
    """Return the sizes in ``pieces`` neighbouring groups whose lines have the smallest sum of squares."""
    sizes, samples = _checked(times)
    medians = np.median(samples, axis=1)

    def squares(first: int, end: int) -> float:
        own, given = sizes[first:end], medians[first:end]
        alpha, beta = line_through(own, given[None])
        return float((((given - alpha - beta * own) / given) ** 2).sum())

    best = min(_cuts(len(sizes), pieces), key=lambda cut: sum(squares(*ends) for ends in pairwise(cut)))
    ordered = sorted(times)
    return [ordered[first:end] for first, end in pairwise(best)]


def _cuts(count: int, pieces: int) -> Iterator[tuple[int, ...]]:
    """Yield all borders 0, ..., ``count`` of pieces of at least `FEWEST_IN_PIECE`; one piece may be shorter."""
    for inner in combinations(range(FEWEST_IN_PIECE, count - FEWEST_IN_PIECE + 1), pieces - 1):
        cut = (0, *inner, count)
        if pieces == 1 or all(end - first >= FEWEST_IN_PIECE for first, end in pairwise(cut)):
            yield cut


def _misfits(sizes: Floats, medians: Floats, residuals: Floats, drawn: Floats) -> tuple[float, float]:
    """Return the errors of alpha and beta for what the scatter of medians does not explain of the residuals.

    The covariance of a weighted line's coefficients is s² (X' W X)⁻¹, with s² the mean square residual.
    """
    freedom = residuals.size - 2
    scatter = float(((drawn.std(axis=0) / medians) ** 2).mean())
    excess = float((residuals**2).sum()) / freedom - scatter
    if excess < scatter * (chdtri(freedom, 0.05) / freedom - 1):  # as far as scatter takes them in 95 of 100 fits
        return 0.0, 0.0
    design = np.stack([1 / medians, sizes / medians], axis=1)
    variances = excess * np.diag(np.linalg.inv(design.T @ design))
    alpha, beta = (math.sqrt(float(variance)) for variance in variances)
    return alpha, beta
