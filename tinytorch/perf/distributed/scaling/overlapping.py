"""Overlap: steps whose gradients travel while the backward still runs, against steps that send them after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinytorch import models
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.oversubscription import Withheld, compare_on_ranks, is_oversubscribed
from tinytorch.perf.distributed.ranks.rounds import checked_rounds
from tinytorch.perf.distributed.scaling import scaling_programs
from tinytorch.perf.distributed.scaling.strong_weak import step_measurements
from tinytorch.perf.measuring import Measurement, Statistic, difference
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL, RESAMPLES, Interval

_NAMES = {
    "overlapped": "a step that sends during the backward",
    "apart": "a step that sends after the backward",
    "alone": "a step that sends nothing",
}


@dataclass(frozen=True)
class Overlap:
    """Steps on the same ranks with the same batch, in turns; seconds, those of the slowest rank.

    Attributes:
        ranks, name, batch, bucket_bytes: what ran: the zoo's model, examples of all ranks together, bytes at which
            gradients are sent off.
        overlapped, apart: gradients are sent while the backward runs, or after it.
        alone: each rank trains on its part by itself: all that ranks compute, and none of what joining them costs.
    """

    ranks: int
    name: str
    batch: int
    bucket_bytes: int
    overlapped: Measurement
    apart: Measurement
    alone: Measurement

    @property
    def oversubscribed(self) -> bool:
        """Whether ranks had to share cores."""
        return is_oversubscribed(self.overlapped)

    def compare(self) -> Comparison | Withheld:
        """Return how much faster steps are that overlap: the ratio apart / overlapped, above 1 if overlap pays."""
        return compare_on_ranks(self.apart, self.overlapped)

    def cost(self) -> Measurement:
        """Return the seconds that joining the ranks adds to a step without overlap: apart - alone, by rounds."""
        return difference(self.apart, self.alone, "what joining ranks adds to a step")

    def hidden(self, seed: int = 0) -> Statistic | Withheld:
        """Return the share of that cost which overlap takes away, (apart - overlapped) / (apart - alone).

        Of the medians of the differences; the interval is the bootstrap's over rounds. `Withheld` if ranks had to share
        cores, or the cost cannot be told from nothing, so that there is nothing to hide.
        """
        if self.oversubscribed:
            return Withheld()
        cost = self.cost()
        if cost.n < FEWEST_FOR_INTERVAL:
            return Withheld(f"it takes {FEWEST_FOR_INTERVAL} rounds to have an interval, but there are {cost.n}")
        saved = np.array(difference(self.apart, self.overlapped, "what overlap saves").samples)
        costs = np.array(cost.samples)
        rounds = np.random.default_rng(seed).integers(cost.n, size=(RESAMPLES, cost.n))
        below = np.median(costs[rounds], axis=1)
        if (below <= 0).any():
            return Withheld("joining the ranks adds no more to a step than the noise, so there is nothing to hide")
        value = float(np.median(saved) / np.median(costs))
        low, high = np.quantile(np.median(saved[rounds], axis=1) / below, [0.025, 0.975])
        how = {**cost.how, "statistic": "ratio of median differences", "interval_by": "bootstrap over rounds"}
        samples = tuple((saved / float(np.median(costs))).tolist())
        bounds = Interval(float(low), float(high), 0.95)
        return Statistic("share of the communication that is hidden", samples, "%", how, value=value, bounds=bounds)


def overlap(
    name: str,
    batch: int,
    ranks: int,
    *,
    bucket_bytes: int = 2**18,
    repeats: int = 20,
    at_most_seconds: float = 4.0,
    seed: int = 0,
) -> Overlap:
    """Return steps of a model of the zoo on ``ranks`` of this machine, with and without overlap, in turns.

    Args:
        name: of the model. batch: examples of all ranks together.
        bucket_bytes: at which a bucket of gradients is sent: with a single bucket only the last could travel early.
        repeats: rounds; fewer, but six at least, when ``at_most_seconds`` are over.
        seed: of the order of turns.

    Raises:
        ValueError: if an argument is out of its range.
        MPIMissingError: if there is no MPI.
        RankError: if a rank fails.
    """
    models.entry(name)
    if ranks < 2:
        raise ValueError(f"ranks must be at least 2, as one has nothing to send, not {ranks}")
    scaling_programs.checked_batch(batch, ranks)
    if bucket_bytes < 1:
        raise ValueError(f"bucket_bytes must be at least 1, not {bucket_bytes}")
    checked_rounds(repeats, at_most_seconds)
    plan = {
        "name": name,
        "batch": batch,
        "bucket_bytes": bucket_bytes,
        "repeats": repeats,
        "at_most_seconds": at_most_seconds,
        "fewest": FEWEST_FOR_INTERVAL,
        "seed": seed,
    }
    told = launch(scaling_programs.overlap_times, ranks, plan, threads=1, pinned=True)[0]
    how = {"ranks": ranks, "model": name, "batch": batch, "bucket_bytes": bucket_bytes, "seed": seed}
    found = step_measurements(told, _NAMES, how)
    return Overlap(ranks, name, batch, bucket_bytes, found["overlapped"], found["apart"], found["alone"])
