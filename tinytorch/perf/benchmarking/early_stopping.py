"""LoadGen's early stopping: how many queries it takes until a latency bound holds with 99 % confidence."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import betainc

from tinytorch.perf.statistics import Samples, checked

#: LoadGen's, which are no settings there either.
CONFIDENCE = 0.99


@lru_cache(maxsize=4096)
def fewest_within(over: int, share: float) -> int:
    """Return the fewest queries within the bound that prove a ``share`` of all to be within, if ``over`` are not.

    With h within and t over, the chance of so few over in a system that keeps exactly that share is at most the
    regularized incomplete beta function I_share(h, t + 1); the smallest h is returned with that at most 1 %. For none
    over it is 44 at 0.9 and 459 at 0.99.

    Source: MLPerf inference, LoadGen, early_stopping.cc, MinPassingQueriesFinder, with tolerance 0; V. J. Reddi et al.,
    MLPerf Inference Benchmark, ISCA 2020.

    Raises:
        ValueError: if ``over`` is below 0 or ``share`` does not lie between 0 and 1.
    """
    if over < 0:
        raise ValueError(f"over must be at least 0, not {over}")
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, such as 0.9, not {share}")
    low, high = 0, 1
    while not _proves(high, over, share):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _proves(middle, over, share) else (middle, high)
    return high


def _proves(within: int, over: int, share: float) -> bool:
    return bool(betainc(within, over + 1, share) <= 1 - CONFIDENCE)


def fewest_queries(share: float, over: int = 1) -> int:
    """Return how many queries early stopping needs: 64 for the 90th percentile, 662 for the 99th, with ``over`` 1.

    An estimate of a percentile is one of its samples, so at least one lies at or over it; a latency bound may have 0.
    """
    return fewest_within(over, share) + over


def proven_percentile(latencies: Samples, share: float) -> float | None:
    """Return what the percentile is at most, with 99 % confidence: LoadGen's estimate, in the latencies' unit.

    Of n latencies it is the t-th largest, with the largest t for which n are enough (see `fewest_queries`), and so
    never below the percentile of the sample. None if there are fewer than even the largest needs.

    Source: MLPerf inference, LoadGen, results.cc, PerformanceSummary::EarlyStopping.

    Raises:
        ValueError: if ``latencies`` are empty or not finite, or ``share`` is out of its range.
    """
    array = np.sort(checked(latencies, "latencies"))
    if fewest_queries(share) > array.size:
        return None
    low, high = 1, array.size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fewest_queries(share, middle) <= array.size else (low, middle)
    return float(array[array.size - low])
