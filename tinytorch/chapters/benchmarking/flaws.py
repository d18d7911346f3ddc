"""Flawed experiments: five ways in which published speedups go wrong, each beside the same one done fairly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.noise.order import neighbours
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.acceleration import fused_gelu
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Derived, Measurement, blas_threads, interleave, sample
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.sampling import ROUNDS, exceeding_bytes

#: Runs from which a flawed experiment makes its one number, and how often it is done.
_RUNS, _TIMES = 6, 9
#: Products in a run beside neighbours, which then takes longer than a slice of the system.
_LONG = 10
_WARMUP_SECONDS = 0.1
#: Bytes that are swept at a time at the most, which the memory of a page allows.
_MOST_SWEPT = 256 * 2**20
#: Pairs of a fair comparison, and how many comparisons a reader takes together, one of each flaw.
_PAIRS, _TOGETHER = 48, 5
#: A difference from which on the fair experiment would say something else than that flaws made the published one.
_MATTERS = 0.25


@dataclass(frozen=True)
class Flaw:
    """The speedups that flawed experiments would publish, and a comparison of the same two in turns, on equal terms."""

    name: str
    reported: Measurement
    fair: Comparison


def flaws() -> dict[str, Flaw]:
    """Return all five, done one after the other; all but the weak baseline compare a function with itself."""
    return {
        "straw": straw_man(),
        "threads": unequal_threads(),
        "cold": cold_baseline(),
        "best": best_of_n(),
        "busy": busy_neighbours(),
    }


def differences_not_there(done: Mapping[str, Flaw]) -> Derived:
    """Return how many experiments with one function as both publish an interval that does not hold 1."""
    reported = tuple(flaw.reported for key, flaw in done.items() if key != "straw")
    what = "of the four experiments with one function as both: those whose published interval does not hold 1"
    return Derived(sum(1.0 not in one.interval for one in reported), "1", what, reported, "it counts verdicts")


def straw_man() -> Flaw:
    """A compiled GELU against a formula as papers print it; fairly against the framework's own."""
    x = np.random.default_rng(0).standard_normal(2**16, dtype=np.float32)

    def ours() -> Array:
        return fused_gelu(x)

    def reference() -> Array:
        with no_grad():
            return apply(ops.gelu, x).data

    flawed = [_median(lambda: typed_gelu(x)) / _median(ours) for _ in range(_TIMES)]
    return _flaw("a weak baseline", flawed, reference, ours)


def typed_gelu(x: Array) -> Array:
    """Return the GELU of a float32 array by the formula as papers print it; the result is float64, and slow."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def unequal_threads() -> Flaw:
    """A product with one thread against the same product with all cores."""
    product, cores = _product(), len(usable_cores())
    flawed = [_median(product) / _median(product, cores) for _ in range(_TIMES)]
    with blas_threads(1):
        return _flaw("unequal threads", flawed, product)


def cold_baseline() -> Flaw:
    """A dot product whose data come from memory, and then the same one again, whose data the first has brought.

    Before each, as many bytes as leave nothing else in the caches are read, some of them again to hold fewer. Of a
    cache beyond `_MOST_SWEPT` some may stay.
    """
    vector, sweep = np.ones(2**17, np.float32), np.ones(min(exceeding_bytes() // ROUNDS, _MOST_SWEPT) // 4, np.float32)

    def dot() -> float:
        return float(vector @ vector)

    flawed = []
    for _ in range(_TIMES):
        for _ in range(ROUNDS):
            sweep.sum()
        first, second = sample(dot, "first and second", warmup=0, runs=2).samples
        flawed.append(first / second)
    return _flaw("cold caches for the baseline alone", flawed, dot)


def best_of_n() -> Flaw:
    """The mean of many runs of the MLP on one image against the best of as many of the same code."""
    entry, flawed = models.entry("mlp"), []
    call = forward_pass(entry.make(0), models.as_input(entry.example_input(1)))
    for _ in range(_TIMES):
        before, after = (sample(call, name, warmup=_RUNS, runs=50) for name in ("before", "after"))
        flawed.append(before.mean / after.minimum)
    return _flaw("the best run against the mean", flawed, call)


def busy_neighbours(times: int = 6) -> Flaw:
    """A product while other programs keep every core busy, and again when they have gone; fairly, they stay."""
    product, flawed = _product(), []

    def products() -> None:
        for _ in range(_LONG):
            product()

    for _ in range(times):
        with neighbours():
            before = _median(products)
        flawed.append(before / _median(products))
    # Many pairs, as a neighbour's turn falls into one sample and not into the next.
    with blas_threads(1), neighbours():
        return _flaw("busy neighbours of the baseline", flawed, product, pairs=4 * _PAIRS)


def _product() -> Callable[[], Array]:
    a = np.ones((512, 512), np.float32)
    return lambda: np.asarray(a @ a)


def _median(function: Callable[[], Any], threads: int = 1) -> float:
    """Return the median seconds of a few runs of ``function``, timed on its own, as one that is not compared is."""
    with blas_threads(threads):
        return sample(function, "timed alone", warmup=3, runs=_RUNS).median


def _flaw(
    name: str,
    flawed: list[float],
    baseline: Callable[[], Any],
    candidate: Callable[[], Any] | None = None,
    pairs: int = _PAIRS,
) -> Flaw:
    """Return the flawed speedups beside a fair comparison, of one function with itself without a candidate."""
    pair = {"baseline": baseline, "candidate": candidate or baseline}
    both = interleave(pair, repeats=pairs, at_most_seconds=4.0, warmup_seconds=_WARMUP_SECONDS)
    fair = compare_paired(both["baseline"], both["candidate"], _MATTERS, together=_TOGETHER)
    # As its author would: each repeat is taken as independent of the others, and nothing is known of other runs.
    alone = Conditions(sample=Sample.TRIALS)
    return Flaw(name, Measurement(f"speedup reported with {name}", tuple(flawed), "", alone), fair)
