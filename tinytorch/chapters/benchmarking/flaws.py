"""Flawed experiments: five ways in which published speedups go wrong, two of them beside the same one done fairly."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.chapters.noise.order import neighbours
from tinytorch.core import ops
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.op import Array
from tinytorch.perf.acceleration import fused_gelu
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.host.identity import caches
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Derived, Measurement, blas_threads, interleave, sample
from tinytorch.perf.measuring.comparison import Comparison, compare_paired
from tinytorch.perf.measuring.conditions import Conditions, Sample
from tinytorch.perf.measuring.planning import rounds_within

#: Runs from which a flawed experiment makes its one number, and how often it is done.
_RUNS, _TIMES = 5, 7
#: Bytes that are swept at a time at the most, which the memory of a page allows.
_MOST_SWEPT = 256 * 2**20
#: Bytes that a last cache is taken to hold where the system does not report it: more than Apple's M1 Ultra has, 96 MB.
#: Source: https://eclecticlight.co/2024/03/06/apple-silicon-memory-and-internal-storage.
_ASSUMED_CACHE = 128 * 2**20
#: A difference from which on the fair experiment would say something else than that flaws made the published one.
_MATTERS = 0.25


def flaws() -> dict[str, dict[str, Any]]:
    """Return a row for each flaw: its name, the speedups that are ``published``, and the ``fair`` comparison, if any.

    All but the weak baseline compare a function with itself.
    """
    return {
        "straw": weak_baseline(),
        "threads": unequal_threads(),
        "cold": cold_baseline(),
        "best": best_of_n(),
        "busy": busy_neighbours(),
    }


def differences_not_there(published: Sequence[Measurement]) -> Derived:
    """Return how many of the experiments with one function publish an interval that does not hold 1."""
    what = "of the four experiments with one function as both: those whose published interval does not hold 1"
    there = sum(1.0 not in one.interval for one in published)
    return Derived(there, "1", what, tuple(published), "it counts verdicts")


def weak_baseline() -> dict[str, Any]:
    """A compiled GELU against a formula as papers print it; fairly against the framework's own."""
    x = np.random.default_rng(0).standard_normal(2**16, dtype=np.float32)

    def ours() -> Array:
        return fused_gelu(x)

    def reference() -> Array:
        with no_grad():
            return apply(ops.gelu, x).data

    name = "a weak baseline"
    return _row(name, lambda: _median(lambda: typed_gelu(x)) / _median(ours), _fair(reference, ours))


def typed_gelu(x: Array) -> Array:
    """Return the GELU of a float32 array by the formula as papers print it; the result is float64, and slow."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def unequal_threads() -> dict[str, Any]:
    """A product with one thread against the same product with all cores."""
    product, cores = _product(), len(usable_cores())
    return _row("unequal threads", lambda: _median(product) / _median(product, cores))


def cold_baseline() -> dict[str, Any]:
    """A dot product whose data come from memory, and then the same one again, whose data the first has brought.

    Before each, as many bytes as leave nothing else in the caches are read, some of them again to hold fewer. Of a
    cache beyond `_MOST_SWEPT` some may stay.
    """
    last = max((one.level for one in caches()), default=0)
    largest = max((one.size for one in caches() if one.level == last), default=_ASSUMED_CACHE)
    vector, sweep = np.ones(2**17, np.float32), np.ones(min(largest, _MOST_SWEPT) // 4, np.float32)

    def speedup() -> float:
        for _ in range(2):
            sweep.sum()
        first, second = sample(lambda: vector @ vector, "first and second", warmup=0, runs=2).samples
        return first / second

    return _row("cold caches for the baseline alone", speedup)


def best_of_n() -> dict[str, Any]:
    """The mean of many runs of the MLP on one image against the best of as many of the same code."""
    call = forward_pass(models.mlp(), models.example("mlp", 1))

    def speedup() -> float:
        before, after = (sample(call, name, warmup=_RUNS, runs=50) for name in ("before", "after"))
        return before.mean / after.minimum

    return _row("the best run against the mean", speedup)


def busy_neighbours() -> dict[str, Any]:
    """A product while other programs keep every core busy, and again when they have gone; fairly, they stay."""
    product = _product()

    def products() -> None:  # for longer than a slice of the system
        for _ in range(5):
            product()

    def speedup() -> float:
        with neighbours():
            before = _median(products)
        return before / _median(products)

    published = _row("busy neighbours of the baseline", speedup)
    with neighbours():
        return {**published, "fair": _fair(products, products)}


def _product() -> Callable[[], Array]:
    a = np.ones((512, 512), np.float32)
    return lambda: np.asarray(a @ a)


def _median(function: Callable[[], Any], threads: int = 1) -> float:
    """Return the median seconds of a few runs of ``function``, timed on its own, as one that is not compared is."""
    with blas_threads(threads):
        return sample(function, "timed alone", warmup=2, runs=_RUNS).median


def _fair(baseline: Callable[[], Any], candidate: Callable[[], Any]) -> Comparison:
    pair = {"baseline": baseline, "candidate": candidate}
    both = interleave(pair, resolve=_MATTERS, at_most_seconds=4.0, warmup_seconds=0.1)
    return compare_paired(both["baseline"], both["candidate"], _MATTERS, together=2)


def _row(name: str, speedup: Callable[[], float], fair: Comparison | None = None) -> dict[str, Any]:
    """Return the speedups that several repeats of a flawed experiment publish, beside the fair comparison."""
    published = tuple(speedup() for _ in rounds_within(3.0, _TIMES, fewest=2))
    # As its author would: each repeat is taken as independent of the others, and nothing is known of other runs.
    alone = Conditions(sample=Sample.TRIALS)
    return {
        "name": name,
        "published": Measurement(f"speedup published with {name}", published, "", alone),
        "fair": fair,
    }
