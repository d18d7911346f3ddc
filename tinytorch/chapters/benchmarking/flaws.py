"""Flawed experiments: five ways in which published speedups go wrong, each beside the same one done fairly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.chapters.benchmarking.runs import same_mlp
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.acceleration import fused_gelu
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, blas_threads, interleave, sample
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.judge import bonferroni
from tinytorch.perf.measuring.measurement import CONFIDENCE
from tinytorch.perf.measuring.sampling import ROUNDS, exceeding_bytes

#: Runs from which a flawed experiment makes its one number, and how often it is done.
_RUNS = 6
_TIMES = 9
_WARMUP_SECONDS = 0.1
#: Of the product that is timed on other threads and beside neighbours.
_WIDTH = 512
#: Fair comparisons that a reader takes together, one of each flaw.
_TOGETHER = 5
#: Pairs of a fair comparison.
_PAIRS = 48
#: A difference from which on the fair experiment would say something else than that flaws made the published one.
_MATTERS = 0.25
#: Two, so that the core of the product is shared whatever core the system moves it to.
_NEIGHBOURS_PER_CORE = 2


@dataclass(frozen=True)
class Flaw:
    """A flawed experiment and the fair one.

    Attributes:
        name: what is wrong.
        reported: the speedup that each of several flawed experiments would publish; above 1 is faster.
        fair: the comparison of the same two, in turns and on equal terms.
        same_code: whether the two are one and the same function, so that the true ratio is 1.
    """

    name: str
    reported: Measurement
    fair: Comparison
    same_code: bool


def straw_man() -> Flaw:
    """A compiled GELU against a formula as one types it, which NumPy computes in float64 with a power; fairly against
    the framework's own."""
    x = np.random.default_rng(0).standard_normal(2**16, dtype=np.float32)

    def ours() -> Array:
        return fused_gelu(x)

    def reference() -> Array:
        with no_grad():
            return apply(ops.gelu, x).data

    flawed = [_median(lambda: typed_gelu(x)) / _median(ours) for _ in range(_TIMES)]
    return _flaw("a straw man for a baseline", flawed, reference, ours, same_code=False)


def typed_gelu(x: Array) -> Array:
    """Return the GELU of a float32 array by the formula as papers print it; the result is float64, and slow."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def unequal_threads() -> Flaw:
    """A product with one thread against the same product with all cores."""
    a = np.ones((_WIDTH, _WIDTH), np.float32)
    cores, flawed = len(usable_cores()), []

    def product() -> Array:
        return np.asarray(a @ a)

    for _ in range(_TIMES):
        with blas_threads(1):
            before = _median(product)
        with blas_threads(cores):
            flawed.append(before / _median(product))
    with blas_threads(1):
        return _flaw("unequal threads", flawed, product, product)


def cold_baseline() -> Flaw:
    """A dot product whose data come from memory, and then the same one again, whose data the first has brought.

    Before each, as many bytes as leave nothing else in the caches are read, some of them again to hold fewer.
    """
    vector, sweep = np.ones(2**17, np.float32), np.ones(exceeding_bytes() // (4 * ROUNDS), np.float32)

    def dot() -> float:
        return float(vector @ vector)

    flawed = []
    for _ in range(_TIMES):
        for _ in range(ROUNDS):
            sweep.sum()
        first, second = sample(dot, "first and second", warmup=0, runs=2).samples
        flawed.append(first / second)
    return _flaw("cold caches for the baseline alone", flawed, dot, dot)


def best_of_n() -> Flaw:
    """The mean of many runs against the best of as many of the same code."""
    forward, again = same_mlp()
    flawed = []
    for _ in range(_TIMES):
        before = sample(forward, "before", warmup=_RUNS, runs=50).mean
        flawed.append(before / sample(again, "after", warmup=_RUNS, runs=50).minimum)
    return _flaw("the best run against the mean", flawed, forward, again)


def busy_neighbours(times: int = 6) -> Flaw:
    """A product while other programs keep every core busy, and again when they have gone; fairly, they stay."""
    a = np.ones((_WIDTH, _WIDTH), np.float32)
    count, flawed = _NEIGHBOURS_PER_CORE * len(usable_cores()), []

    def product() -> Array:
        return np.asarray(a @ a)

    with blas_threads(1):
        for _ in range(times):
            with neighbours(count):
                before = _median(product)
            flawed.append(before / _median(product))
        with neighbours(count):
            return _flaw("busy neighbours of the baseline", flawed, product, product)


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Run the body beside ``count`` processes that do nothing but count; they end with it."""
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
        for process in busy:
            process.wait()


def flaws() -> list[Flaw]:
    """Return all five, done one after the other."""
    return [straw_man(), unequal_threads(), cold_baseline(), best_of_n(), busy_neighbours()]


def _median(function: Callable[[], Any]) -> float:
    """Return the median seconds of a few runs of ``function``, timed on its own, as one that is not compared is."""
    return sample(function, "timed alone", warmup=3, runs=_RUNS).median


def _flaw(
    name: str,
    flawed: list[float],
    baseline: Callable[[], Any],
    candidate: Callable[[], Any],
    same_code: bool = True,
) -> Flaw:
    pair = {"baseline": baseline, "candidate": candidate}
    both = interleave(pair, repeats=_PAIRS, at_most_seconds=4.0, warmup_seconds=_WARMUP_SECONDS)
    reported = Measurement(f"speedup reported with {name}", tuple(flawed), "")
    each = bonferroni(CONFIDENCE, _TOGETHER)
    fair = compare_paired(both["baseline"], both["candidate"], _MATTERS, confidence=each, compared=_TOGETHER)
    return Flaw(name, reported, fair, same_code)
