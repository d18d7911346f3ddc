"""Times of two separate runs: what several processes of each can tell, and what they cannot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinytorch.perf.comparison import CANNOT_TELL, Comparison, interval_verdict
from tinytorch.perf.dependence import independent
from tinytorch.perf.statistics import Interval
from tinytorch.perf.timing import Measurement, Statistic

#: Processes of each run below which no verdict is given: of 4 and 4 the widest interval holds with 97 %, and nothing
#: is left for a correction for several comparisons.
FEWEST_PROCESSES = 5
Logs = npt.NDArray[np.float64]


def compare_processes(
    baseline: Sequence[Measurement],
    candidate: Sequence[Measurement],
    delta: float | None,
    *,
    names: tuple[str, str],
    confidence: float = 0.95,
    compared: int = 1,
    references: tuple[Sequence[Measurement], Sequence[Measurement]] | None = None,
) -> Comparison:
    """Return the ratio baseline / candidate of times that two runs took apart, with the verdict that it supports.

    A run's processes differ by what each drew, and the two runs by what else the machine did. The unit is the process:
    its value the log of its median time, or, with a reference in both runs, the median of the log-ratios of each time
    to the reference's that was taken beside it, which a change of the clock or a busy neighbour moves less. The ratio
    is Hodges and Lehmann's: the median of all differences of a value of the one and a value of the other; its interval
    the distribution-free one that goes with the Mann-Whitney test.

    Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, Wiley 2014,
    sections 4.2 and 4.3.

    Args:
        baseline, candidate: seconds, one measurement from each process.
        delta: relative difference that does not matter; None if each one does.
        names: what the two are called.
        confidence: coverage of the interval, already corrected for ``compared`` comparisons.
        references: times of the fixed work beside each of both, or None.
    """
    before, after = _values(baseline, references and references[0]), _values(candidate, references and references[1])
    differences = np.sort((before[:, None] - after[None, :]).ravel())
    low, high, reached = _ends(differences, before.size, after.size, confidence)
    verdict, because = interval_verdict(low, high, delta)
    fewest = min(before.size, after.size)
    if fewest < FEWEST_PROCESSES or reached < confidence:
        needed = max(FEWEST_PROCESSES, fewest + 1)
        verdict, because = CANNOT_TELL, f"{fewest} processes of a run are too few to tell: {needed} or more may"
    how = {"statistic": "Hodges-Lehmann", "processes": [before.size, after.size], "by": _words(references)}
    middle = float(np.median(differences))
    ratio = Statistic(
        f"{names[0]} / {names[1]}",
        tuple(np.exp(differences).tolist()),
        "",
        how,
        value=math.exp(middle),
        bounds=Interval(math.exp(low), math.exp(high), reached),
    )
    wins = int((differences > 0).sum())
    return Comparison(
        *names, ratio, verdict, delta, because, wins, independent(differences.size), compared, "pairs of processes"
    )


def _words(references: object) -> str:
    return "time over that of the reference beside it" if references else "time"


def log_time(times: Measurement, reference: Measurement | None) -> float:
    """Return the median log of a process's times, or of each over the reference's that was taken beside it."""
    logs = np.log(times.samples)
    return float(np.median(logs if reference is None else logs - np.log(reference.samples)))


def _values(processes: Sequence[Measurement], references: Sequence[Measurement] | None) -> Logs:
    """Return the `log_time` of each process."""
    beside = [None] * len(processes) if references is None else references
    return np.array([log_time(*pair) for pair in zip(processes, beside, strict=True)])


def _ends(differences: Logs, m: int, n: int, confidence: float) -> tuple[float, float, float]:
    """Return the ends of the shift's interval and its coverage: the C-th smallest and largest difference.

    P(U <= C - 1) is the chance that the shift lies below the C-th smallest; the largest C is taken that leaves
    (1 - confidence) / 2 to each side, and the extremes where there is none.
    """
    tails = _mann_whitney_tails(m, n)
    allowed = int(np.searchsorted(tails, (1 - confidence) / 2 * (1 + 1e-12), side="right"))
    rank = max(allowed, 1)
    return float(differences[rank - 1]), float(differences[-rank]), 1 - 2 * float(tails[rank - 1])


def _mann_whitney_tails(m: int, n: int) -> Logs:
    """Return P(U <= u) for u from 0 to m n // 2, by counting the partitions that sum up to u."""
    ways = np.zeros(m * n + 1)
    ways[0] = 1
    # The generating function of U is the Gaussian binomial: Π (1 - q^(n + i)) / (1 - q^i), i from 1 to m.
    for i in range(1, m + 1):
        if n + i <= m * n:
            ways[n + i :] -= ways[: m * n + 1 - n - i].copy()
        for u in range(i, m * n + 1):
            ways[u] += ways[u - i]
    return np.asarray(np.cumsum(ways)[: m * n // 2 + 1] / math.comb(m + n, m))
